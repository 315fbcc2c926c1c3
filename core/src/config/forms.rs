//! The forms a single value may have: durations, sizes, addresses, and so on.

use core::time::Duration;

use super::server::BindAddress;
use crate::time::UnixMillis;

/// Why a text has not the form asked for; reads on from the text: `"x"` + `is` + `; ` + `right`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) is: &'static str,
    pub(super) right: &'static str,
    /// Whether the text may hold a credential and is not to be shown.
    pub(super) hide: bool,
}

const fn flaw(is: &'static str, right: &'static str) -> Flaw {
    Flaw { is, right, hide: false }
}

/// Any text but an empty one, on one line.
pub(super) fn text(text: &str) -> Result<String, Flaw> {
    if text.trim().is_empty() {
        return Err(flaw("is empty", "give a text, or leave the key out"));
    }
    if text.chars().any(char::is_control) {
        return Err(flaw("holds a line break or control character", "write it on one line"));
    }
    Ok(text.to_owned())
}

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Result<bool, Flaw> {
    match text {
        "true" | "True" | "TRUE" => Ok(true),
        "false" | "False" | "FALSE" => Ok(false),
        _ => Err(flaw("is neither true nor false", "write true or false")),
    }
}

/// A whole number.
pub(super) fn number(text: &str) -> Result<u32, Flaw> {
    digits(text).ok_or(flaw("is not a whole number", "write a number from 0 to 4294967295, such as 10"))
}

/// A whole number above 0.
pub(super) fn positive(text: &str) -> Result<u32, Flaw> {
    match digits(text) {
        Some(number) if number > 0 => Ok(number),
        _ => Err(flaw("is not a whole number above 0", "write a number from 1 on, such as 3")),
    }
}

/// A backend's weight.
pub(super) fn weight(text: &str) -> Result<u32, Flaw> {
    digits(text)
        .filter(|weight| *weight <= 1000)
        .ok_or(flaw("is not a weight", "write a whole number from 0 (takes nothing) to 1000"))
}

/// A port; 0 stands for "none given".
pub(super) fn port(text: &str) -> Result<u16, Flaw> {
    digits(text).ok_or(flaw("is not a port", "write a number from 0 to 65535, such as 443"))
}

fn digits<T: core::str::FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Permission bits: octal, with or without `0o`.
pub(super) fn mode(text: &str) -> Result<u32, Flaw> {
    let octal = text.strip_prefix("0o").unwrap_or(text);
    let plain = !octal.is_empty() && octal.len() <= 4 && octal.bytes().all(|byte| byte.is_ascii_digit());
    let bits = if plain { u32::from_str_radix(octal, 8).ok() } else { None };
    bits.filter(|bits| *bits <= 0o777)
        .ok_or(flaw("is not a set of permission bits", "write them in octal, such as \"0660\""))
}

/// A duration: numbers with units, or a bare 0.
pub(super) fn duration(text: &str) -> Result<Duration, Flaw> {
    const FORM: Flaw = flaw("is not a duration", "write a number with its unit, such as \"10s\", \"500ms\" or \"1m\"");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (count, behind) = leading_digits(rest).ok_or(FORM)?;
        let unit_ends = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(unit_ends).ok_or(FORM)?;
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(FORM),
        };
        total = count.checked_mul(millis).and_then(|part| total.checked_add(part)).ok_or(FORM)?;
        rest = behind;
    }
    // A year is more than anything here can mean, and keeps every later sum of moments in range.
    if text.is_empty() || total > 366 * 86_400_000 {
        return Err(FORM);
    }
    Ok(Duration::from_millis(total))
}

/// A duration above 0.
pub(super) fn time(text: &str) -> Result<Duration, Flaw> {
    match duration(text)? {
        Duration::ZERO => Err(flaw("is no time at all", "write a duration above 0, such as \"10s\"")),
        time => Ok(time),
    }
}

/// A duration of 100 ms or more: what the coordinator is asked by (worker-protocol 9).
pub(super) fn interval(text: &str) -> Result<Duration, Flaw> {
    match duration(text)? {
        interval if interval < Duration::from_millis(100) => {
            Err(flaw("is shorter than 100ms", "write at least \"100ms\"; \"10s\" is usual"))
        }
        interval => Ok(interval),
    }
}

/// A duration where 0 stands for "no bound".
pub(super) fn bound(text: &str) -> Result<Option<Duration>, Flaw> {
    duration(text).map(|bound| (bound > Duration::ZERO).then_some(bound))
}

