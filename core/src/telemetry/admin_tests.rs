use std::sync::Arc;

use serde_json::Value;

use super::super::notices::Noticed;
use super::*;
use crate::exchange::{Control, ExchangeRules, KeyGate, OperatorKey, OperatorKeys, token_hash};
use crate::seed::{Draws, Seed};
use crate::serving::{Serving, ServingSettings, ServingView, StaticBackend, StaticModel};
use crate::time::{Moment, Now, UnixMillis};

struct World {
    rules: ExchangeRules,
    view: Arc<ServingView>,
    control: Control,
    states: States,
    metrics: Metrics,
}

const MARKED: &str = "s3cr3t-marker-0123456789";

fn backend() -> StaticBackend {
    StaticBackend {
        name: "one/two".into(),
        kind: crate::desired::BackendKind::Vllm,
        tls: false,
        host: "10.0.0.1".into(),
        port: 8000,
        base_path: "".into(),
        credential: Some(Secret::new(MARKED)),
        weight: 1,
        models: vec![StaticModel { name: "chat".into(), aliases: vec!["c".into()] }],
        probed: true,
    }
}

impl World {
    fn new() -> Self {
        let key = OperatorKey {
            id: "ci".into(),
            hash: token_hash(&Secret::new(MARKED)),
            allowed_models: Vec::new(),
            rate_limit: Some(2),
            allowed_client_ips: None,
            expires_at: None,
        };
        Self {
            rules: ExchangeRules {
                key_gate: KeyGate::Blocking,
                operator_keys: OperatorKeys::new([key]),
                ..ExchangeRules::default()
            },
            view: Serving::new(&ServingSettings { backends: vec![backend()], ..ServingSettings::default() })
                .view()
                .clone(),
            control: Control::Alone { leaving: false },
            states: States::new(Draws::new(Seed::from_number(1))),
            metrics: Metrics::default(),
        }
    }

    fn ask(
        &self,
        method: &Method,
        uri: &str,
        shown: Option<&str>,
        token: Option<&str>,
    ) -> (u16, String, Option<Drain>) {
        let mut headers = HeaderMap::new();
        if let Some(shown) = shown {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(shown).expect("header"));
        }
        let now = Now { moment: Moment::from_millis(9_000), wall: UnixMillis(1_700_000_000_000) };
        let node = Node {
            rules: &self.rules,
            view: &self.view,
            control: &self.control,
            now,
            file_refused: self.metrics.file_refused(),
        };
        let desk = Desk { version: "9.9.9", node, states: &self.states, metrics: &self.metrics };
        let token = token.map(Secret::new);
        let (response, drain) = answer(method, &uri.parse().expect("uri"), &headers, token.as_ref(), &desk);
        (response.status().as_u16(), response.into_body(), drain)
    }

    fn get(&self, uri: &str) -> (u16, String) {
        let (status, body, drain) = self.ask(&Method::GET, uri, None, None);
        assert_eq!(drain, None);
        (status, body)
    }
}

