//! The one list of metrics.

/// One exported metric: its name as exported, its kind, what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        $(pub(super) const $name: Row = Row { name: $exported, kind: $kind, help: $help };)*
        /// Every metric of the export, in its order.
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
    TOKENS = "appproxy_tokens" "counter" "Tokens as answers state them, by model, backend and kind (input, output)";
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
