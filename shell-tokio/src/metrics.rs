//! What `/metrics` shows (data-plane 7). [`TABLE`] is the one list of names; a test compares it with the export.
//!
//! Labels never carry a key, a hash or a client address. Models and backends become labels only while they are
//! published; the series of those that go are dropped with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use appproxy_core::serving::{Health, HealthCounts};
use core::time::Duration;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

/// One exported metric: its name as exported, its kind, what it says.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name, without the `_total` of counters. Renaming it breaks dashboards.
    pub name: &'static str,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// One sentence, without the full stop.
    pub help: &'static str,
}

macro_rules! table {
    ($($name:ident = $exported:literal $kind:literal $help:literal;)*) => {
        $(const $name: Row = Row { name: $exported, kind: $kind, help: $help };)*
        /// Every metric of the export.
        pub const TABLE: &[Row] = &[$($name),*];
    };
}

table! {
    BUILD = "appproxy_build" "info" "Version of this worker";
    REQUESTS = "appproxy_requests" "counter" "Requests answered, by model, backend and status";
    REFUSALS = "appproxy_refusals" "counter" "Requests refused by this worker itself, by reason";
    IN_FLIGHT = "appproxy_requests_in_flight" "gauge" "Requests whose answer has not ended yet";
    FIRST_BYTE = "appproxy_time_to_first_byte_seconds" "histogram" "From a request's head to its answer's head, by model";
    DURATION = "appproxy_request_duration_seconds" "histogram" "From a request's head to its answer's end, by model";
    RETRIES = "appproxy_retries" "counter" "Attempts beyond a request's first";
    FALLBACKS = "appproxy_fallbacks" "counter" "Requests for which another model of a fallback chain was tried";
    ABANDONED = "appproxy_responses_cut" "counter" "Answers that did not end well, by who cut them";
    CONNECTIONS = "appproxy_connections" "gauge" "Open connections of clients";
    CONNECTIONS_CUT = "appproxy_connections_cut" "counter" "Connections of clients that this worker ended, by why";
    RELOADS = "appproxy_config_reloads" "counter" "Readings of a changed configuration, by outcome";
    CONFIG_GOOD = "appproxy_config_accepted" "gauge" "1 while the configuration file was accepted as last read, 0 while not";
    EVENTS = "appproxy_bus_events" "counter" "Bus events for this authority, by event and outcome";
    MALFORMED = "appproxy_malformed" "counter" "Malformed input of the control plane, by kind";
    PULLS = "appproxy_pulls" "counter" "Pulls from the coordinator, by scope and outcome";
    CALLS = "appproxy_coordinator_calls" "counter" "Calls to the coordinator, by call and outcome";
    NOTICES = "appproxy_notices" "counter" "Notices for the operator, by code";
    ACKS = "appproxy_acks" "counter" "Acks, by outcome";
    CREDENTIALS_REFUSED = "appproxy_credentials_refused" "counter" "Requests whose backend refused its configured credential";
    PROBES = "appproxy_probes" "counter" "Probes of backends, by outcome";
    EJECTIONS = "appproxy_ejections" "counter" "Quarantines of backends that failed live traffic";
    ENDS_LOST = "appproxy_health_reports_lost" "counter" "Ends of attempts that came too fast to be judged";
    LAST_PULL = "appproxy_last_full_pull_seconds_ago" "gauge" "Age of the last full pull applied; -1 before the first";
    GENERATION = "appproxy_view_generation" "gauge" "Number of the serving view in force";
    DIGEST = "appproxy_desired_state" "info" "Digest of what is applied; equal on all nodes that agree";
    REVISION = "appproxy_revision" "info" "Revision of the router-config last applied";
    APPLY = "appproxy_apply_duration_seconds" "histogram" "Time to put a serving view in force";
    BUS_UP = "appproxy_bus_connected" "gauge" "1 while the subscription stands, 0 while not, -1 when events are off";
    REGISTERED = "appproxy_registered" "gauge" "1 while the coordinator knows this worker";
    READY = "appproxy_ready" "gauge" "1 while /readyz answers 200";
    BACKENDS = "appproxy_backends" "gauge" "Backends in the serving view, by health";
    MODELS = "appproxy_published_names" "gauge" "Published model names, aliases included";
    KEYS = "appproxy_keys" "gauge" "Model API keys held";
}

