//! What waits of the AppProxy inference worker, on any runtime. What decides is in `appproxy-core`; what a runtime is asked
//! for is [`Runtime`].
//!
//! | file | waits for |
//! |---|---|
//! | `membership`, `control` | the core's deadlines, calls, bus, orders: the one loop of the control plane |
//! | `calls` | the coordinator's answers |
//! | `prober` | the backends' answers to probes |
//! | `bus`, `publish` | Redis |
//! | `journal` | the disk |
//! | `listen`, `plane`, `pace`, `paced` | connections of clients |
//! | `embedded` | requests on connections that are not ours |
//! | `data`, `body`, `upload`, `unpacking`, `attempts`, `held`, `upstream`, `pool`, `lane`, `relay`, `tunnel` | one request: the client's body, a replica's answer, the client taking it |
//! | `admin`, `observe`, `access_line`, `logs`, `failures`, `witness` | nothing; they say what happens |
//! | `start`, `shutdown` | the beginning and the end |
//! | `command_line`, `run`, `check`, `demo`, `replay`, `explain` | the commands |
//! | `runtime`, `stream`, `futures_io` | nothing; what a runtime is asked for |
//! | `dial`, `http_timer`, `switch`, `part` | what is made of it |
//! | `node`, `clock`, `tls` | nothing; what requests share, and what is made of the configuration |
//! | `defective` | the commands of a program that a test makes wrong |

mod access_line;
mod admin;
mod attempts;
mod body;
mod bus;
mod calls;
pub mod check;
mod clock;
pub mod command_line;
mod control;
mod data;
#[cfg(feature = "defects")]
pub mod defective;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
pub mod demo;
mod dial;
mod embedded;
pub mod explain;
mod failures;
mod futures_io;
mod held;
mod http_timer;
mod journal;
mod lane;
mod listen;
mod logs;
mod membership;
mod node;
mod observe;
mod pace;
mod paced;
mod part;
#[cfg(test)]
#[path = "tests/plain.rs"]
mod plain;
mod plane;
mod pool;
mod prober;
mod publish;
mod relay;
pub mod replay;
pub mod run;
mod runtime;
mod shutdown;
mod start;
mod stream;
mod switch;
mod tls;
mod tunnel;
mod unpacking;
mod upload;
mod upstream;
mod witness;

pub use appproxy_core::command::Failed;
pub use body::Coming;
pub use calls::fetch;
pub use embedded::Embedded;
pub use failures::classify_io;
pub use futures_io::FuturesIo;
pub use listen::BoundAddress;
pub use logs::start as start_logs;
pub use runtime::{Runtime, Signals, Timer};
pub use start::Running;
pub use stream::Stream;
