//! The data plane: one request, states by value (data-plane 3, worker-protocol 5.3).
//!
//! ```text
//! Gate::open ──► Gate::pass ──► Gated::route ──► Admitted::attempt ──► Attempt::head ──► Committed::ended ──► Outcome
//!  path, key,     rate, lists    body, model                  ▲   │
//!  address                                                    └───┘ Attempt::failed
//! ```
//!
//! Every step may instead end with an [`Answer`] made here, and every state in an [`Outcome`]. What may follow is what
//! a state has methods for: from [`Committed`] no way leads back to another attempt. The core sees no body but the
//! request's, whole, in [`Gated::route`]; the shell reads it after key, address and rate are known to be good.

mod answer;
mod attempt;
mod committed;
mod control;
mod cors;
mod credential;
mod denial;
mod draw;
mod from_config;
mod gate;
mod gated;
mod headers;
mod holder;
mod models;
pub mod multipart;
mod operator_keys;
mod outbound;
mod outcome;
mod pages;
mod passage;
pub mod peek;
mod quoted;
mod rules;
pub mod selection;
mod surface;
#[cfg(test)]
#[cfg(feature = "appproxy-router")]
mod testing;
#[cfg(test)]
#[cfg(feature = "appproxy-router")]
mod whole_tests;

pub use answer::Answer;
pub use attempt::{Admitted, Attempt, FailStage, Failure};
pub use committed::{Committed, ReplyHead};
pub use control::{Control, Node};
pub use cors::AllowedOrigins;
pub use denial::{Code, Denial, RETRY_AFTER_SECONDS, stream_error_event};
pub use gate::{Connection, Gate};
pub use gated::Gated;
pub use operator_keys::{OperatorKey, OperatorKeys, token_hash};
pub use outbound::Payload;
pub use outcome::{EndOfBody, Outcome, Trail};
pub use pages::render as page;
pub use rules::{ExchangeRules, KeyGate, RewriteModel};
pub use surface::{Destination, Nowhere, Page, Surface};
