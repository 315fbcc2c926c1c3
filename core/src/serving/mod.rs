//! The immutable state the data plane reads, and how it is made from the desired state.

mod changes;
mod view;

pub use changes::ChangeSet;
pub use view::{Generation, ServingView};
