//! Access tokens over HTTP: the whole matrix (worker-protocol 4.4, step 3; trap I4).

use appproxy_fixtures::wire::token::{HEADER, mint, sign};
use appproxy_tests::http::Request;
use appproxy_tests::shell::Shell;
use appproxy_tests::wildcard::{JWT_SECRET, any_chat, claims, unix_seconds};
use appproxy_tests::world::endpoint;
use serde_json::{Value, json};

use super::ingress::{refused, two_circuits};

/// The claims of the private circuit, with these fields changed; null takes one away.
fn changed(fields: Value) -> Value {
    let mut all = claims(2);
    if let (Some(all), Value::Object(fields)) = (all.as_object_mut(), fields) {
        for (name, value) in fields {
            if value.is_null() {
                all.remove(&name)
            } else {
                all.insert(name, value)
            };
        }
    }
    all
}

/// A token of these claims; what it is called, and the code it is refused with (none: it opens).
type Row = (&'static str, String, Option<&'static str>);

fn rows() -> Vec<Row> {
    let now = unix_seconds();
    let good = mint(JWT_SECRET, &claims(2));
    let (head, signature) = good.rsplit_once('.').unwrap_or_default();
    let with = |fields: Value| mint(JWT_SECRET, &changed(fields));
    let alg = |header: &str| sign(JWT_SECRET, header, &claims(2).to_string());
    let none = sign("", r#"{"alg":"none","typ":"JWT"}"#, &claims(2).to_string());
    let unsigned = none.rsplit_once('.').map(|(head, _)| format!("{head}.")).unwrap_or_default();
    let invalid = Some("invalid_token");
    vec![
        ("good", good.clone(), None),
        ("expired 3 s ago", with(json!({"exp": now - 3})), None),
        ("expired within the leeway", with(json!({"exp": now - 50})), None),
        ("fractional expiry", with(json!({"exp": now as f64 + 9.5})), None),
        ("issued 4 s ahead", with(json!({"iat": now + 4})), None),
        ("issued far ahead: not looked at", with(json!({"iat": now + 4000})), None),
        ("id in another spelling", with(json!({"id": endpoint(2).replace('-', "").to_uppercase()})), None),
        ("not before, within the leeway", with(json!({"nbf": now + 50})), None),
        ("expired 10 min ago", with(json!({"exp": now - 600})), Some("expired_token")),
        ("expired just past the leeway", with(json!({"exp": now - 70})), Some("expired_token")),
        ("of another circuit", mint(JWT_SECRET, &claims(1)), Some("token_mismatch")),
        ("of no circuit", with(json!({"id": "11111111-1111-4111-8111-111111111111"})), Some("token_mismatch")),
        ("without id", with(json!({"id": null})), Some("token_mismatch")),
        ("id that is none", with(json!({"id": "bar"})), Some("token_mismatch")),
        ("without exp", with(json!({"exp": null})), invalid),
        ("exp as text", with(json!({"exp": (now + 600).to_string()})), invalid),
        ("not before, far ahead", with(json!({"nbf": now + 600})), invalid),
        ("with an audience", with(json!({"aud": "someone"})), invalid),
        ("alg none, unsigned", unsigned, invalid),
        ("alg none, signed", alg(r#"{"alg":"none","typ":"JWT"}"#), invalid),
        ("alg None", alg(r#"{"alg":"None"}"#), invalid),
        ("alg HS384", alg(r#"{"alg":"HS384","typ":"JWT"}"#), invalid),
        ("alg HS512", alg(r#"{"alg":"HS512","typ":"JWT"}"#), invalid),
        ("alg RS256 over the secret as if it were a key", alg(r#"{"alg":"RS256","typ":"JWT"}"#), invalid),
        ("no alg", alg(r#"{"typ":"JWT"}"#), invalid),
        ("an extension to be understood", alg(r#"{"alg":"HS256","crit":["exp"]}"#), invalid),
        ("wrong secret", mint("another-secret", &claims(2)), invalid),
        ("no secret", mint("", &claims(2)), invalid),
        ("the secret itself", JWT_SECRET.to_owned(), invalid),
        ("cut off", good.get(..good.len() - 1).unwrap_or_default().to_owned(), invalid),
        ("without its signature", format!("{head}."), invalid),
        ("with other claims under the signature", other_claims(head, signature), invalid),
        ("three parts of garbage", "a.b.c".to_owned(), invalid),
        ("four parts", format!("{good}.{signature}"), invalid),
        ("one word", "nonsense".to_owned(), invalid),
        ("claims that are a list", sign(JWT_SECRET, HEADER, "[]"), invalid),
        ("a claim twice", sign(JWT_SECRET, HEADER, &twice(now)), invalid),
        ("a huge one", with(json!({"note": "x".repeat(17_000)})), invalid),
    ]
}

fn other_claims(head: &str, signature: &str) -> String {
    let header = head.split('.').next().unwrap_or_default();
    let forged = mint("anything", &changed(json!({"exp": unix_seconds() + 9_999_999})));
    format!("{header}.{}.{signature}", forged.split('.').nth(1).unwrap_or_default())
}

fn twice(now: i64) -> String {
    format!(r#"{{"id":"{}","exp":{},"exp":{}}}"#, endpoint(2), now - 600, now + 600)
}

pub(crate) fn i4_refused_tokens_reach_no_replica_and_learn_no_more_than_their_code(shell: Shell) {
    let world = two_circuits(shell, "");
    let mut reached = world.replicas[1].requests();
    for (what, token, code) in rows() {
        let calls = [any_chat(), Request::get("/debug/echo"), Request::new("DELETE", "/anything")];
        for call in calls {
            let counted = call.method() == "POST";
            let answer = world.at("bar", call.bearer(&token));
            match code {
                Some(code) => {
                    assert_eq!(answer.status(), 401, "{what}: {}", answer.text());
                    refused(&answer, 401, code);
                }
                None => {
                    assert_ne!(answer.status(), 401, "{what}: {}", answer.text());
                    reached += u64::from(counted);
                }
            }
        }
        assert_eq!(world.replicas[1].requests(), reached, "{what}");
        // Where no credential is needed none is looked at.
        assert_eq!(world.at("foo", Request::get("/debug/echo").bearer(&token)).status(), 200, "{what}");
    }
    let token = world.token(2);
    for scheme in ["Bearer", "bearer", "BEARER", "BackendAI", "backendai"] {
        let answer = world.at("bar", any_chat().header("Authorization", &format!("{scheme} {token}")));
        assert_eq!(answer.status(), 200, "{scheme}: {}", answer.text());
    }
    for value in ["", "Bearer", "Bearer ", "Basic Zm9vOmJhcg==", "Token x"] {
        refused(&world.at("bar", any_chat().header("Authorization", value)), 401, "missing_token");
    }
    refused(&world.at("bar", any_chat()), 401, "missing_token");
    refused(&world.at("bar", any_chat().header("x-api-key", &token)), 401, "missing_token");
    refused(&world.at("bar", Request::get(&format!("/debug/echo?token={token}"))), 401, "missing_token");
}

pub(crate) fn one_circuits_token_opens_no_other(shell: Shell) {
    let mut world = two_circuits(shell, "");
    let third = world.replica("r3", &["llama"]);
    world.wildcard(3, "baz", &[third], json!({"open_to_public": false}));
    let [second, third] = [world.token(2), world.token(3)];
    world.wait_model("baz", &third);
    let (two, three) = (world.replicas[1].requests(), world.replicas[2].requests());
    refused(&world.at("baz", any_chat().bearer(&second)), 401, "token_mismatch");
    refused(&world.at("bar", any_chat().bearer(&third)), 401, "token_mismatch");
    // Of one model on the apex, each goes to its own circuit alone.
    for _ in 0..6 {
        assert!(world.at_apex(appproxy_tests::world::chat("llama").bearer(&second)).text().contains("Hello from r2"));
    }
    assert_eq!((world.replicas[1].requests(), world.replicas[2].requests()), (two + 6, three));
    // A circuit that becomes private is private from then on, and the other way round.
    let access = |public: bool| {
        let path = format!("/dev/circuits/{}/access", endpoint(1));
        world.done("PUT", &path, &json!({ "open_to_public": public }));
        let wanted = if public { 200 } else { 401 };
        appproxy_tests::wait::until("the change", appproxy_tests::wait::PATIENCE, || {
            world.at("foo", any_chat()).status() == wanted
        });
    };
    access(false);
    assert_eq!(world.at("foo", any_chat().bearer(&world.token(1))).status(), 200);
    access(true);
}
