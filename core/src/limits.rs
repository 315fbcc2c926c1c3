//! Every bound of the core, with what happens beyond it.

/// Bytes of one bus message (worker-protocol 3.1). Beyond: malformed, dropped and counted.
pub const ENVELOPE_BYTES: usize = 16 * 1024 * 1024;

/// Elements of one `args` array (worker-protocol 3.1). Beyond: malformed, dropped and counted.
pub const ENVELOPE_ARGS: usize = 16;

/// Bytes of one answer of the coordinator. Beyond: the shell fails the call with `TooLarge`.
pub const CALL_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Levels of brackets in a bus message, and in the JSON texts inside it; serde_json's own limit (worker-protocol 3.1).
/// Beyond: malformed, dropped and counted.
pub const NESTING: usize = 127;

/// Key notices waiting for a pull (worker-protocol 3.3, rule 5). Beyond: counted and not acked.
pub const KEY_NOTICES: usize = 10_000;

/// Circuits guarded against resurrection (rule 3). Beyond: the oldest guard goes, and a pull follows.
pub const GUARDS: usize = 100_000;

/// Entities remembered as heard while one request is under way (rule 1). Beyond: the pull fails and is asked anew.
pub const HEARD: usize = 200_000;

/// Acks held back until they may be sent. Beyond: the oldest is dropped and counted.
pub const HELD_ACKS: usize = 10_000;

/// Outputs not drained yet. Beyond: the oldest *event* is dropped and counted; commands never are.
pub const QUEUED_EVENTS: usize = 10_000;

/// Malformed elements reported one by one of one body. Beyond: only their number is.
pub const REPORTED_ELEMENTS: usize = 100;

/// Characters of a quoted foreign text (error bodies, names) in a report. Beyond: cut.
pub const QUOTED_CHARS: usize = 300;

/// Bytes of a configuration file. Beyond: refused.
pub const CONFIG_BYTES: usize = 1024 * 1024;

/// Bytes of an `x-request-id` that is kept. Beyond: a new one is made.
pub const REQUEST_ID_BYTES: usize = 128;

/// Bytes of a key that a connection remembers, so that the next request with it need not be hashed. Longer ones are hashed
/// each time.
pub const REMEMBERED_KEY_BYTES: usize = 256;

/// Bytes of a multipart boundary (RFC 2046 allows 70). Beyond: 400 `invalid_request`.
pub const MULTIPART_BOUNDARY_BYTES: usize = 70;

/// Parts of one multipart body. Beyond: 400 `invalid_request`.
pub const MULTIPART_PARTS: usize = 1000;

/// Characters of a configured value that a message may show. Beyond: nothing of it is, since secrets are longer.
pub const QUOTED_VALUE_CHARS: usize = 20;

/// Characters of a configured key that a message shows. Beyond: cut.
pub const SHOWN_KEY_CHARS: usize = 64;

/// Requests that wait for a replica of one pool. Beyond: the key with the longest line gives way, or 503 `overloaded`.
pub const QUEUED_PER_POOL: usize = 1000;

/// Bytes of a request's beginning that `consistent_hash` goes by. Beyond: not looked at.
pub const AFFINITY_LEAD_BYTES: usize = 16 * 1024;

/// The same for `prefix_aware`.
pub const AFFINITY_PREFIX_BYTES: usize = 1024;

/// Probes at once. Beyond: those that are due wait for one to end.
pub const PROBES: usize = 1000;

/// Bytes of an answer to a probe. Beyond: it is no model list.
pub const PROBE_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Names in a backend's model list. Beyond: nothing is learned from it.
pub const SERVED_NAMES: usize = 10_000;

/// Bytes of a name in a backend's model list. Beyond: that name is not learned.
pub const SERVED_NAME_BYTES: usize = 1024;

/// Idle connections that are kept to one replica. Beyond: closed; bursts connect anew.
pub const IDLE_LINES: usize = 256;

/// Header lines of one request. Beyond: 431.
pub const HEAD_LINES: usize = 100;

/// Bytes of the head of a replica's answer. Beyond: the attempt failed.
pub const REPLY_HEAD_BYTES: usize = 256 * 1024;

/// Header lines of a replica's answer. Beyond: the attempt failed.
pub const REPLY_HEAD_LINES: usize = 100;

/// Interim answers (100 to 199) before a replica's answer. Beyond: the attempt failed.
pub const INTERIM_ANSWERS: usize = 100;

/// Bytes between two pieces of a replica's chunked body: sizes, extensions, trailers. Beyond: the answer broke off.
pub const BETWEEN_CHUNKS_BYTES: usize = 16 * 1024;

/// Bytes of a request line that are kept until its head is whole, to shape and log a refusal. Beyond: cut.
pub const LEAD_BYTES: usize = 128;

/// Bytes of an access token (worker-protocol 4.4). Beyond: `invalid_token`, and nothing of it is decoded.
pub const TOKEN_BYTES: usize = 16 * 1024;

/// Bytes of a request's body that must have come in each second past [`BODY_GRACE`], on the whole. Fewer: 408.
pub const BODY_BYTES_PER_SECOND: u64 = 1024;

/// How long a request's body may take before its rate counts.
pub const BODY_GRACE: core::time::Duration = core::time::Duration::from_secs(20);

/// Bytes of a replica's error that are read to find its message. Beyond: words of our own.
pub const EXPLANATION_BYTES: usize = 64 * 1024;

/// Characters of that message. Beyond: cut.
pub const EXPLANATION_CHARS: usize = 2000;

/// Bytes at an answer's end in which its stated usage is looked for. Before them: not counted.
pub const USAGE_BYTES: usize = 2048;

/// Notices that the status page keeps (data-plane 7).
pub const NOTICES: usize = 100;

/// Characters of why a configuration file was refused that the status page shows. Beyond: cut; the log has all of it.
pub const REFUSAL_CHARS: usize = 4_000;

/// Keys of which it is remembered when they were last seen. Beyond: those seen longest ago are forgotten.
pub const KEYS_SEEN: usize = 50_000;

/// Keys that the status page shows; it says how many there are.
pub const KEYS_SHOWN: usize = 1_000;
