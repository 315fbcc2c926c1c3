use super::*;
use crate::config::keys::{Applies, KEYS};
use crate::config::load;

fn config(text: &str) -> Config {
    load(text, &|_| None).unwrap_or_else(|problems| panic!("{text}: {problems}")).config
}

const WORKER: &str = "{enabled: true, coordinator_url: \"http://127.0.0.1:1\", api_secret: s, authority: a, hostname: h, events_enabled: false}";

#[test]
fn what_changes_counts_now_or_is_named() {
    let running = config(
        "server: {bind_address: \"127.0.0.1:1\", max_body_size: 1MiB}\nbackends: [{name: b, url: \"http://a\"}]",
    );
    assert!(plan(&running, running.clone()).is_empty());
    let read = config(
        "server: {bind_address: \"127.0.0.1:2\", max_body_size: 2MiB, tls: {cert_file: c, key_file: k}}\n\
         admin: {bind_address: \"127.0.0.1:3\", token: t}\njournal: {file: j}\nlogging: {level: debug}\n\
         backends: [{name: b, url: \"http://a\", api_key: new}, {name: c, url: \"http://c\", api_key: other}]",
    );
    let made = plan(&running, read.clone());
    assert_eq!(made.restart, ["admin.bind_address", "journal", "server.bind_address", "server.tls"]);
    assert_eq!(made.applied, ["admin.token", "backends", "logging", "server.max_body_size"]);
    assert_eq!(made.rekeyed, [std::sync::Arc::<str>::from("b")], "one that comes has no other credential");
    // In force is the file, but for what needs a restart: read once more, only that is named again.
    assert_eq!((&made.config.backends, &made.config.server.bind), (&read.backends, &running.server.bind));
    let again = plan(&made.config, read);
    assert_eq!((again.restart, again.applied.len(), again.rekeyed.len()), (made.restart, 0, 0));
}

#[test]
fn a_worker_section_never_changes_under_a_running_worker() {
    let plain = config("");
    let worker = config(&format!("appproxy_router: {WORKER}"));
    assert_eq!(plan(&worker, worker.clone()).restart, Vec::<&str>::new());
    let made = plan(&worker, plain.clone());
    assert_eq!((made.restart.as_slice(), &made.config.worker), (&["appproxy_router"][..], &worker.worker));
    let made = plan(&plain, worker);
    assert!(made.config.worker.is_none() && made.restart == ["appproxy_router"]);
}

#[test]
fn the_table_of_keys_says_the_same() {
    let fixed = [
        "server.bind_address",
        "server.socket_mode",
        "server.tls",
        "admin.bind_address",
        "journal",
        "appproxy_router",
        "appproxy",
    ];
    for doc in KEYS {
        let restart = fixed
            .iter()
            .any(|key| doc.key == *key || doc.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')));
        assert_eq!(doc.applies == Applies::Restart, restart, "{}", doc.key);
    }
}

#[test]
fn c1_every_content_is_judged_once_when_it_stands_still() {
    let content = |text: &str| vec![text.as_bytes().to_vec()];
    let mut watch = Watch::new(&content("good"));
    assert!(!watch.look(&content("good")));
    assert!(!watch.look(&content("half-writ")), "it may be on its way");
    assert!(!watch.look(&content("bad")));
    assert!(watch.look(&content("bad")));
    assert!(!watch.look(&content("bad")), "once");
    assert!(!watch.look(&content("good")));
    assert!(watch.look(&content("good")), "put back as it was");
    watch.judged(&content("by signal"));
    assert!(!watch.look(&content("by signal")) && !watch.look(&content("by signal")));
    // Contents do not flow into each other.
    let two = |a: &str, b: &str| vec![a.as_bytes().to_vec(), b.as_bytes().to_vec()];
    watch.judged(&two("ab", "c"));
    assert!(!watch.look(&two("a", "bc")) && watch.look(&two("a", "bc")));
}
