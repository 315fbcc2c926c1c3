//! The AppProxy inference worker on tokio and axum: everything that waits. What decides is in `appproxy-core`.
//!
//! | file | waits for |
//! |---|---|
//! | `membership`, `control` | the core's deadlines, calls, bus, orders: the one loop of the control plane |
//! | `calls`, `coordinator` | the coordinator's answers |
//! | `prober` | the backends' answers to probes |
//! | `bus`, `publish` | Redis |
//! | `journal` | the disk |
//! | `listen`, `plane`, `pace` | connections of clients |
//! | `data`, `body`, `upload`, `unpacking`, `attempts`, `held`, `upstream`, `pool`, `lane`, `relay`, `tunnel` | one request: the client's body, a replica's answer, the client taking it |
//! | `admin`, `observe`, `access_line`, `logs`, `failures`, `witness` | nothing; they say what happens |
//! | `start`, `shutdown` | the beginning and the end |
//! | `run`, `check`, `demo`, `replay` | the commands |
//! | `executor`, `streams`, `dial` | what the rest asks of a runtime: tasks, time, connections |

mod access_line;
mod admin;
mod attempts;
mod body;
mod bus;
mod calls;
pub mod check;
mod clock;
mod control;
mod coordinator;
mod data;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
pub mod demo;
mod dial;
mod embedded;
mod executor;
pub mod explain;
mod failures;
mod held;
mod journal;
mod lane;
mod listen;
mod logs;
mod membership;
mod node;
mod observe;
mod pace;
mod part;
mod plane;
mod pool;
mod prober;
mod publish;
mod relay;
pub mod replay;
pub mod run;
mod shutdown;
mod start;
mod streams;
mod tls;
mod tunnel;
mod unpacking;
mod upload;
mod upstream;
mod witness;

pub use appproxy_core::command::Failed;
pub use listen::BoundAddress;
pub use logs::start as start_logs;
pub use start::Running;

/// What this program is called.
const PROGRAM: &str = "appproxy-worker";
