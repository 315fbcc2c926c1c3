//! The desired state, as the coordinator told it, and what follows from it (worker-protocol 6).
//!
//! Events and pulls only *edit* [`Desired`]. What is served is a pure function of it ([`reconcile()`]), whatever the
//! order of the edits; `serving` keeps the same result up to date from what [`Desired::take_touched`] names.

mod address;
mod backend;
mod digest;
mod edit;
mod learned;
#[cfg(feature = "appproxy-legacy")]
mod legacy;
mod origin;
mod reconcile;
mod report;
#[cfg(feature = "appproxy-router")]
mod router;
mod rules;
mod sub_domains;
mod touched;

pub use address::{Target, X_API_KEY, X_GOOG_API_KEY};
pub use backend::{Backend, BackendKind, OWNED_PREFIX, circuit_of_name, documented_weight};
pub use digest::{StateDigest, pseudonym, pseudonymised};
pub use edit::Desired;
pub use learned::Learned;
pub use origin::Origin;
pub use reconcile::{Reconciled, RouteBackend, circuit_backends, name_report, reconcile};
pub use report::{StateReport, circuit_report, publication_report, sub_domain_report};
pub use rules::{EndpointTerms, Rules};
pub use sub_domains::Arrivals;
pub use touched::Touched;
