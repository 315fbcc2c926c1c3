//! The AppProxy inference worker on tokio and axum: everything that waits. What decides is in `appproxy-core`.
//!
//! | file | waits for |
//! |---|---|
//! | `membership`, `control` | the core's deadlines, calls, bus, orders: the one loop of the control plane |
//! | `coordinator` | the coordinator's answers |
//! | `prober` | the backends' answers to probes |
//! | `bus`, `publish` | Redis |
//! | `journal` | the disk |
//! | `listen`, `plane`, `pace` | connections of clients |
//! | `data`, `body`, `unpacking`, `attempts`, `held`, `upstream`, `marked`, `relay`, `tunnel` | one request: the client's body, a replica's answer, the client taking it |
//! | `admin`, `observe`, `access_line`, `logs`, `failures`, `witness` | nothing; they say what happens |
//! | `start`, `shutdown` | the beginning and the end |
//! | `run`, `check`, `demo`, `replay` | the commands |

mod access_line;
mod admin;
mod attempts;
mod body;
#[cfg(feature = "appproxy-common")]
mod bus;
pub mod check;
mod clock;
#[cfg(feature = "appproxy-common")]
mod control;
#[cfg(feature = "appproxy-common")]
mod coordinator;
mod data;
#[cfg(feature = "appproxy-router")]
pub mod demo;
pub mod explain;
#[cfg(feature = "appproxy-common")]
mod failures;
mod held;
#[cfg(feature = "appproxy-common")]
mod journal;
mod listen;
mod logs;
mod marked;
#[cfg(feature = "appproxy-common")]
mod membership;
#[cfg(not(feature = "appproxy-common"))]
#[path = "no_membership.rs"]
mod membership;
mod node;
#[cfg(feature = "appproxy-common")]
mod observe;
mod pace;
mod plane;
#[cfg(feature = "appproxy-common")]
mod prober;
#[cfg(feature = "appproxy-common")]
mod publish;
mod relay;
#[cfg(feature = "appproxy-common")]
pub mod replay;
pub mod run;
mod shutdown;
mod start;
mod tls;
mod tunnel;
mod unpacking;
mod upstream;
mod witness;

pub use listen::BoundAddress;
pub use logs::start as start_logs;
pub use start::Running;

/// Why a command failed: what is said on standard error, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// 1 failed at run time, 2 bad configuration or usage.
    pub code: u8,
    /// In words.
    pub message: String,
}

impl Failed {
    pub(crate) const fn run(message: String) -> Self {
        Self { code: 1, message }
    }

    pub(crate) const fn config(message: String) -> Self {
        Self { code: 2, message }
    }
}

impl core::fmt::Display for Failed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Failed {}

fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::run(format!("no runtime: {error}")))
}
