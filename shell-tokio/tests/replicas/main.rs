//! A plain router over mock replicas that fail, on real sockets: who is asked, who is asked next, who is asked no more.
#![allow(missing_docs)]

mod health;
mod retry;
mod stage;