#[test]
fn everything_but_the_empty_page_needs_the_token_when_there_is_one() {
    let world = World::new();
    assert_eq!(world.get("/metrics").0, 200);
    assert_eq!(world.get("/elsewhere").0, 404);
    assert_eq!(world.ask(&Method::POST, "/metrics", None, None).0, 405);
    // Neither holds anything: they only say where the page is.
    for path in ["/admin", "/"] {
        assert_eq!(world.ask(&Method::GET, path, None, Some("t0ken")).0, 308, "{path}");
        assert_eq!(world.ask(&Method::POST, path, None, None).0, 404, "{path}");
    }
    for path in ["/metrics", "/admin/state", "/admin/explain?model=chat", "/elsewhere"] {
        for shown in [None, Some("Bearer"), Some("Bearer "), Some("Bearer t0ke"), Some("Basic t0ken"), Some("t0ken")] {
            assert_eq!(world.ask(&Method::GET, path, shown, Some("t0ken")).0, 401, "{path} {shown:?}");
        }
    }
    for verb in ["drain", "undrain"] {
        let path = format!("/admin/backends/one%2Ftwo/{verb}");
        let (status, _, drain) = world.ask(&Method::POST, &path, None, Some("t0ken"));
        assert_eq!((status, drain), (401, None));
    }
    assert_eq!(world.ask(&Method::GET, "/metrics", Some("bearer t0ken"), Some("t0ken")).0, 200);
    let (status, page, _) = world.ask(&Method::GET, "/admin/", None, Some("t0ken"));
    assert!(status == 200 && !page.contains("chat") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn the_state_shows_the_tree_and_no_secret() {
    let world = World::new();
    let text = "a notice".to_owned();
    world.metrics.notices().keep(Noticed {
        at: Moment::from_millis(4_000),
        severity: "info",
        code: "started".into(),
        text,
    });
    let (status, body) = world.get("/admin/state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(status, 200);
    assert_eq!(state["kind"], "plain router");
    let [alias, model] = state["models"].as_array().expect("models").as_slice() else { panic!("{body}") };
    assert_eq!((&alias["names"], &model["names"]), (&serde_json::json!(["c"]), &serde_json::json!(["chat"])));
    let replica = &model["pool"]["endpoints"][0]["groups"][0]["replicas"][0];
    assert_eq!(
        (&replica["share"], &replica["address"], &replica["health"]),
        (&1.0.into(), &"10.0.0.1:8000".into(), &"unknown".into())
    );
    assert_eq!(state["notices"][0]["seconds_ago"], 5);
    let key = &state["keys"][0];
    assert_eq!((&key["id"], &key["of"], &key["rate_limit"]), (&"ci".into(), &"operator".into(), &2.into()));
    assert_eq!(state["operator_keys"], 1);
    assert!(!body.contains(MARKED) && !body.contains("hash"), "{body}");
}

#[test]
fn the_state_is_as_small_as_it_is_asked_to_be() {
    let world = World::new();
    let state =
        |query: &str| serde_json::from_str::<Value>(&world.get(&format!("/admin/state{query}")).1).expect("JSON");
    let sizes = |state: &Value| ["models", "keys"].map(|list| state[list].as_array().map_or(0, Vec::len));
    let all = state("");
    assert_eq!(sizes(&all), [2, 1]);
    assert_eq!(all["found"]["models"], serde_json::json!({"all": 2, "found": 2, "cannot_serve": 0, "in_trouble": 0}));
    assert_eq!(all["models"][0]["standing"], "well");
    let one = state("?most=1");
    assert_eq!((sizes(&one), &one["found"]["models"]["found"]), ([1, 1], &2.into()));
    // By a name, an address, a backend, a state of health, the id of a key; in any case.
    for (find, found) in [
        ("CHAT", [1, 0]),
        ("10.0.0.1:80", [2, 0]),
        ("one%2Ftwo", [2, 0]),
        ("unknown", [2, 0]),
        ("static", [2, 0]),
        ("ci", [0, 1]),
        ("nowhere", [0, 0]),
    ] {
        let state = state(&format!("?find={find}"));
        assert_eq!(sizes(&state), found, "{find}");
        assert_eq!([&state["found"]["models"]["found"], &state["found"]["keys"]["found"]], found, "{find}");
    }
    assert_eq!(sizes(&state("?trouble=true")), [0, 1]);
    for (query, words) in [("most=x", "no number"), ("sort=up", "find, most, trouble")] {
        let (status, text) = world.get(&format!("/admin/state?{query}"));
        assert!(status == 400 && text.contains(words), "{query}: {text}");
    }
}

#[test]
#[cfg(feature = "appproxy-common")]
fn what_is_in_trouble_comes_first() {
    use crate::desired::Desired;
    let serves = |name: &str, models: &[&str]| {
        let models = models.iter().map(|name| StaticModel { name: (*name).into(), aliases: Vec::new() });
        StaticBackend { name: name.into(), models: models.collect(), ..backend() }
    };
    let backends = vec![serves("r1", &["all-well", "half"]), serves("r2-of-all", &["half", "none"])];
    let mut serving = Serving::new(&ServingSettings { backends, ..ServingSettings::default() });
    serving.drain(&Drain { backend: "r2-of-all".into(), out: true });
    let mut desired = Desired::new("here");
    let touched = desired.take_touched();
    let world = World { view: serving.update(&desired, &touched).expect("a view").view, ..World::new() };
    let shown = |query: &str| -> Vec<(String, String)> {
        let state: Value = serde_json::from_str(&world.get(&format!("/admin/state{query}")).1).expect("JSON");
        let counts = serde_json::json!({"all": 3, "found": 3, "cannot_serve": 1, "in_trouble": 1});
        assert_eq!(state["found"]["models"], counts, "{query}");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let models = state["models"].as_array().expect("models").iter();
        models.map(|model| (text(&model["names"][0]), text(&model["standing"]))).collect()
    };
    let told = |name: &str, standing: &str| (name.to_owned(), standing.to_owned());
    let (none, half) = (told("none", "cannot_serve"), told("half", "in_trouble"));
    let all = [none, half, told("all-well", "well")];
    assert_eq!(shown(""), all);
    assert_eq!(shown("?most=1"), all[..1]);
    assert_eq!(shown("?trouble=true"), all[..2]);
    // What has the text in its name comes before what has it in a backend's.
    let [none, half, well] = all;
    assert_eq!(shown("?find=all"), [well, none, half]);
}

#[test]
fn the_state_says_why_the_file_was_refused_as_long_as_it_is() {
    use crate::telemetry::Reading;
    let world = World::new();
    let refusal =
        || serde_json::from_str::<Value>(&world.get("/admin/state").1).expect("JSON")["config_refusal"].take();
    assert_eq!(refusal(), Value::Null);
    world.metrics.read_again(Reading::Refused("line 3: nope"), Moment::from_millis(4_000));
    assert_eq!(refusal(), serde_json::json!({"seconds_ago": 5, "problems": "line 3: nope"}));
    world.metrics.read_again(Reading::Applied, Moment::from_millis(5_000));
    assert_eq!(refusal(), Value::Null);
}

#[test]
fn explain_answers_for_people_and_for_programs() {
    let world = World::new();
    let (status, text) = world.get("/admin/explain?model=chat&key_id=ci&client_ip=10.0.0.9");
    assert!(status == 200 && text.starts_with("chat: served\n") && text.contains("2 of 2 requests a minute"), "{text}");
    let (_, text) = world.get("/admin/explain?model=chat&key_id=nobody");
    assert!(text.contains("refused with 401 invalid_api_key"), "{text}");
    let (_, json) = world.get("/admin/explain?model=ch%61t&format=json");
    let told: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(told["refusal"]["code"], "missing_api_key");
    for (query, expected) in [
        ("", "model is missing"),
        ("model=a&client_ip=here", "no address"),
        ("model=%f", "percent"),
        ("modl=a", "not known"),
        ("model=a&access_token=mine", "good, none, or the id"),
    ] {
        let (status, text) = world.get(&format!("/admin/explain?{query}"));
        assert!(status == 400 && text.contains(expected), "{query}: {text}");
    }
}

#[test]
#[cfg(feature = "appproxy-common")]
fn draining_needs_a_token_and_a_backend() {
    let world = World::new();
    let post = |path: &str, token: Option<&str>| world.ask(&Method::POST, path, Some("Bearer t0ken"), token);
    let drain = |out| Some(Drain { backend: "one/two".into(), out });
    let (status, _, told) = post("/admin/backends/one%2Ftwo/drain", Some("t0ken"));
    assert_eq!((status, told), (200, drain(true)));
    let (status, _, told) = post("/admin/backends/one%2Ftwo/undrain", Some("t0ken"));
    assert_eq!((status, told), (200, drain(false)));
    assert_eq!(post("/admin/backends/one%2Ftwo/drain", None).0, 403);
    assert_eq!(post("/admin/backends/three/drain", Some("t0ken")).0, 404);
    assert_eq!(post("/admin/backends/one%2Ftwo/explode", Some("t0ken")).0, 404);
    assert_eq!(world.ask(&Method::GET, "/admin/backends/x/drain", Some("Bearer t0ken"), Some("t0ken")).0, 405);
}

#[test]
#[cfg(feature = "appproxy-router")]
fn a_million_keys_are_not_all_shown() {
    use crate::desired::Desired;
    use crate::limits::KEYS_SHOWN;
    use crate::wire::ids::KeyId;
    use crate::wire::key::{ApiKey, TokenHash};
    let key = |n: usize| {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&(n as u64).to_be_bytes());
        let key_id = KeyId::from(format!("k{n}").as_str());
        let key = ApiKey {
            key_id: key_id.clone(),
            token_hash: TokenHash(hash),
            allowed_models: Vec::new(),
            expires_at: None,
            rate_limit: None,
            allowed_client_ips: None,
        };
        (key_id, key)
    };
    let mut desired = Desired::new("here");
    desired.replace_keys((0..=KEYS_SHOWN).map(key).collect());
    let mut serving = Serving::new(&ServingSettings::default());
    let touched = desired.take_touched();
    let world = World { view: serving.update(&desired, &touched).expect("a view").view, ..World::new() };
    let state: Value = serde_json::from_str(&world.get("/admin/state").1).expect("JSON");
    assert_eq!(state["keys"].as_array().map(Vec::len), Some(KEYS_SHOWN));
    assert_eq!(state["counts"]["keys"], KEYS_SHOWN + 1);
    // The operator's own come first, whatever their number.
    assert_eq!((&state["keys"][0]["of"], &state["keys"][1]["of"]), (&"operator".into(), &"coordinator".into()));
}