/// A number of bytes.
pub(super) fn size(text: &str) -> Result<u64, Flaw> {
    const FORM: Flaw =
        flaw("is not a size above 0", "write a number with its unit, such as \"64KiB\", \"100MiB\" or \"1GiB\"");
    let (count, unit) = leading_digits(text).ok_or(FORM)?;
    let unit: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(FORM),
    };
    count.checked_mul(unit).filter(|bytes| *bytes > 0).ok_or(FORM)
}

fn leading_digits(text: &str) -> Option<(u64, &str)> {
    let ends = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, behind) = text.split_at_checked(ends)?;
    Some((number.parse().ok()?, behind))
}

/// `host:port`, `[v6]:port` or `unix:/path`.
pub(super) fn bind_address(text: &str) -> Result<BindAddress, Flaw> {
    const FORM: Flaw = flaw("is not an address to listen at", "write \"host:port\", \"[v6]:port\" or \"unix:/path\"");
    if let Some(path) = text.strip_prefix("unix:") {
        let usable = path.starts_with('/') && path.len() > 1 && !path.chars().any(char::is_control);
        return if usable { Ok(BindAddress::Unix(path.to_owned())) } else { Err(FORM) };
    }
    let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
    let port = digits(port).filter(|_| !port.is_empty()).ok_or(FORM)?;
    let host = match host.strip_prefix('[').map(|inner| inner.strip_suffix(']')) {
        Some(inner) => inner.filter(|inner| inner.parse::<core::net::Ipv6Addr>().is_ok()).ok_or(FORM)?,
        None => Some(host).filter(|host| is_host_name(host)).ok_or(FORM)?,
    };
    Ok(BindAddress::Tcp { host: host.to_owned(), port })
}

/// A host name or IPv4 address: labels of letters, digits, `-` and `_`.
pub(super) fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    host.len() <= 253 && host.split('.').all(label)
}

/// A public name: host name or address, without scheme, port and path.
pub(super) fn host(text: &str) -> Result<String, Flaw> {
    if is_host_name(text) || text.parse::<core::net::IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(flaw(
        "is not a host name",
        "write the name alone, without scheme, port and path, such as \"router.example.com\"",
    ))
}

/// An IP address or network.
pub(super) fn ip_entry(text: &str) -> Result<String, Flaw> {
    if text.parse::<core::net::IpAddr>().is_ok() || text.parse::<ipnet::IpNet>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(flaw("is neither an IP address nor a network", "write such as \"10.1.2.3\", \"10.0.0.0/8\" or \"fd00::/8\""))
}

/// An entry of `trusted_proxies`.
pub(super) fn proxy_entry(text: &str) -> Result<String, Flaw> {
    if text == "unix" {
        return Ok(text.to_owned());
    }
    ip_entry(text).map_err(|_| {
        flaw(
            "is neither an IP address, a network nor `unix`",
            "write such as \"10.0.0.0/8\"; \"unix\" trusts peers on unix sockets",
        )
    })
}

/// A point in time with its offset.
pub(super) fn expiry(text: &str) -> Result<UnixMillis, Flaw> {
    let right = "write it with its offset, such as \"2027-12-31T23:59:59Z\"";
    text.parse::<jiff::Timestamp>()
        .map(|at| UnixMillis(at.as_millisecond()))
        .map_err(|_| flaw("is not a point in time", right))
}

/// A request header's name, lower-case.
pub(super) fn header(text: &str) -> Result<String, Flaw> {
    http::HeaderName::from_bytes(text.as_bytes())
        .map(|name| name.as_str().to_owned())
        .map_err(|_| flaw("is not a header name", "write such as \"x-session-id\""))
}

/// The path that health checks ask.
pub(super) fn path(text: &str) -> Result<String, Flaw> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(flaw("is not a path", "begin it with a slash, such as \"/v1/models\""))
}

/// An entry of `allowed_origins`.
pub(super) fn origin(text: &str) -> Result<String, Flaw> {
    let bare = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b'@');
    if text == "*" || text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && bare(rest)) {
        return Ok(text.to_owned());
    }
    Err(flaw("is not an origin", "write \"https://host[:port]\" without a path, or \"*\""))
}

/// The domain below which every circuit has a name, with its leading dot; lower-case.
pub(super) fn wildcard_domain(text: &str) -> Result<String, Flaw> {
    if text.strip_prefix('.').is_some_and(is_host_name) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(flaw("is not a wildcard domain", "write it with its leading dot, such as \".models.example.com\""))
}
