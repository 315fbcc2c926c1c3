//! Backends of the configuration in the view (data-plane 3.7), which no reconcile touches.

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

use std::sync::Arc;

use appproxy_core::desired::{BackendKind, Desired};
use appproxy_core::exchange::selection::Selection;
use appproxy_core::secret::Secret;
use appproxy_core::serving::{Generation, Serving, ServingSettings, StaticBackend, StaticModel};

fn backend(name: &str, weight: u32, models: &[(&str, &[&str])]) -> StaticBackend {
    let models = models.iter().map(|(name, aliases)| StaticModel {
        name: (*name).into(),
        aliases: aliases.iter().map(|alias| Arc::from(*alias)).collect(),
    });
    StaticBackend {
        name: name.into(),
        kind: BackendKind::OpenAi,
        tls: true,
        host: "api.example.com".into(),
        port: 443,
        base_path: "/openai".into(),
        credential: Some(Secret::new("sk-configured")),
        weight,
        models: models.collect(),
        probed: true,
    }
}

fn serving() -> Serving {
    let one = backend("one", 3, &[("gpt", &["chat", "gpt-big"]), ("gpt-big", &[])]);
    let backends = vec![one, backend("two", 1, &[("gpt", &[])]), backend("off", 0, &[("gpt", &[]), ("idle", &[])])];
    Serving::new(&ServingSettings { backends, ..ServingSettings::default() })
}

#[test]
fn weights_aliases_and_the_name_that_is_sent() {
    let serving = serving();
    let view = serving.view();
    assert_eq!(view.generation, Generation(0));
    let names: Vec<&str> = view.static_models().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["chat", "gpt", "gpt-big", "idle"]);
    let shares: Vec<(String, f64)> = view
        .static_model("gpt")
        .unwrap()
        .shares()
        .into_iter()
        .map(|(one, share)| (one.name.to_string(), share))
        .collect();
    assert_eq!(shares, [("off".to_owned(), 0.0), ("one".to_owned(), 0.75), ("two".to_owned(), 0.25)]);
    let one = view.backend("one").unwrap();
    assert_eq!(one.url(), "https://api.example.com:443/openai");
    assert_eq!(one.own_name("chat").map(|name| &**name), Some("gpt"));
    // A backend's own model is never taken for another one's alias.
    assert_eq!(one.own_name("gpt-big"), None);
    let mut selection = Selection::new();
    assert!(selection.pick(view.static_model("idle").unwrap(), &[]).is_none());
    assert_eq!(&*selection.pick(view.static_model("chat").unwrap(), &[]).unwrap().name, "one");
    assert_eq!(view.counts().static_backends, 3);
}

#[test]
fn a_plain_router_publishes_nothing_and_keeps_its_backends() {
    let mut serving = serving();
    let mut desired = Desired::new("worker01");
    desired.replace_keys(std::collections::BTreeMap::new());
    let touched = desired.take_touched();
    let update = serving.update(&desired, &touched).unwrap();
    assert_eq!(update.view.generation, Generation(1));
    assert!(update.changes.is_empty());
    assert_eq!(update.view.static_backends().count(), 3);
    assert_eq!(update.view.published().count(), 0);
}

#[test]
fn credentials_do_not_print() {
    let serving = serving();
    let one = serving.view().backend("one").unwrap();
    assert_eq!(one.credential.as_ref().map(Secret::expose), Some("sk-configured"));
    let printed = format!("{one:?} {}", serde_json::to_string(&**one).unwrap());
    assert!(!printed.contains("sk-configured"), "{printed}");
}
