//! How a backend is reached: the address of a path on it, and its own credential (data-plane 3.7).

use bytes::Bytes;
use http::Uri;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};

use super::backend::{Backend, BackendKind};
use super::origin::Origin;

/// Where Anthropic's API, and many that speak it, look for a key.
pub const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Where Gemini's API looks for a key.
pub const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// A backend's address as requests need it: read once, then shared.
#[derive(Debug, Clone)]
pub struct Target {
    origin: Origin,
    host: HeaderValue,
}

impl Target {
    /// What `Host` says.
    #[must_use]
    pub const fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// What a connection is opened to.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Backend {
    /// The backend's address; `None` when it makes none.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let text = Bytes::from(self.authority());
        let authority = Authority::from_maybe_shared(text.clone()).ok()?;
        Some(Target { origin: Origin::new(self.tls, authority), host: HeaderValue::from_maybe_shared(text).ok()? })
    }

    /// The absolute address of a path at this backend's `target`; `None` when they make none.
    #[must_use]
    pub fn uri_at(&self, target: &Target, path: &PathAndQuery) -> Option<Uri> {
        let mut parts = Parts::default();
        parts.scheme = Some(if self.tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(target.origin.authority().clone());
        parts.path_and_query = Some(match self.base_before(path) {
            "" => path.clone(),
            base => PathAndQuery::try_from(format!("{base}{path}")).ok()?,
        });
        Uri::from_parts(parts).ok()
    }

    /// What stands before a path at this backend.
    #[inline]
    pub(crate) fn base_before(&self, path: &PathAndQuery) -> &str {
        if self.base_path.is_empty() { "" } else { base_before(&self.base_path, path.path()) }
    }

    /// The absolute address of a path, and what `Host` says; `None` when the backend's address makes none.
    #[must_use]
    pub fn uri_of(&self, path: &PathAndQuery) -> Option<(Uri, HeaderValue)> {
        let target = self.target()?;
        Some((self.uri_at(&target, path)?, target.host))
    }

    /// The configured credential, in the place where the backend's kind looks for one.
    #[must_use]
    pub fn credential_header(&self) -> Option<(HeaderName, HeaderValue)> {
        let secret = self.credential.as_ref()?;
        let (name, value) = match self.kind {
            BackendKind::Anthropic => (X_API_KEY, HeaderValue::from_str(secret.expose())),
            BackendKind::Gemini => (X_GOOG_API_KEY, HeaderValue::from_str(secret.expose())),
            BackendKind::Vllm | BackendKind::Generic | BackendKind::OpenAi => {
                (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {}", secret.expose())))
            }
        };
        let mut value = value.ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

/// The base path without a last segment that the path begins with: an address may be configured with or without `/v1`.
#[inline(never)]
fn base_before<'a>(base: &'a str, path: &str) -> &'a str {
    let Some((before, last)) = base.rsplit_once('/') else { return base };
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    if !last.is_empty() && last == first { before } else { base }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_not_doubled() {
        for (base, path, wanted) in [
            ("", "/v1/completions", ""),
            ("/v1", "/v1/completions", ""),
            ("/api/v1", "/v1/completions", "/api"),
            ("/api", "/v1/completions", "/api"),
            ("/v1", "/rerank", "/v1"),
            ("/v1", "/v1beta/models/m:countTokens", "/v1"),
            ("/openai/v1", "/v1", "/openai"),
        ] {
            assert_eq!(base_before(base, path), wanted, "{base} {path}");
        }
    }
}