/// A text that many label sets share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(crate) Arc<str>);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct RequestLabels {
    model: Name,
    backend: Name,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabel {
    model: Name,
}

macro_rules! label_set {
    ($name:ident { $($field:ident),+ }) => {
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name { $($field: String),+ }
    };
}
label_set!(Reason { reason });
label_set!(By { by });
label_set!(Why { why });
label_set!(EventLabels { event, outcome });
label_set!(Kind { kind });
label_set!(PullLabels { scope, outcome });
label_set!(CallLabels { call, outcome });
label_set!(Code { code });
label_set!(OutcomeLabel { outcome });
label_set!(HealthLabel { health });

/// Seconds from a cache hit's fraction of a millisecond to the longest answers.
#[derive(Debug, Clone)]
struct Seconds;

const BOUNDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BOUNDS)
    }
}

type ByModel = Family<ModelLabel, Histogram, Seconds>;

/// Values read afresh at every scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Levels {
    pub(crate) last_pull_age: f64,
    pub(crate) generation: u64,
    pub(crate) digest: String,
    pub(crate) revision: String,
    pub(crate) bus: i64,
    pub(crate) registered: bool,
    pub(crate) ready: bool,
    pub(crate) backends: HealthCounts,
    pub(crate) names: usize,
    pub(crate) keys: usize,
}

/// The counters of one worker; no globals.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    refusals: Family<Reason, Counter>,
    pub(crate) in_flight: Gauge,
    first_byte: ByModel,
    duration: ByModel,
    pub(crate) retries: Counter,
    pub(crate) fallbacks: Counter,
    cut: Family<By, Counter>,
    pub(crate) connections: Gauge,
    connections_cut: Family<Why, Counter>,
    reloads: Family<OutcomeLabel, Counter>,
    config_good: Gauge,
    events: Family<EventLabels, Counter>,
    malformed: Family<Kind, Counter>,
    pulls: Family<PullLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    notices: Family<Code, Counter>,
    acks: Family<OutcomeLabel, Counter>,
    pub(crate) credentials_refused: Counter,
    probes: Family<OutcomeLabel, Counter>,
    pub(crate) ejections: Counter,
    pub(crate) ends_lost: Counter,
    pub(crate) apply: Histogram,
    /// Which request series exist, so that those of a backend that went can be dropped. Locked only when a series is
    /// new, and when backends go.
    series: Mutex<BTreeMap<Name, BTreeSet<RequestLabels>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            refusals: Family::default(),
            in_flight: Gauge::default(),
            first_byte: Family::new_with_constructor(Seconds),
            duration: Family::new_with_constructor(Seconds),
            retries: Counter::default(),
            fallbacks: Counter::default(),
            cut: Family::default(),
            connections: Gauge::default(),
            connections_cut: Family::default(),
            reloads: Family::default(),
            config_good: level(1),
            events: Family::default(),
            malformed: Family::default(),
            pulls: Family::default(),
            calls: Family::default(),
            notices: Family::default(),
            acks: Family::default(),
            credentials_refused: Counter::default(),
            probes: Family::default(),
            ejections: Counter::default(),
            ends_lost: Counter::default(),
            apply: Seconds.new_metric(),
            series: Mutex::default(),
        }
    }
}

impl Metrics {
    /// A request has ended. `model` and `backend` are names in force, or one of a few words.
    pub(crate) fn request(&self, model: Arc<str>, backend: Arc<str>, status: u16, took: Duration) {
        let labels = RequestLabels { model: Name(model), backend: Name(backend), status };
        match self.requests.get(&labels) {
            Some(counter) => drop(counter.inc()),
            None => {
                let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
                series.entry(labels.backend.clone()).or_default().insert(labels.clone());
                self.requests.get_or_create(&labels).inc();
            }
        }
        self.duration.get_or_create(&ModelLabel { model: labels.model }).observe(took.as_secs_f64());
    }

