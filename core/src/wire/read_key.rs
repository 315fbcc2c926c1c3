//! Model API keys, read (worker-protocol 5.1).
//!
//! Required are `key_id` and `token_hash`. Everything that restricts a key fails closed: a field that cannot be read
//! costs the key, never the restriction. Reports never hold a hash.

use jiff::civil::{Date, Time};
use serde_json::value::RawValue;

use super::elements::{Skipped, read_elements};
use super::ids::KeyId;
use super::json::{self, Fault, Object};
use super::key::{ApiKey, TokenHash};
use super::malformed::{Elements, MalformedKind};
use super::number::{OUT_OF_RANGE, OutOfRange, number};
use super::read_publication::names;
use super::report::{At, Reports};
use crate::time::UnixMillis;

/// The keys of a snapshot.
pub(super) fn read_keys(list: &[&RawValue], at: At<'_>, reports: &mut Reports) -> Elements<ApiKey> {
    read_elements(list, at, MalformedKind::Key, reports, read_key, |key| key.key_id.clone())
}

fn read_key(raw: &RawValue, at: At<'_>, reports: &mut Reports) -> Result<ApiKey, Skipped<KeyId>> {
    let fields = Object::read(
        raw.get(),
        ["key_id", "token_hash", "allowed_models", "expires_at", "rate_limit", "allowed_client_ips"],
    )?;
    let key_id = KeyId(fields.required("key_id", "the key's id", json::name)?.into());
    let at = At::Of(&at, &key_id);
    let mut read = || -> Result<ApiKey, Fault> {
        Ok(ApiKey {
            key_id: key_id.clone(),
            token_hash: fields.required("token_hash", "64 hex digits", token_hash)?,
            allowed_models: fields.optional("allowed_models", names)?.unwrap_or_default(),
            expires_at: fields.optional("expires_at", |raw| json::text(raw).and_then(|text| rfc3339(&text)))?,
            rate_limit: rate_limit(&fields, at, reports)?,
            allowed_client_ips: fields.optional("allowed_client_ips", client_ips)?,
        })
    };
    read().map_err(|fault| Skipped { id: Some(key_id.clone()), fault })
}

fn token_hash(raw: &RawValue) -> Result<TokenHash, String> {
    let text = json::text(raw)?;
    let wrong = || format!("{} characters that are no SHA-256; 64 hex digits should be here", text.chars().count());
    let mut hash = [0u8; 32];
    if text.len() != 64 {
        return Err(wrong());
    }
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let mut digits = pair.iter().map(|digit| char::from(*digit).to_digit(16));
        *byte = digits
            .try_fold(0u32, |value, digit| digit.map(|digit| value * 16 + digit))
            .and_then(|value| u8::try_from(value).ok())
            .ok_or_else(wrong)?;
    }
    Ok(TokenHash(hash))
}

/// Requests a minute. A number out of range is read as 0, which blocks, and reported; one past `u32` is as good as none
/// and kept as the largest.
fn rate_limit<const N: usize>(fields: &Object<'_, N>, at: At<'_>, reports: &mut Reports) -> Result<Option<u32>, Fault> {
    const NAME: &str = "rate_limit";
    let Some(raw) = fields.get(NAME) else { return Ok(None) };
    if matches!(number(raw), Some(Err(OutOfRange))) {
        reports.number(At::Field(&at, NAME), OUT_OF_RANGE);
        return Ok(Some(0));
    }
    match raw.get().parse::<u64>() {
        Ok(limit) if json::kind(raw.get()) == "a number" => Ok(Some(u32::try_from(limit).unwrap_or(u32::MAX))),
        _ => Err(Fault::at(
            NAME,
            format!("{} that is no limit; a whole number of 0 or more, or null, should be here", json::kind(raw.get())),
        )),
    }
}

/// A list, or one comma-separated string; blanks between commas are ignored. What was written and is no address stays
/// as an entry, so that it closes the door (known traps, I3).
fn client_ips(raw: &RawValue) -> Result<Vec<String>, String> {
    let entries: Vec<String> = match json::kind(raw.get()) {
        "a list" => json::list(raw.get())?
            .into_iter()
            .map(|raw| json::text(raw).map_or_else(|_| raw.get().to_owned(), |text| text.trim().to_owned()))
            .collect(),
        "a string" => {
            let text = json::text(raw)?;
            let entries: Vec<_> = text.split(',').map(|entry| entry.trim().to_owned()).collect();
            if entries.iter().all(String::is_empty) && !text.trim().is_empty() {
                return Ok(vec![text.into_owned()]);
            }
            entries
        }
        kind => return Err(format!("{kind} where a list of addresses, or one string with commas, should be")),
    };
    Ok(entries.into_iter().filter(|entry| !entry.is_empty()).collect())
}

/// RFC 3339, with what that grammar leaves open: `T`, `t` or a blank between date and time, `Z` or `z`, any number of
/// fraction digits (cut to milliseconds), a leap second (`:60`, counted as `:59`: a key ends early rather than late).
/// Nothing else: no missing offset, no offset of 24 hours, no bracketed zone. Every year from 0000 to 9999 counts:
/// `9999-12-31T23:59:59Z` is how Python's `datetime.max` says 'never', and is past what `jiff::Timestamp` holds.
fn rfc3339(text: &str) -> Result<UnixMillis, String> {
    read_rfc3339(text.as_bytes()).map(UnixMillis).ok_or_else(|| {
        format!(
            "{} is no time; RFC 3339 with an offset, such as 2026-12-31T23:59:59Z, should be here",
            json::quote(text)
        )
    })
}

fn read_rfc3339(text: &[u8]) -> Option<i64> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T' | b't' | b' ', h1, h2, b':', n1, n2, b':', s1, s2] =
        date_time
    else {
        return None;
    };
    let two = |tens: u8, ones: u8| Some(digit(tens)? * 10 + digit(ones)?);
    let year = i16::try_from(two(y1, y2)? * 100 + two(y3, y4)?).ok()?;
    let small = |value: i64| i8::try_from(value).ok();
    let date = Date::new(year, small(two(m1, m2)?)?, small(two(d1, d2)?)?).ok()?;
    let second = match two(s1, s2)? {
        60 => 59,
        second => second,
    };
    let time = Time::new(small(two(h1, h2)?)?, small(two(n1, n2)?)?, small(second)?, 0).ok()?;
    let (fraction, zone) = match rest {
        [b'.', digits @ ..] => {
            let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if length == 0 {
                return None;
            }
            digits.split_at_checked(length)?
        }
        zone => (&[] as &[u8], zone),
    };
    let offset = match *zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if sign == b'-' { -60 } else { 60 }
        }
        _ => return None,
    };
    let millis = (0..3).try_fold(0, |value, place| Some(value * 10 + digit(*fraction.get(place).unwrap_or(&b'0'))?))?;
    let epoch = Date::new(1970, 1, 1).ok()?;
    let seconds = date.to_datetime(time).duration_since(epoch.to_datetime(Time::midnight())).as_secs();
    Some((seconds - offset) * 1000 + millis)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

#[cfg(test)]
#[path = "read_key_tests.rs"]
mod tests;
