use super::*;
use proptest::prelude::*;

fn proxies(entries: &[&str]) -> TrustedProxies {
    TrustedProxies::parse(entries.iter().copied()).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn client(peer: &str, trusted: &[&str], lines: &[&str]) -> Option<String> {
    let peer = if peer == "unix" { Peer::Unix } else { Peer::Ip(ip(peer)) };
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    client_address(peer, &proxies(trusted), lines).map(|address| address.to_string())
}

#[test]
fn the_right_most_entry_that_is_not_trusted_is_the_client() {
    let trusted = ["10.0.0.0/8", "2001:db8:aaaa::/48"];
    for (peer, lines, wanted) in [
        // An untrusted peer's header means nothing.
        ("192.0.2.1", &["203.0.113.9"][..], Some("192.0.2.1")),
        ("10.0.0.1", &["203.0.113.9"], Some("203.0.113.9")),
        ("10.0.0.1", &["1.1.1.1, 203.0.113.9, 10.0.0.2"], Some("203.0.113.9")),
        ("10.0.0.1", &["1.1.1.1", "203.0.113.9", "10.0.0.2,10.0.0.3"], Some("203.0.113.9")),
        ("10.0.0.1", &["203.0.113.9:4711"], Some("203.0.113.9")),
        ("10.0.0.1", &["[2001:db8::9]:4711 , [2001:db8:aaaa::1]"], Some("2001:db8::9")),
        ("10.0.0.1", &["2001:db8::9"], Some("2001:db8::9")),
        // All trusted: the left-most; none at all: the peer.
        ("10.0.0.1", &["10.9.9.9, 10.0.0.2"], Some("10.9.9.9")),
        ("10.0.0.1", &[], Some("10.0.0.1")),
        // An unreadable entry on the way ends the walk; one that is not reached does not matter.
        ("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"], None),
        ("10.0.0.1", &["unknown, 203.0.113.9, 10.0.0.2"], Some("203.0.113.9")),
        ("10.0.0.1", &["203.0.113.9,,10.0.0.2"], None),
        ("10.0.0.1", &[""], None),
        ("10.0.0.1", &["203.0.113.9:port"], None),
        ("10.0.0.1", &["caf\u{e9}"], None),
    ] {
        assert_eq!(client(peer, &trusted, lines).as_deref(), wanted, "{peer} {lines:?}");
    }
}

#[test]
fn a_unix_peer_has_no_address_unless_it_is_trusted() {
    assert_eq!(client("unix", &["10.0.0.0/8"], &["203.0.113.9"]), None);
    assert_eq!(client("unix", &["unix"], &["203.0.113.9"]).as_deref(), Some("203.0.113.9"));
    assert_eq!(client("unix", &["unix"], &[]), None);
    assert_eq!(client("unix", &["UNIX", "10.0.0.0/8"], &["203.0.113.9, 10.1.1.1"]).as_deref(), Some("203.0.113.9"));
}

#[test]
fn i2_ipv4_in_ipv6_is_ipv4_everywhere() {
    assert_eq!(client("::ffff:192.0.2.7", &[], &[]).as_deref(), Some("192.0.2.7"));
    assert_eq!(client("::ffff:10.0.0.1", &["10.0.0.0/8"], &["::ffff:203.0.113.9"]).as_deref(), Some("203.0.113.9"));
    assert_eq!(client("10.0.0.1", &["::ffff:10.0.0.0/104"], &["203.0.113.9"]).as_deref(), Some("203.0.113.9"));
    assert_eq!(client("10.0.0.1", &["::ffff:10.0.0.1"], &["[::ffff:203.0.113.9]:1"]).as_deref(), Some("203.0.113.9"));
    // Host bits are cut.
    assert_eq!(client("10.0.0.200", &["10.0.0.9/24"], &["203.0.113.9"]).as_deref(), Some("203.0.113.9"));
}

#[test]
fn entries_that_cannot_be_read_are_named() {
    for entry in ["", "10.0.0.0/33", "proxy.example.com", "10.0.0"] {
        let error = TrustedProxies::parse(["10.0.0.1", entry]).unwrap_err();
        assert_eq!(error.entry, entry);
        assert!(error.to_string().contains("unix"));
    }
}

proptest! {
    /// The walk against its definition: flatten, go from the right, stop at the first that is unreadable or untrusted.
    #[test]
    fn the_walk_follows_its_definition(
        lines in prop::collection::vec(prop::collection::vec(0u8..6, 1..4), 0..4),
        peer_trusted in any::<bool>(),
    ) {
        let word = |kind: u8| ["10.0.0.7", "10.1.2.3:80", "203.0.113.1", "[2001:db8::1]:9", "::ffff:10.9.9.9", "junk"][usize::from(kind)];
        let value = |kind: u8| [Some("10.0.0.7"), Some("10.1.2.3"), Some("203.0.113.1"), Some("2001:db8::1"), Some("10.9.9.9"), None][usize::from(kind)];
        let peer = if peer_trusted { "10.255.0.1" } else { "198.51.100.1" };
        let mut wanted = Some(peer.to_owned());
        if peer_trusted {
            for kind in lines.iter().flatten().rev() {
                wanted = value(*kind).map(str::to_owned);
                if !value(*kind).is_some_and(|text| text.starts_with("10.")) {
                    break;
                }
            }
        }
        let texts: Vec<String> = lines.iter()
            .map(|line| line.iter().map(|kind| word(*kind)).collect::<Vec<_>>().join(", "))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        prop_assert_eq!(client(peer, &["10.0.0.0/8"], &texts), wanted);
    }

    #[test]
    fn no_header_bytes_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4)) {
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let _ = client_address(Peer::Ip(ip("10.0.0.1")), &proxies(&["10.0.0.0/8"]), lines);
    }
}
