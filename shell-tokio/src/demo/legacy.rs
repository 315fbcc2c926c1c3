//! The legacy wildcard worker's demonstration: a public circuit, a private one, and access tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::line::{Line, chat_body, manager_headers};
use super::{AUTHORITY, ENDPOINTS, Places, made};
use crate::Failed;
use crate::stage::{StageCoordinator, StageReplica};

/// The model of the public circuit, and of the private one.
pub(super) const MODELS: [&[&str]; 2] = [&["demo-open"], &["demo-private"]];

const DOMAIN: &str = "models.example.com";
const LABELS: [&str; 2] = ["open", "private"];

pub(super) const SECTION: &str =
    "  jwt_secret: \"development-jwt-secret\"\n  wildcard_domain: \".models.example.com\"\n";

pub(super) const ROWS: [(&str, &str, &str); 3] = [
    ("circuit", "open.models.example.com", "public, model demo-open of replica 1"),
    ("circuit", "private.models.example.com", "wants an access token, model demo-private of replica 2"),
    ("apex", "models.example.com", "all circuits the token opens, by model name"),
];

/// A day: nobody demonstrates longer.
const TOKEN_SECONDS: u64 = 86_400;

/// A public circuit and a private one, through the coordinator's own API.
pub(super) async fn furnish(coordinator: &StageCoordinator, replicas: &[StageReplica]) -> Result<(), Failed> {
    let base = format!("http://{}", coordinator.address());
    for ((endpoint, label), replica) in ENDPOINTS.iter().zip(LABELS).zip(replicas) {
        let circuit = json!({
            "authority": AUTHORITY, "id": endpoint, "endpoint_id": endpoint, "app": label, "subdomain": label,
            "open_to_public": label == "open", "runtime_variant": "vllm", "routes": [route(replica.address().port())],
            "announce": false, "wait": false,
        });
        made("POST", &format!("{base}/dev/circuits"), &circuit).await?;
    }
    Ok(())
}

fn route(port: u16) -> Value {
    json!({"kernel_host": "127.0.0.1", "kernel_port": port})
}

/// Whether both circuits know their models: until then they answer `model_not_ready`.
pub(super) async fn settled(places: &Places) -> bool {
    let Ok(token) = token(places, ENDPOINTS[1]).await else { return false };
    let request = http::Request::get(format!("http://{}/v1/models", places.worker))
        .header(http::header::HOST, DOMAIN)
        .header(http::header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Empty::<bytes::Bytes>::new());
    let Ok(request) = request else { return false };
    let client = Client::builder(TokioExecutor::new()).build_http();
    let Ok(answer) = client.request(request).await else { return false };
    let Ok(body) = answer.into_body().collect().await else { return false };
    let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    body["data"].as_array().is_some_and(|models| models.len() == MODELS.len())
}

/// A token for the circuit of an endpoint, as the coordinator mints it.
async fn token(places: &Places, endpoint: &str) -> Result<String, Failed> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let url = format!("http://{}/v2/endpoints/{endpoint}/token", places.coordinator);
    let answer = made("POST", &url, &json!({"exp": now + TOKEN_SECONDS})).await?;
    Ok(answer["token"].as_str().unwrap_or_default().to_owned())
}