    pub(crate) fn first_byte(&self, model: Arc<str>, took: Duration) {
        self.first_byte.get_or_create(&ModelLabel { model: Name(model) }).observe(took.as_secs_f64());
    }

    pub(crate) fn refused(&self, reason: &str) {
        self.refusals.get_or_create(&Reason { reason: reason.to_owned() }).inc();
    }

    pub(crate) fn cut(&self, by: &str) {
        self.cut.get_or_create(&By { by: by.to_owned() }).inc();
    }

    pub(crate) fn connection_cut(&self, why: &str) {
        self.connections_cut.get_or_create(&Why { why: why.to_owned() }).inc();
    }

    pub(crate) fn reloaded(&self, outcome: &str) {
        self.reloads.get_or_create(&OutcomeLabel { outcome: outcome.to_owned() }).inc();
        self.config_good.set(i64::from(outcome != "refused"));
    }

    /// The whole export, in OpenMetrics text.
    pub(crate) fn export(&self, levels: Levels) -> String {
        let mut registry = Registry::default();
        let to = &mut registry;
        add(to, BUILD, Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        add(to, REQUESTS, self.requests.clone());
        add(to, REFUSALS, self.refusals.clone());
        add(to, IN_FLIGHT, self.in_flight.clone());
        add(to, FIRST_BYTE, self.first_byte.clone());
        add(to, DURATION, self.duration.clone());
        add(to, RETRIES, self.retries.clone());
        add(to, FALLBACKS, self.fallbacks.clone());
        add(to, ABANDONED, self.cut.clone());
        add(to, CONNECTIONS, self.connections.clone());
        add(to, CONNECTIONS_CUT, self.connections_cut.clone());
        add(to, RELOADS, self.reloads.clone());
        add(to, CONFIG_GOOD, self.config_good.clone());
        add(to, EVENTS, self.events.clone());
        add(to, MALFORMED, self.malformed.clone());
        add(to, PULLS, self.pulls.clone());
        add(to, CALLS, self.calls.clone());
        add(to, NOTICES, self.notices.clone());
        add(to, ACKS, self.acks.clone());
        add(to, CREDENTIALS_REFUSED, self.credentials_refused.clone());
        add(to, PROBES, self.probes.clone());
        add(to, EJECTIONS, self.ejections.clone());
        add(to, ENDS_LOST, self.ends_lost.clone());
        add(to, APPLY, self.apply.clone());
        add(to, LAST_PULL, fraction(levels.last_pull_age));
        add(to, GENERATION, level(i64::try_from(levels.generation).unwrap_or(i64::MAX)));
        add(to, DIGEST, Info::new([("digest", levels.digest)]));
        add(to, REVISION, Info::new([("revision", levels.revision)]));
        add(to, BUS_UP, level(levels.bus));
        add(to, REGISTERED, level(i64::from(levels.registered)));
        add(to, READY, level(i64::from(levels.ready)));
        add(to, BACKENDS, by_health(levels.backends));
        add(to, MODELS, level(i64::try_from(levels.names).unwrap_or(i64::MAX)));
        add(to, KEYS, level(i64::try_from(levels.keys).unwrap_or(i64::MAX)));
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            text.clear();
            let _ = writeln!(text, "# the export failed");
        }
        text
    }
}

