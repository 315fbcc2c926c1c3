//! The journal: every input of one worker, from which its outputs can be had again (data-plane 1, 7).
//!
//! A journal is JSON lines. The first is the [`Head`]; every further one is an input with its number, from 1, and its
//! `Now`. Nothing secret is in it: of an answer only what the worker reads of it is kept, hashes of keys are replaced by
//! their pseudonyms ([`crate::desired::pseudonym`]), circuits stand without their echo (which holds `envs` and
//! `arguments`), and runs of hex digits in free text are masked. Of a pull's answer only what differs from the
//! one before it is written.
//!
//! A long-lived worker's journal is cut into parts. A later part's head holds a [`Checkpoint`], so that every part can be
//! replayed by itself; inputs are numbered on.
//!
//! *Equal on replay* means: [`shown`] writes the same lines for the outputs of the live worker and of [`Replay`].

mod changed;
mod checkpoint;
mod difference;
mod line;
mod parts;
mod print;
mod record;
mod replay;
pub mod shown;

pub use checkpoint::Checkpoint;
pub use difference::Difference;
pub use line::{BEGINNING_BYTES, Damaged, Head, VERSION, begins_as_journal};
pub use parts::{Order, PartBounds, Parts, make_room};
pub use print::{Show, print};
pub use record::Recorder;
pub use replay::{Replay, Step};
