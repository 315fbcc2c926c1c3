//! The control plane: one [`Input`] in, [`Output`]s out (worker-protocol 1, 3.3, 5.2).

mod call;
mod input;
mod output;
mod standing;

pub use call::{Call, CallBody, CallEnded, CallId, CallOutcome, CallRequest, CallResponse, TransportFailure};
pub use input::Input;
pub use output::{AckId, AckTicket, Command, Deadline, Event, Output, Severity, WakeReason};
pub use standing::Standing;
