//! One log line per request (data-plane 7).

use core::time::Duration;

use crate::logs::ACCESS;

/// One request, as its access line says it. No body, no secret, no client address.
#[derive(Debug)]
pub(crate) struct AccessLine<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) model: &'a str,
    pub(crate) key_id: &'a str,
    pub(crate) backend: &'a str,
    pub(crate) attempts: u32,
    pub(crate) status: u16,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) took: Duration,
    pub(crate) bytes: u64,
    /// `complete`, or who cut it.
    pub(crate) end: &'a str,
}

impl AccessLine<'_> {
    /// Writes the line.
    pub(crate) fn write(&self) {
        let first_byte_ms = self.first_byte.map_or(-1.0, |took| took.as_secs_f64() * 1000.0);
        tracing::info!(
            target: ACCESS,
            method = self.method,
            path = self.path,
            request_id = self.request_id,
            model = self.model,
            key_id = self.key_id,
            backend = self.backend,
            attempts = self.attempts,
            status = self.status,
            first_byte_ms,
            duration_ms = self.took.as_secs_f64() * 1000.0,
            bytes = self.bytes,
            end = self.end,
            "request"
        );
    }
}
