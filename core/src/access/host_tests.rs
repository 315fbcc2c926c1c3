use super::*;
use http::Request;

fn hosts() -> Hosts {
    Hosts::new(".Apps.Example.com", ["all.example.net", "192.0.2.1", "2001:db8::1"], "Router.Example.com")
}

fn label(text: &str) -> Place<'_> {
    Place::Label(text.into())
}

#[track_caller]
fn each(place: &Place<'_>, spelled: &[&str]) {
    for host in spelled {
        assert_eq!(hosts().place(host.as_bytes()), *place, "{host:?}");
    }
}

#[test]
fn i1_every_legal_spelling_of_a_name_is_one_name() {
    each(
        &label("foo"),
        &[
            "foo.apps.example.com",
            "FOO.Apps.Example.COM:8443",
            "foo.apps.example.com.",
            "foo.apps.example.com.:80",
            "foo.apps.example.com:",
            "Foo.apps.example.com:65535",
        ],
    );
    each(&label("foo_bar-2"), &["foo_bar-2.apps.example.com"]);
    each(&label("xn--v52b"), &["XN--V52B.apps.example.com"]);
    each(&Place::Aggregation, &["apps.example.com", "APPS.example.com.", "apps.example.com:443", "All.Example.NET:1"]);
    each(&Place::Aggregation, &["192.0.2.1", "192.0.2.1:8080", "192.0.2.1.", "[2001:db8::1]", "[2001:DB8:0::1]:8080"]);
    each(&Place::Node, &["router.example.com", "ROUTER.example.com.:8080", "localhost", "LocalHost:8080"]);
    each(&Place::Node, &["127.0.0.1:8080", "127.0.0.1.", "[::1]", "[2001:db8::5]:8443", "[::ffff:192.0.2.2]"]);
    each(&Place::Aggregation, &["[::ffff:192.0.2.1]:80"]);
}

#[test]
fn i1_nothing_else_reaches_a_circuit() {
    each(
        &Place::Elsewhere,
        &[
            "",
            ".",
            ":80",
            "foo",
            "foo.",
            ".apps.example.com",
            "..apps.example.com",
            "x.foo.apps.example.com",
            "foo..apps.example.com",
            "foo.apps.example.com..",
            "foo.apps.example.com.evil.test",
            "fooapps.example.com",
            "evil-apps.example.com",
            "foo.apps.example.com:80:80",
            "foo.apps.example.com:8o",
            "foo.apps.example.com:+80",
            "foo.apps.example.com:65536",
            "user@foo.apps.example.com",
            "user:80@foo.apps.example.com",
            "foo.apps.example.com:80@evil.test",
            "%66oo.apps.example.com",
            "foo%2eapps.example.com",
            "foo.apps.example.com%00",
            "foo.apps.example.com/",
            "foo.apps.example.com\\x",
            " foo.apps.example.com",
            "foo.apps.example.com, bar.apps.example.com",
            "한글.apps.example.com",
            "[foo].apps.example.com",
            "[foo.apps.example.com]",
            "[::1",
            "[::1]foo.apps.example.com",
            "[fe80::1%25eth0]",
            "::1",
            "1.2.3",
            "router.example.com.evil.test",
            "example.com",
        ],
    );
    assert_eq!(hosts().place(b"foo\xff.apps.example.com"), Place::Elsewhere);
}

#[test]
fn names_of_the_worker_itself_come_first() {
    let hosts = Hosts::new(".example.com", ["all.example.com"], "router.example.com.");
    assert_eq!(hosts.place(b"router.example.com"), Place::Node);
    assert_eq!(hosts.place(b"all.example.com"), Place::Aggregation);
    assert_eq!(hosts.place(b"other.example.com"), label("other"));
    let hosts = Hosts::new(".localhost", [], "localhost");
    assert_eq!(hosts.place(b"localhost:8080"), Place::Aggregation);
    assert_eq!(hosts.place(b"qwen.localhost:8080"), label("qwen"));
}

#[test]
fn the_target_says_the_host_before_the_host_line_does() {
    let parts = |target: &str, lines: &[&str]| {
        let request = Request::get(target);
        let request = lines.iter().fold(request, |request, line| request.header(HOST, *line));
        request.body(()).unwrap().into_parts().0
    };
    assert_eq!(asked(&parts("/x", &["foo"])), Some(&b"foo"[..]));
    assert_eq!(asked(&parts("http://bar:80/x", &["foo"])), Some(&b"bar:80"[..]));
    assert_eq!(asked(&parts("http://bar/x", &[])), Some(&b"bar"[..]));
    assert_eq!(asked(&parts("/x", &[""])), Some(&b""[..]));
    assert_eq!(asked(&parts("/x", &[])), None);
    assert_eq!(asked(&parts("/x", &["foo", "foo"])), None);
    assert_eq!(asked(&parts("http://bar/x", &["foo", "bar"])), None);
    // A user in the target is no part of a name.
    let parts = parts("http://user@foo.apps.example.com/x", &["foo.apps.example.com"]);
    assert_eq!(hosts().place(asked(&parts).unwrap()), Place::Elsewhere);
}
