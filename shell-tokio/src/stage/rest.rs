//! A plain JSON client for the development coordinator's API.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// A change waits for its ack for 15 s.
const PATIENCE: Duration = Duration::from_secs(25);

/// Makes one call with `X-BackendAI-Token`; `Value::Null` sends no body. The answer's status and JSON body (`Null` when
/// it is none).
///
/// # Errors
/// In words, when there is no answer.
pub async fn ask_json(method: &str, url: &str, api_secret: &str, body: &Value) -> Result<(u16, Value), String> {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = http::Request::builder()
        .method(method)
        .uri(url)
        .header("x-backendai-token", api_secret)
        .header("content-type", "application/json")
        .body(Full::new(bytes))
        .map_err(|error| error.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let exchange = async {
        let response = client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    };
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?
}