pub(super) async fn lines(places: &Places) -> Result<Vec<Line>, Failed> {
    let [open, private] = [token(places, ENDPOINTS[0]).await?, token(places, ENDPOINTS[1]).await?];
    let worker = &places.worker;
    let port = worker.rsplit(':').next().unwrap_or_default();
    // The same request in two ways: the host named in a header, or the name resolved to this machine.
    let at = |label: &str, path: &str| format!("http://{worker}{path} -H 'Host: {label}{DOMAIN}'");
    let resolved = |label: &str, path: &str| {
        let host = format!("{label}{DOMAIN}");
        format!("--resolve {host}:{port}:127.0.0.1 http://{host}:{port}{path}")
    };
    let shown = |token: &str| format!("-H 'Authorization: Bearer {token}'");
    let chat = "/v1/chat/completions";
    let manager = manager_headers();
    let circuits = format!("http://{}/dev/circuits", places.coordinator);
    let first_replica = places.replicas.first().map(std::net::SocketAddr::port).unwrap_or_default();
    let new = json!({
        "authority": AUTHORITY, "id": "33333333-3333-4333-8333-333333333333", "subdomain": "new", "open_to_public": true,
        "routes": [route(first_replica)],
        // Without a bus no ack can come.
        "wait": places.bus.is_some(),
    });
    let second_replica = places.replicas.get(1).map(std::net::SocketAddr::port).unwrap_or_default();
    let moved = json!({"routes": [route(second_replica)]});
    let minted = format!(
        "curl -s -X POST http://{}/v2/endpoints/{}/token {manager} -d '{{\"exp\":\"2099-01-01T00:00:00Z\"}}'",
        places.coordinator, ENDPOINTS[1]
    );
    Ok(vec![
        Line::new("a public circuit", format!("curl -s {} {}", at("open.", chat), chat_body("demo-open", ""))),
        Line::new(
            "the same by its name, which needs no DNS",
            format!("curl -s {} {}", resolved("open.", chat), chat_body("demo-open", "")),
        ),
        Line::new(
            "a streaming chat, in another spelling of the host and without a model: the circuit has one",
            format!(
                "curl -sN http://{worker}{chat} -H 'Host: OPEN.Models.Example.com.:{port}' {}",
                chat_body("", ",\"stream\":true").replace("\"model\":\"\",", "")
            ),
        ),
        Line::new(
            "a private circuit without a token: 401 missing_token",
            format!("curl -s {} {}", at("private.", chat), chat_body("demo-private", "")),
        ),
        Line::new(
            "with its token",
            format!("curl -s {} {} {}", resolved("private.", chat), shown(&private), chat_body("demo-private", "")),
        ),
        Line::new(
            "with another circuit's token: 401 token_mismatch",
            format!("curl -s {} {} {}", at("private.", chat), shown(&open), chat_body("demo-private", "")),
        ),
        Line::new(
            "with a token nobody signed: 401 invalid_token",
            format!("curl -s {} {} {}", at("private.", chat), shown(&forged(&private)), chat_body("demo-private", "")),
        ),
        Line::new("a label that no circuit has: 404 endpoint_not_found", format!("curl -s {}", at("nobody.", "/"))),
        Line::new(
            "any path and method goes to the circuit's replicas as it is",
            format!("curl -s -X PUT {} -d 'anything'", at("open.", "/debug/echo?any=path")),
        ),
        Line::new(
            "the apex lists the models of the circuits that the token opens",
            format!("curl -s {} {}", at("", "/v1/models"), shown(&private)),
        ),
        Line::new(
            "and routes by model name",
            format!("curl -s {} {} {}", resolved("", chat), shown(&private), chat_body("demo-private", "")),
        ),
        Line::new(
            "without the token the private circuit's model is refused there too",
            format!("curl -s {} {}", at("", chat), chat_body("demo-private", "")),
        ),
        Line::new("create a circuit", format!("curl -s -X POST {circuits} {manager} -d '{new}'")),
        Line::new("and use it", format!("curl -s {} {}", at("new.", chat), chat_body("demo-open", ""))),
        Line::new(
            "move it to the other replica",
            format!("curl -s -X PUT {circuits}/33333333-3333-4333-8333-333333333333/routes {manager} -d '{moved}'"),
        ),
        Line::new("remove it", format!("curl -s -X DELETE {circuits}/33333333-3333-4333-8333-333333333333 {manager}")),
        Line::new("mint another token of the private circuit", minted),
        Line::new("what the worker counted", format!("curl -s http://{}/metrics", places.admin)),
    ])
}

/// The token with another signature.
fn forged(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap_or((token, ""));
    let other: String = signature.chars().rev().collect();
    format!("{signed}.{other}")
}