/// What only the control plane counts.
#[cfg(feature = "appproxy-common")]
impl Metrics {
    /// Drops the series of backends and names that are gone.
    pub(crate) fn forget(&self, backends: &[Arc<str>], names: impl Iterator<Item = Arc<str>>) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        for backend in backends {
            for labels in series.remove(&Name(backend.clone())).unwrap_or_default() {
                self.requests.remove(&labels);
            }
        }
        for model in names.map(Name) {
            for kept in series.values_mut() {
                for labels in kept.extract_if(.., |labels| labels.model == model) {
                    self.requests.remove(&labels);
                }
            }
            let label = ModelLabel { model };
            self.first_byte.remove(&label);
            self.duration.remove(&label);
        }
    }

    pub(crate) fn event(&self, event: &str, outcome: &str) {
        self.events.get_or_create(&EventLabels { event: event.to_owned(), outcome: outcome.to_owned() }).inc();
    }

    pub(crate) fn malformed(&self, kind: &str, count: u64) {
        self.malformed.get_or_create(&Kind { kind: kind.to_owned() }).inc_by(count);
    }

    pub(crate) fn pull(&self, scope: &str, outcome: &str) {
        self.pulls.get_or_create(&PullLabels { scope: scope.to_owned(), outcome: outcome.to_owned() }).inc();
    }

    pub(crate) fn call(&self, call: &str, outcome: &str) {
        self.calls.get_or_create(&CallLabels { call: call.to_owned(), outcome: outcome.to_owned() }).inc();
    }

    pub(crate) fn notice(&self, code: &str) {
        self.notices.get_or_create(&Code { code: code.to_owned() }).inc();
    }

    pub(crate) fn probe(&self, outcome: &str) {
        self.probes.get_or_create(&OutcomeLabel { outcome: outcome.to_owned() }).inc();
    }

    pub(crate) fn ack(&self, outcome: &str) {
        self.acks.get_or_create(&OutcomeLabel { outcome: outcome.to_owned() }).inc();
    }
}

fn add(registry: &mut Registry, row: Row, metric: impl Metric) {
    registry.register(row.name, row.help, metric);
}

fn level(value: i64) -> Gauge<i64, AtomicI64> {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

fn by_health(counts: HealthCounts) -> Family<HealthLabel, Gauge> {
    let family = Family::<HealthLabel, Gauge>::default();
    for health in Health::ALL {
        let count = i64::try_from(counts.of(health)).unwrap_or(i64::MAX);
        family.get_or_create(&HealthLabel { health: health.label().to_owned() }).set(count);
    }
    family
}

fn fraction(value: f64) -> Gauge<f64, AtomicU64> {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

#[cfg(all(test, feature = "appproxy-common"))]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_is_exported() {
        let metrics = Metrics::default();
        metrics.request("m".into(), "b".into(), 200, Duration::from_millis(3));
        metrics.first_byte("m".into(), Duration::from_millis(2));
        metrics.refused("invalid_api_key");
        metrics.cut("client");
        metrics.connection_cut("slow");
        metrics.reloaded("applied");
        metrics.event("key_removed", "applied");
        metrics.malformed("envelope", 1);
        metrics.pull("full", "ok");
        metrics.call("register", "200");
        metrics.notice("started");
        metrics.ack("sent");
        metrics.probe("200");
        let text = metrics.export(Levels::default());
        let exported: BTreeSet<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        let listed: BTreeSet<(&str, &str)> = TABLE.iter().map(|row| (row.name, row.kind)).collect();
        assert_eq!(exported, listed);
        assert!(TABLE.iter().all(|row| row.name.starts_with("appproxy_")));
        assert_eq!(listed.len(), TABLE.len(), "a name stands twice in the table");
        assert!(text.contains(r#"appproxy_requests_total{model="m",backend="b",status="200"} 1"#), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn series_go_with_what_they_name() {
        let metrics = Metrics::default();
        metrics.request("m".into(), "gone".into(), 200, Duration::ZERO);
        metrics.request("m".into(), "stays".into(), 200, Duration::ZERO);
        metrics.request("n".into(), "stays".into(), 200, Duration::ZERO);
        metrics.forget(&["gone".into()], std::iter::once("m".into()));
        let text = metrics.export(Levels::default());
        assert!(!text.contains("gone") && text.contains("stays"), "{text}");
        assert!(!text.contains("model=\"m\"") && text.contains("model=\"n\""), "{text}");
    }
}
