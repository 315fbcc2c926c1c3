//! The AppProxy inference worker on smol: everything that waits. What decides is in `appproxy-core`.
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

#[path = "../../shell-tokio/src/access_line.rs"]
mod access_line;
#[path = "../../shell-tokio/src/admin.rs"]
mod admin;
mod alarm;
#[path = "../../shell-tokio/src/attempts.rs"]
mod attempts;
#[path = "../../shell-tokio/src/body.rs"]
mod body;
#[path = "../../shell-tokio/src/bus.rs"]
mod bus;
#[path = "../../shell-tokio/src/calls.rs"]
mod calls;
#[path = "../../shell-tokio/src/check.rs"]
pub mod check;
#[path = "../../shell-tokio/src/clock.rs"]
mod clock;
#[path = "../../shell-tokio/src/control.rs"]
mod control;
mod coordinator;
#[path = "../../shell-tokio/src/data.rs"]
mod data;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
#[path = "../../shell-tokio/src/demo.rs"]
pub mod demo;
#[path = "../../shell-tokio/src/dial.rs"]
mod dial;
mod executor;
#[path = "../../shell-tokio/src/explain.rs"]
pub mod explain;
#[path = "../../shell-tokio/src/failures.rs"]
mod failures;
#[path = "../../shell-tokio/src/held.rs"]
mod held;
#[path = "../../shell-tokio/src/journal.rs"]
mod journal;
#[path = "../../shell-tokio/src/lane.rs"]
mod lane;
#[path = "../../shell-tokio/src/listen.rs"]
mod listen;
#[path = "../../shell-tokio/src/logs.rs"]
mod logs;
#[path = "../../shell-tokio/src/membership.rs"]
mod membership;
#[path = "../../shell-tokio/src/node.rs"]
mod node;
#[path = "../../shell-tokio/src/observe.rs"]
mod observe;
#[path = "../../shell-tokio/src/pace.rs"]
mod pace;
#[path = "../../shell-tokio/src/part.rs"]
mod part;
#[path = "../../shell-tokio/src/plane.rs"]
mod plane;
#[path = "../../shell-tokio/src/pool.rs"]
mod pool;
#[path = "../../shell-tokio/src/prober.rs"]
mod prober;
#[path = "../../shell-tokio/src/publish.rs"]
mod publish;
#[path = "../../shell-tokio/src/relay.rs"]
mod relay;
#[path = "../../shell-tokio/src/replay.rs"]
pub mod replay;
#[path = "../../shell-tokio/src/run.rs"]
pub mod run;
#[path = "../../shell-tokio/src/shutdown.rs"]
mod shutdown;
mod socket;
#[path = "../../shell-tokio/src/start.rs"]
mod start;
mod streams;
#[path = "../../shell-tokio/src/tls.rs"]
mod tls;
#[path = "../../shell-tokio/src/tunnel.rs"]
mod tunnel;
#[path = "../../shell-tokio/src/unpacking.rs"]
mod unpacking;
#[path = "../../shell-tokio/src/upload.rs"]
mod upload;
#[path = "../../shell-tokio/src/upstream.rs"]
mod upstream;
#[path = "../../shell-tokio/src/witness.rs"]
mod witness;

pub use appproxy_core::command::Failed;
pub use listen::BoundAddress;
pub use logs::start as start_logs;
pub use start::Running;

/// What this program is called.
const PROGRAM: &str = "appproxy-worker-smol";
