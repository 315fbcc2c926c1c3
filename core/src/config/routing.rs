//! `selection_strategy`, `routing`, `request` and `fallback`: how a request finds its replica (data-plane 3).

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::forms;
use super::reader::{Reader, Section};

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

impl Strategy {
    /// Whether what a request says decides where it goes.
    pub(crate) const fn goes_by_key(self) -> bool {
        matches!(self, Self::ConsistentHash | Self::PrefixAware)
    }
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
    /// Whether the client's credential goes on to the replica; never without the legacy worker.
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

pub(super) const STRATEGIES: &[(&str, Strategy)] = &[
    ("weighted", Strategy::Weighted),
    ("round_robin", Strategy::RoundRobin),
    ("random", Strategy::Random),
    ("least_latency", Strategy::LeastLatency),
    ("least_loaded", Strategy::LeastLoaded),
    ("consistent_hash", Strategy::ConsistentHash),
    ("prefix_aware", Strategy::PrefixAware),
];
pub(super) const WEIGHTS: &[(&str, Weights)] = &[("normalised", Weights::Normalised), ("literal", Weights::Literal)];
pub(super) const REWRITES: &[(&str, RewriteModel)] = &[("auto", RewriteModel::Auto), ("never", RewriteModel::Never)];

/// Reads `selection_strategy` and `routing`. `legacy` is whether the legacy worker runs.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>, legacy: bool) -> Routing {
    let section = reader.section(root, "routing");
    let outside = reader.choice(root, "selection_strategy", STRATEGIES);
    let inside = reader.choice(&section, "selection_strategy", STRATEGIES);
    if root.has("selection_strategy") && section.has("selection_strategy") {
        let wrong = "given twice, also as selection_strategy outside of routing";
        reader.problem(
            section.place("selection_strategy"),
            section.key("selection_strategy"),
            wrong,
            "keep one of them",
        );
    }
    let forward = reader.value(&section, "forward_credentials", forms::boolean).unwrap_or(false);
    let routing = Routing {
        strategy: inside.or(outside).unwrap_or_default(),
        weights: reader.choice(&section, "weights", WEIGHTS).unwrap_or_default(),
        rewrite_model: reader.choice(&section, "rewrite_model", REWRITES).unwrap_or_default(),
        forward_credentials: forward && legacy,
        affinity_header: reader.value(&section, "affinity_header", forms::header),
        max_in_flight: reader.value(&section, "max_in_flight", forms::positive),
        queue_timeout: reader.value(&section, "queue_timeout", forms::duration).unwrap_or_default(),
    };
    if forward && !legacy {
        let text = "has no effect without an enabled `appproxy` section: keys of this worker never reach a replica";
        reader.warn(section.place("forward_credentials"), section.key("forward_credentials"), text);
    }
    reader.finish(&section);
    routing
}

/// Reads `request`.
pub(super) fn read_request(reader: &mut Reader<'_>, root: &Section<'_>) -> Request {
    let section = reader.section(root, "request");
    let default = Request::default();
    let request = Request {
        connect_timeout: reader.value(&section, "connect_timeout", forms::time).unwrap_or(default.connect_timeout),
        first_byte_timeout: reader
            .value(&section, "first_byte_timeout", forms::time)
            .unwrap_or(default.first_byte_timeout),
        idle_timeout: reader.value(&section, "idle_timeout", forms::time).unwrap_or(default.idle_timeout),
        max_retries: reader.value(&section, "max_retries", forms::number).unwrap_or(default.max_retries),
        retry_buffer: reader.value(&section, "retry_buffer", forms::size).unwrap_or(default.retry_buffer),
    };
    reader.finish(&section);
    request
}
