use super::*;
use crate::exchange::onward::Onward;
use crate::seed::Seed;
use crate::time::Moment;
use http::{HeaderValue, Method};
use std::sync::Arc;

fn map(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// What goes on of these lines to a replica.
fn sent(lines: &[(&'static str, &[u8])], peer: Option<&str>, trusted: bool) -> HeaderMap {
    onward(lines, peer, trusted, false)
}

fn onward(lines: &[(&'static str, &[u8])], peer: Option<&str>, trusted: bool, credentials: bool) -> HeaderMap {
    let (asked, mut said) = (map(lines), HeaderMap::new());
    let peer = peer.map(|text| HeaderValue::from_str(text).unwrap());
    let onward = Onward {
        peer: peer.as_ref(),
        trusted,
        tls: false,
        authority: Some(HeaderValue::from_static("models.example.com")),
        request_id: &HeaderValue::from_static("req-1"),
        credentials,
        options: asked.contains_key("connection"),
    };
    onward.each(&asked, &mut said);
    said
}

fn trail() -> Trail {
    let uri = "/v1/completions".parse().unwrap();
    Trail {
        rate: Some(RateFigures { limit: 3, remaining: 2, reset: 0 }),
        model: Some(Arc::from("caf\u{e9}/m")),
        backend: Some(Arc::from("appproxy-b")),
        ..Trail::begun(&Method::POST, &uri, HeaderValue::from_static("req-1"), Moment::START)
    }
}

#[test]
fn s7_what_belongs_to_the_connection_stays_behind() {
    let lines: [(&str, &[u8]); 14] = [
        ("connection", b"close, X-Debug"),
        ("connection", b" x-second ,"),
        ("x-debug", b"1"),
        ("x-second", b"1"),
        ("keep-alive", b"timeout=5"),
        ("te", b"trailers"),
        ("trailer", b"x"),
        ("upgrade", b"h2c"),
        ("proxy-authorization", b"Basic x"),
        ("proxy-connection", b"close"),
        ("transfer-encoding", b"chunked"),
        ("x-kept", b"1"),
        ("x-kept", b"2"),
        ("content-type", b"application/json"),
    ];
    let gone = |headers: &HeaderMap| {
        for (name, _) in lines.iter().take(11) {
            assert!(!headers.contains_key(*name), "{name}");
        }
        assert_eq!(all(headers, "x-kept"), ["1", "2"]);
        assert_eq!(all(headers, "content-type"), ["application/json"]);
    };
    gone(&sent(&lines, Some("192.0.2.1"), false));
    let mut back = map(&lines);
    inbound(&mut back, &trail(), &backend());
    gone(&back);
}

#[test]
fn s3_a_length_beside_chunks_goes_no_further() {
    let mut headers = map(&[("content-length", b"5"), ("transfer-encoding", b"chunked")]);
    inbound(&mut headers, &trail(), &backend());
    assert!(!headers.contains_key("content-length") && !headers.contains_key("transfer-encoding"));
    let mut headers = map(&[("content-length", b"5")]);
    inbound(&mut headers, &trail(), &backend());
    assert_eq!(all(&headers, "content-length"), ["5"], "by itself it counts");
}

#[test]
fn s7_repeated_answer_headers_arrive_in_order() {
    let mut headers = map(&[("set-cookie", b"a=1"), ("x-other", b"1"), ("set-cookie", b"b=2")]);
    inbound(&mut headers, &trail(), &backend());
    assert_eq!(all(&headers, "set-cookie"), ["a=1", "b=2"]);
}

#[test]
fn credentials_host_and_length_do_not_go_on() {
    let lines: [(&str, &[u8]); 6] = [
        ("authorization", b"Bearer k"),
        ("x-api-key", b"k"),
        ("x-goog-api-key", b"k"),
        ("host", b"models.example.com"),
        ("content-length", b"2"),
        ("expect", b"100-continue"),
    ];
    let headers = sent(&lines, Some("192.0.2.1"), false);
    for (name, _) in lines {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert_eq!(all(&headers, "x-forwarded-host"), ["models.example.com"]);

    let kept = onward(&lines, None, false, true);
    assert_eq!(all(&kept, "authorization"), ["Bearer k"]);
}

#[test]
fn a_length_is_said_in_one_way_only() {
    for said in ["12", "012", "+12", "12 ", "1_2", "", "99999999999999999999999", "13"] {
        let asked = map(&[("content-length", said.as_bytes())]);
        let value = content_length(asked.get("content-length"), 12);
        assert_eq!(*value, "12", "{said}");
        // The client's own is shared, not copied.
        let shared =
            asked.get("content-length").is_some_and(|own| own.as_bytes().as_ptr() == value.as_bytes().as_ptr());
        assert_eq!(shared, said == "12", "{said}");
    }
    assert_eq!(*content_length(Some(&HeaderValue::from_static("0")), 0), "0");
    assert_eq!(*content_length(None, 7), "7");
}

#[test]
fn forwarding_headers_are_appended_only_behind_a_trusted_proxy() {
    let lines: [(&str, &[u8]); 5] = [
        ("x-forwarded-for", b"203.0.113.9"),
        ("x-forwarded-for", b"10.0.0.2"),
        ("x-forwarded-proto", b"https"),
        ("x-forwarded-host", b"outer.example.com"),
        ("forwarded", b"for=1.1.1.1"),
    ];
    let headers = sent(&lines, Some("10.0.0.1"), true);
    assert_eq!(all(&headers, "x-forwarded-for"), ["203.0.113.9, 10.0.0.2, 10.0.0.1"]);
    assert_eq!(all(&headers, "x-forwarded-proto"), ["https"]);
    assert_eq!(all(&headers, "x-forwarded-host"), ["outer.example.com"]);

    let headers = sent(&lines, Some("2001:db8::9"), false);
    assert_eq!(all(&headers, "x-forwarded-for"), ["2001:db8::9"]);
    assert_eq!(all(&headers, "x-forwarded-proto"), ["http"]);
    assert_eq!(all(&headers, "x-forwarded-host"), ["models.example.com"]);
    assert!(!headers.contains_key("forwarded"));

    let empty: [(&str, &[u8]); 2] = [("x-forwarded-for", b""), ("x-forwarded-for", b" ")];
    assert_eq!(all(&sent(&empty, Some("10.0.0.1"), true), "x-forwarded-for"), ["10.0.0.1"]);
    assert_eq!(all(&sent(&lines, None, true), "x-forwarded-for"), ["203.0.113.9", "10.0.0.2"]);
    assert!(!sent(&lines, None, false).contains_key("x-forwarded-for"));
}

#[test]
fn w4_bytes_beyond_ascii_pass_as_they_are() {
    let lines: [(&str, &[u8]); 4] =
        [("x-title", b"caf\xc3\xa9"), ("x-title", b"caf\xe9"), ("connection", b"\xe9, x-gone"), ("x-gone", b"\xe9")];
    let headers = sent(&lines, Some("192.0.2.1"), true);
    let titles: Vec<&[u8]> = headers.get_all("x-title").iter().map(HeaderValue::as_bytes).collect();
    assert_eq!(titles, [&b"caf\xc3\xa9"[..], b"caf\xe9"]);
    assert!(!headers.contains_key("x-gone"));
    let mut back = map(&lines);
    inbound(&mut back, &trail(), &backend());
    assert_eq!(back.get_all("x-title").iter().count(), 2);
    let odd = sent(&[("x-forwarded-for", b"caf\xe9")], Some("10.0.0.1"), true);
    assert_eq!(odd.get("x-forwarded-for").unwrap().as_bytes(), b"caf\xe9, 10.0.0.1");
}

#[test]
fn answers_are_marked_and_a_replica_cannot_mark_them() {
    let mut headers = map(&[
        ("x-appproxy-model", b"forged"),
        ("x-appproxy-backend", b"forged"),
        ("x-appproxy-fallback", b"forged"),
        ("x-request-id", b"forged"),
        ("x-request-id", b"forged"),
        ("x-ratelimit-limit-requests", b"9000"),
    ]);
    inbound(&mut headers, &trail(), &backend());
    assert_eq!(all(&headers, "x-appproxy-model"), ["caf\u{e9}/m"]);
    assert_eq!(all(&headers, "x-appproxy-backend"), ["appproxy-b"]);
    assert!(!headers.contains_key("x-appproxy-fallback"));
    assert_eq!(all(&headers, "x-request-id"), ["req-1"]);
    assert_eq!(all(&headers, "x-ratelimit-limit-requests"), ["3"]);
    assert_eq!(all(&headers, "x-ratelimit-remaining-requests"), ["2"]);
    assert_eq!(all(&headers, "x-ratelimit-reset-requests"), ["0"]);
    // A name that no header can hold is left out.
    let mut none = HeaderMap::new();
    mark(&mut none, &Trail { model: Some(Arc::from("a\nb")), ..trail() });
    assert!(!none.contains_key("x-appproxy-model"));
}

#[test]
fn a_request_id_is_kept_when_it_is_fit_to_be() {
    let mut draws = Draws::new(Seed::from_number(1));
    let long = "x".repeat(REQUEST_ID_BYTES);
    for fit in ["a", "req-1_2.3:4/5+6=", &long] {
        let headers = map(&[("x-request-id", fit.as_bytes())]);
        assert_eq!(request_id(&headers, &Facts::of(&headers), &mut draws), fit);
    }
    let too_long = format!("{long}x");
    for unfit in [&b""[..], b"a b", b"a\xe9", b"a\tb", too_long.as_bytes()] {
        let headers = map(&[("x-request-id", unfit)]);
        let made = request_id(&headers, &Facts::of(&headers), &mut draws);
        assert_eq!(made.len(), 36, "{unfit:?}");
    }
    let twice = map(&[("x-request-id", b"a"), ("x-request-id", b"b")]);
    let (one, two) = (
        request_id(&twice, &Facts::of(&twice), &mut draws),
        request_id(&HeaderMap::new(), &Facts::default(), &mut draws),
    );
    assert_eq!((one.len(), two.len()), (36, 36));
    assert_ne!(one, two);
}

fn backend() -> Backend {
    Backend {
        name: "b".into(),
        kind: crate::desired::BackendKind::Generic,
        tls: false,
        host: "10.0.0.5".into(),
        port: 8000,
        base_path: "/api".into(),
        weight: 1,
        models: Default::default(),
        served_names: Default::default(),
        aliases: Default::default(),
        credential: None,
    }
}

#[test]
fn r6_addresses_behind_us_stay_there() {
    let answered = |name: &'static str, value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        inbound(&mut headers, &trail(), &backend());
        headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    for (given, expected) in [
        ("http://10.0.0.5:8000/v1/models?x=1", "/v1/models?x=1"),
        ("http://10.0.0.5:8000/api/v1/models/", "/v1/models/"),
        ("HTTP://10.0.0.5:8000", "/"),
        ("/v1/models/", "/v1/models/"),
        ("http://10.0.0.5/elsewhere", "http://10.0.0.5/elsewhere"),
        ("https://login.example.com/?next=a", "https://login.example.com/?next=a"),
        ("http://10.0.0.5:8000/apiary", "/apiary"),
    ] {
        assert_eq!(answered("location", given).as_deref(), Some(expected), "{given}");
        assert_eq!(answered("content-location", given).as_deref(), Some(expected), "{given}");
    }
    assert_eq!((answered("via", "1.1 gpu-7.internal"), answered("alt-svc", "h3=\":8000\"")), (None, None));
}
