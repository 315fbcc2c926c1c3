//! A plain router over mock replicas that fail, on real sockets: who is asked, who is asked next, who is asked no more.
#![cfg(feature = "appproxy-common")]
#![allow(missing_docs)]

mod health;
mod retry;
mod stage;
