//! Access tokens of circuits: JWTs signed with HS256, checked by hand (worker-protocol 4.4, step 3; 9, Legacy).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use core::fmt;
use core::str::FromStr as _;
use core::time::Duration;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{AUTHORIZATION, HeaderMap};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sha2::Sha256;
use std::borrow::Cow;

use crate::limits;
use crate::secret::Secret;
use crate::time::UnixMillis;
use crate::wire::ids::CircuitId;

/// Why a token does not open a circuit. The answer never says more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum TokenRefusal {
    /// No token was shown in a scheme we take.
    #[error("missing_token")]
    Missing,
    /// It is no token of ours, or not one to be used now.
    #[error("invalid_token")]
    Invalid,
    /// It was one of ours, and has ended.
    #[error("expired_token")]
    Expired,
    /// It is good, for another circuit.
    #[error("token_mismatch")]
    Mismatch,
}

/// What a good token says: signed by us, and valid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a good token opens one circuit only: ask `opens`"]
pub struct Claims {
    circuit: Option<CircuitId>,
}

impl Claims {
    /// Of a good token for this circuit, which nobody has shown: for people's questions, never for a request.
    pub(crate) const fn imagined(circuit: CircuitId) -> Self {
        Self { circuit: Some(circuit) }
    }

    /// The circuit it names.
    pub(crate) const fn circuit(&self) -> Option<CircuitId> {
        self.circuit
    }

    /// Whether the token is this circuit's.
    #[must_use]
    pub fn opens(&self, circuit: CircuitId) -> bool {
        self.circuit == Some(circuit)
    }
}

/// Checks tokens against one secret.
#[derive(Clone)]
pub struct TokenVerifier {
    /// Keyed once: a request clones it instead of hashing the secret again. Without a secret nothing is good.
    keyed: Option<Hmac<Sha256>>,
    leeway_seconds: i64,
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier").field("leeway_seconds", &self.leeway_seconds).finish_non_exhaustive()
    }
}

impl TokenVerifier {
    /// Takes the secret that tokens are signed with, and how far clocks may differ (cut to whole seconds).
    #[must_use]
    pub fn new(jwt_secret: &Secret, leeway: Duration) -> Self {
        let secret = jwt_secret.expose().as_bytes();
        let keyed = if secret.is_empty() { None } else { Hmac::new_from_slice(secret).ok() };
        Self { keyed, leeway_seconds: i64::try_from(leeway.as_secs()).unwrap_or(i64::MAX) }
    }

    /// Whether `shown` opens `circuit` now.
    ///
    /// # Errors
    /// Why it does not.
    pub fn judge(&self, shown: Option<&[u8]>, circuit: CircuitId, wall: UnixMillis) -> Result<(), TokenRefusal> {
        let claims = self.read(shown.ok_or(TokenRefusal::Missing)?, wall)?;
        if claims.opens(circuit) { Ok(()) } else { Err(TokenRefusal::Mismatch) }
    }

    /// Reads a token that may be any circuit's: the algorithm first, then the signature, and only then what it says.
    ///
    /// # Errors
    /// [`TokenRefusal::Invalid`], or [`TokenRefusal::Expired`] when that is all that is wrong.
    pub fn read(&self, token: &[u8], wall: UnixMillis) -> Result<Claims, TokenRefusal> {
        let claims = self.signed_claims(token).ok_or(TokenRefusal::Invalid)?;
        let said: Said<'_> = object(&claims).ok_or(TokenRefusal::Invalid)?;
        let now = wall.seconds();
        let ends = said.exp.and_then(seconds).ok_or(TokenRefusal::Invalid)?;
        let begins = match said.nbf {
            Some(raw) => Some(seconds(raw).ok_or(TokenRefusal::Invalid)?),
            None => None,
        };
        // Expired is said only of a token that is good otherwise.
        if said.aud.is_some() || begins.is_some_and(|at| at > now.saturating_add(self.leeway_seconds)) {
            return Err(TokenRefusal::Invalid);
        }
        if ends < now.saturating_sub(self.leeway_seconds) {
            return Err(TokenRefusal::Expired);
        }
        Ok(Claims { circuit: said.id.and_then(text).and_then(|id| CircuitId::from_str(&id).ok()) })
    }

    /// The bytes of the claims, once algorithm and signature are right.
    fn signed_claims(&self, token: &[u8]) -> Option<Vec<u8>> {
        if token.len() > limits::TOKEN_BYTES {
            return None;
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        if !is_hs256(&URL_SAFE_NO_PAD.decode(header).ok()?) {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut keyed = self.keyed.clone()?;
        keyed.update(token.get(..header.len() + 1 + claims.len())?);
        keyed.verify_slice(&signature).ok()?;
        URL_SAFE_NO_PAD.decode(claims).ok()
    }
}

/// What a token's header may say. Everything else in it is somebody else's business.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    /// Extensions that must be understood: we understand none.
    #[serde(borrow, default)]
    crit: Option<&'a RawValue>,
}

fn is_hs256(header: &[u8]) -> bool {
    object::<Header<'_>>(header).is_some_and(|header| header.alg == "HS256" && header.crit.is_none())
}

/// The claims that count; a claim that stands twice makes the token unreadable.
#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    exp: Option<&'a RawValue>,
    /// A null is a claim that cannot be read, not one that is absent.
    #[serde(borrow, default, deserialize_with = "present")]
    nbf: Option<&'a RawValue>,
    /// We are nobody's audience.
    #[serde(borrow, default)]
    aud: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

fn present<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads an object, and nothing else: serde takes an array for a struct as well.
fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    let text = core::str::from_utf8(json).ok()?;
    serde_json::from_str(text.trim_start().strip_prefix('{').and(Some(text))?).ok()
}

/// A time in whole seconds, fractions rounded; `None` for a text, a negative number, or one past all times.
fn seconds(raw: &RawValue) -> Option<i64> {
    if let Ok(whole) = serde_json::from_str::<u64>(raw.get()) {
        return Some(i64::try_from(whole).unwrap_or(i64::MAX));
    }
    let number = serde_json::from_str::<f64>(raw.get()).ok()?;
    let known = number.is_finite() && number >= 0.0 && number < u64::MAX as f64;
    // The cast saturates.
    known.then(|| number.round() as i64)
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// The schemes a token may be shown under, in any case.
const SCHEMES: [&[u8]; 2] = [b"bearer", b"backendai"];

/// The token that a request shows: the first `Authorization` line of a scheme we take.
#[must_use]
pub fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get_all(AUTHORIZATION).iter().find_map(|value| {
        let value = value.as_bytes().trim_ascii();
        let end = value.iter().position(|byte| *byte == b' ' || *byte == b'\t')?;
        let (scheme, token) = value.split_at_checked(end)?;
        let token = token.trim_ascii();
        let ours = SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
        (ours && !token.is_empty()).then_some(token)
    })
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
