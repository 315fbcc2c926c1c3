//! The data plane: one request, states by value (data-plane 3, worker-protocol 5.3).
//!
//! ```text
//! Gate::open ──► Gate::pass ──► Gated::route ──► Admitted::begin
//!  path, key,     rate, lists    body, model            │
//!  address                                              ▼
//!                 Attempt::failed, Attempt::head ──► Choosing::choose ──► Attempt::head ──► Committed::ended ──► Outcome
//! ```
//!
//! Before there is a request, [`Framing`] judges the bytes of its connection. An error of the replica whose words have to
//! be put into the caller's shape is an [`Explained`] between the last two. Every step may instead end with an [`Answer`]
//! made here, and every state in an [`Outcome`]. What may follow is what
//! a state has methods for: from [`Committed`] no way leads back to another attempt. The core keeps no
//! body but the request's, whole, from [`Gated::route`] on; it is read after key, address and rate are known to be good.

mod admitted;
mod affinity;
mod answer;
mod asking_again;
mod attempt;
mod budget;
mod chain;
mod choosing;
mod chunked;
mod collect;
mod committed;
mod connection;
mod control;
mod cors;
mod credential;
mod denial;
mod draw;
mod explain;
mod explain_causes;
mod explain_step;
mod explain_text;
mod explained;
mod facts;
mod fallback;
mod fixed;
mod flat;
mod framing;
mod from_config;
mod gate;
mod gated;
mod gemini;
mod headers;
mod holder;
pub mod http1;
mod idle;
#[cfg(feature = "appproxy-legacy")]
mod legacy;
mod length_lines;
mod load;
mod models;
pub mod multipart;
mod onward;
mod operator_keys;
mod outbound;
mod outcome;
mod outgoing;
mod pace;
mod pages;
mod passage;
pub mod peek;
mod queue;
mod queued;
mod quoted;
mod rendezvous;
mod rules;
mod scan;
pub mod selection;
mod shown;
mod states;
mod surface;
#[cfg(test)]
#[cfg(feature = "appproxy-router")]
pub(crate) mod testing;
mod tree;
mod unpack;
mod upload;
mod uploading;
mod usage;
mod waiting;
#[cfg(test)]
#[cfg(feature = "appproxy-router")]
mod whole_tests;
mod window;

pub use crate::desired::Origin;
pub use admitted::Admitted;
pub use answer::Answer;
pub use attempt::{Attempt, FailStage, Failure, Head};
pub use budget::RetryBudget;
pub use choosing::{Choosing, Chosen};
pub use collect::{BodyBounds, Collecting, Room};
pub use committed::{Committed, ReplyHead};
pub use connection::Connection;
pub use control::{Control, Node};
pub use cors::AllowedOrigins;
pub use denial::{Code, Denial, RETRY_AFTER_SECONDS, stream_error_event};
pub use explain::{AccessToken, Explanation, Figures, Question, Refusal, StandIn, explain};
pub use explain_step::Step;
pub use explained::Explained;
pub use fallback::Fallbacks;
pub use fixed::{FULL, fault};
pub use framing::{BadHead, Fault, Framing};
pub use gate::Gate;
pub use gated::Gated;
pub use idle::{Idle, IdleAt, Line};
#[cfg(feature = "appproxy-legacy")]
pub use legacy::Doors;
pub use load::{Load, Loads, Ticket};
pub use operator_keys::{OperatorKey, OperatorKeys, token_hash};
pub use outbound::Payload;
pub use outcome::{AttemptRecord, EndOfBody, Outcome, Trail};
pub use outgoing::Outgoing;
pub use pace::{Ended, Intake, Pace};
pub use pages::render as page;
pub use queue::Place;
pub use queued::Queued;
pub use rules::{Entrance, ExchangeRules, KeyGate, RewriteModel};
pub use shown::{EndpointShown, GroupShown, PoolShown, ReplicaShown};
pub use states::States;
pub(crate) use surface::decode;
pub use surface::encode_segment as query_value;
pub use surface::{Destination, Nowhere, Page, Surface};
pub use upload::Upload;
pub use usage::Usage;
pub use waiting::Waiting;
