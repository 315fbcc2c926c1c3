//! `selection_strategy`, `routing`, `request` and `fallback`: how a request finds its replica (data-plane 3).

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How one of the candidates is chosen (data-plane 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Low-discrepancy draw by weight.
    #[default]
    Weighted,
    /// In turn.
    RoundRobin,
    /// By chance.
    Random,
    /// Shortest time to first byte.
    LeastLatency,
    /// Fewest requests in flight.
    LeastLoaded,
    /// Bounded-load consistent hashing of model and leading messages.
    ConsistentHash,
    /// The same by prompt prefix.
    PrefixAware,
}

/// What a candidate's weight is (worker-protocol 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weights {
    /// The exact product of its shares.
    #[default]
    Normalised,
    /// The documented integer.
    Literal,
}

/// Whether `model` is rewritten to the name the replica knows (data-plane 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RewriteModel {
    /// When the replica does not list the requested name.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// `selection_strategy` and `routing`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routing {
    /// How a candidate is chosen.
    pub strategy: Strategy,
    /// What weights are.
    pub weights: Weights,
    /// Whether names are rewritten.
    pub rewrite_model: RewriteModel,
    /// Whether the client's credential goes on to the replica; legacy mode only.
    pub forward_credentials: bool,
    /// Request header that keeps a client with its replica; lower-case.
    pub affinity_header: Option<String>,
    /// Requests at once to one replica; `None` is no bound.
    pub max_in_flight: Option<u32>,
    /// Time a request waits for a replica below that bound.
    pub queue_timeout: Duration,
}

/// `request`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Time to connect to a replica.
    pub connect_timeout: Duration,
    /// Time to the first byte of its answer.
    pub first_byte_timeout: Duration,
    /// Time between two chunks.
    pub idle_timeout: Duration,
    /// Further candidates after the first.
    pub max_retries: u32,
    /// Bytes of a body kept for them.
    pub retry_buffer: u64,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(300),
            max_retries: 2,
            retry_buffer: 1024 * 1024,
        }
    }
}

/// `fallback.fallback_chains`, without cycles: what to try when a model has no candidate left.
pub type FallbackChains = BTreeMap<Arc<str>, Vec<Arc<str>>>;
