//! Configured backends have health as replicas do, and may be asked what they serve.

use std::sync::Arc;

use appproxy_core::desired::BackendKind;
use appproxy_core::serving::{AttemptEnd, Health, ProbeSign, StaticBackend, StaticModel};

use crate::stage::{Stage, list};

fn backend(name: &str, models: &[&str]) -> StaticBackend {
    StaticBackend {
        name: name.into(),
        kind: BackendKind::Generic,
        tls: true,
        host: format!("{name}.example.com").into(),
        port: 443,
        base_path: Arc::default(),
        credential: None,
        weight: 1,
        models: models.iter().map(|name| StaticModel { name: Arc::from(*name), aliases: Vec::new() }).collect(),
        probed: true,
    }
}

#[test]
fn they_fall_and_come_back_and_only_their_models_are_made_anew() {
    let statics = vec![backend("a", &["m", "n"]), backend("b", &["m"]), backend("c", &["other"])];
    let mut stage = Stage::new(vec![], vec![], statics);
    let other = stage.pool("other");
    (0..2).for_each(|_| assert!(stage.sign("a", ProbeSign::Bad).is_none()));
    let update = stage.sign("a", ProbeSign::Bad).unwrap();
    assert_eq!(update.changes.names, ["m".into(), "n".into()]);
    assert_eq!(stage.shares("m"), [0, 100]);
    assert!(!stage.pool("n").can_serve() && stage.view().backend("a").is_some());
    assert!(Arc::ptr_eq(&other, &stage.pool("other")));
    stage.sign("a", ProbeSign::Good(None));
    stage.sign("a", ProbeSign::Good(None));
    assert_eq!(stage.shares("m"), [50, 50]);
    let health = stage.view().counts().health;
    assert_eq!((health.ready, health.unknown), (1, 2));
}

#[test]
fn live_traffic_takes_half_of_them_at_most() {
    let mut stage = Stage::new(vec![], vec![], vec![backend("a", &["m", "n"]), backend("b", &["m"])]);
    (0..3).for_each(|_| drop(stage.end("a", AttemptEnd::Broke)));
    assert_eq!((stage.shares("m"), stage.shares("n")), (vec![0, 100], vec![100]), "the only one of `n`");
    (0..3).for_each(|_| drop(stage.end("b", AttemptEnd::Broke)));
    assert_eq!(stage.health("m")["b"], Health::Unknown, "the only one left of `m`");
    stage.fell("b");
    assert_eq!(stage.health("m")["a"], Health::Unknown, "needed");
    assert_eq!(stage.shares("m"), [100, 0]);
}

#[test]
fn named_models_are_believed_and_unnamed_ones_are_learned() {
    let mut stage = Stage::new(vec![], vec![], vec![backend("named", &["m"]), backend("asked", &[])]);
    assert!(stage.view().static_model("x").is_none());
    stage.sign("named", list(&["something-else"]));
    assert_eq!(stage.view().backend("named").unwrap().own_name("m"), None, "the operator says what it is called");
    let update = stage.sign("asked", list(&["x", "m"])).unwrap();
    assert_eq!((update.changes.names, update.changes.updated), (vec!["m".into(), "x".into()], vec!["asked".into()]));
    assert_eq!(stage.shares("m"), [50, 50]);
    assert_eq!(stage.view().backend("asked").unwrap().own_name("x"), None);
    stage.sign("asked", list(&["x"]));
    assert_eq!(stage.shares("m"), [100]);
    stage.fell("asked");
    assert!(!stage.pool("x").can_serve(), "known and not served: 503, not 404");
}

#[test]
fn one_that_is_not_to_be_probed_is_not_on_the_roster() {
    let mut stage = Stage::new(
        vec![],
        vec![],
        vec![StaticBackend { probed: false, ..backend("off", &["m"]) }, backend("on", &["m"])],
    );
    assert!(stage.serving.take_roster().came.into_iter().eq(["on".into()]));
    assert_eq!(stage.health("m")["off"], Health::Unknown);
}
