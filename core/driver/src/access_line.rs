//! One log line per request (data-plane 7).

use appproxy_core::telemetry::AccessLine;

use crate::logs::ACCESS;

/// Writes the line.
pub(crate) fn write(line: &AccessLine<'_>) {
    tracing::info!(
        target: ACCESS,
        method = line.method,
        path = line.path,
        request_id = line.request_id,
        model = line.model,
        key_id = line.key_id,
        backend = line.backend,
        attempts = line.attempts,
        status = line.status,
        first_byte_ms = line.first_byte_ms,
        duration_ms = line.duration_ms,
        bytes = line.bytes,
        end = line.end,
        "request"
    );
}
