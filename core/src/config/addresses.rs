//! URLs: of the coordinator, of the bus, of static backends. They may carry credentials, so no message shows one.

use super::forms::Flaw;

const fn flaw(is: &'static str, right: &'static str) -> Flaw {
    Flaw { is, right, hide: true }
}

/// An `http` or `https` address: no credentials, no query; trailing slashes are cut.
pub(super) fn http_url(text: &str) -> Result<String, Flaw> {
    const FORM: Flaw =
        flaw("is not an http or https address", "write such as \"http://host:8000\" or \"https://host\"");
    let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(FORM);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(flaw(
            "has a user or password in it",
            "credentials have keys of their own (`api_secret`, `api_key`)",
        ));
    }
    if rest.contains(['?', '#']) {
        return Err(flaw("has a query or fragment", "end it with the path; a key belongs into a key of its own"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic())
        || !is_authority(authority)
        || text.parse::<http::Uri>().is_err()
    {
        return Err(FORM);
    }
    Ok(format!("{}://{}", scheme.to_ascii_lowercase(), rest.trim_end_matches('/')))
}

/// The address of the bus: `redis` or `rediss`, optionally with user, password, port and database.
pub(super) fn redis_url(text: &str) -> Result<String, Flaw> {
    const FORM: Flaw = flaw(
        "is not a Redis address",
        "write \"redis://[user:password@]host[:port][/database]\", or rediss:// for TLS; other signs in a password as %XX",
    );
    let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
    let ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(ends).ok_or(FORM)?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let database = tail.strip_prefix('/').unwrap_or(tail);
    let is_database =
        database.is_empty() || (database.len() <= 5 && database.bytes().all(|byte| byte.is_ascii_digit()));
    let known = scheme == "redis" || scheme == "rediss";
    if !known || !text.bytes().all(|b| b.is_ascii_graphic()) || !is_authority(place) || !is_database {
        return Err(FORM);
    }
    Ok(text.to_owned())
}

/// The host of an address that one of the above accepted, without brackets.
pub(super) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    split_port(place).0
}

/// An address with user and password replaced.
pub(super) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let ends = rest.find('/').unwrap_or(rest.len());
    match rest.split_at_checked(ends) {
        Some((authority, tail)) => match authority.rsplit_once('@') {
            Some((_, place)) => format!("{scheme}://***@{place}{tail}"),
            None => format!("{scheme}://{authority}{tail}"),
        },
        None => "***".to_owned(),
    }
}

fn is_authority(place: &str) -> bool {
    let (host, port) = split_port(place);
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let bracketed = place.starts_with('[');
    is_port && (if bracketed { host.parse::<core::net::Ipv6Addr>().is_ok() } else { super::forms::is_host_name(host) })
}

fn split_port(place: &str) -> (&str, Option<&str>) {
    if let Some((inner, behind)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (inner, if behind.is_empty() { None } else { Some(behind.strip_prefix(':').unwrap_or("")) });
    }
    place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_addresses() {
        for (text, url) in [
            ("http://coordinator:10200", "http://coordinator:10200"),
            ("https://c.example.com/base//", "https://c.example.com/base"),
            ("HTTP://[::1]:80/", "http://[::1]:80"),
        ] {
            assert_eq!(http_url(text).expect(text), url);
        }
        for text in [
            "",
            "coordinator:10200",
            "ftp://x",
            "http://",
            "http:///x",
            "http://a b",
            "http://x:0",
            "http://x:70000",
            "http://u:p@x",
            "http://x?k=v",
            "http://x/#f",
            "http://[::1",
            "http://[::1]80",
            "http://a:b:c",
        ] {
            assert!(http_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn redis_addresses() {
        for text in
            ["redis://valkey:6379/4", "rediss://user:p%40ss@h", "redis://:pw@[fd00::1]:6379/0", "redis://:p@ss@h:1"]
        {
            assert_eq!(redis_url(text).expect(text), text);
        }
        for text in [
            "",
            "http://h",
            "redis://",
            "redis://h:x",
            "redis://h/a",
            "redis://h/1?x=1",
            "redis://:a/b@h",
            "redis+unix:///x",
        ] {
            assert!(redis_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn credentials_are_cut() {
        assert_eq!(redacted("redis://u:p@h:1/2"), "redis://***@h:1/2");
        assert_eq!(redacted("redis://:p@ss@h"), "redis://***@h");
        assert_eq!(redacted("redis://h/2"), "redis://h/2");
        assert_eq!(host_of("redis://u:p@[::1]:6379/0"), "::1");
        assert_eq!(host_of("https://c.example.com/base"), "c.example.com");
    }
}
