//! Answers for which nothing of a request is looked at.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

/// What a connection beyond `server.max_connections` is told, head and all, before it is closed.
pub const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 139\r\n\r\n\
{\"error\":{\"message\":\"This server is at its limit. Try again shortly.\",\
\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}";

/// The answer to a request in which this worker met a fault of its own.
#[must_use]
pub fn fault() -> Response<&'static str> {
    let mut response = Response::new(
        r#"{"error":{"message":"This server met a fault of its own. Send the request again.","type":"server_error","param":null,"code":"internal"}}"#,
    );
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Denial;
    use serde_json::Value;

    #[test]
    fn the_answer_beyond_the_bound_states_its_length_and_says_what_others_say() {
        let text = core::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{} bytes", body.len());
        let body: Value = serde_json::from_str(body).unwrap();
        assert!(body["error"]["message"] == *Denial::overloaded().message);
    }

    #[test]
    fn a_fault_is_told_in_json() {
        let response = fault();
        let body: Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!((response.status().as_u16(), &body["error"]["code"]), (500, &Value::from("internal")));
    }
}
