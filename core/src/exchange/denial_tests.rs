use super::*;
use serde_json::Value;

fn shape(surface: Surface, code: Code) -> Value {
    serde_json::from_slice(&Denial::new(code, "Do this.").body(surface, "req-1")).unwrap()
}

#[test]
fn t1_every_code_in_every_shape() {
    let table = [
        ("invalid_json", 400, "invalid_request_error", "INVALID_ARGUMENT"),
        ("missing_model", 400, "invalid_request_error", "INVALID_ARGUMENT"),
        ("invalid_model", 400, "invalid_request_error", "INVALID_ARGUMENT"),
        ("invalid_request", 400, "invalid_request_error", "INVALID_ARGUMENT"),
        ("missing_api_key", 401, "authentication_error", "UNAUTHENTICATED"),
        ("invalid_api_key", 401, "authentication_error", "UNAUTHENTICATED"),
        ("expired_api_key", 401, "authentication_error", "UNAUTHENTICATED"),
        ("missing_token", 401, "authentication_error", "UNAUTHENTICATED"),
        ("invalid_token", 401, "authentication_error", "UNAUTHENTICATED"),
        ("expired_token", 401, "authentication_error", "UNAUTHENTICATED"),
        ("token_mismatch", 401, "authentication_error", "UNAUTHENTICATED"),
        ("ip_not_allowed", 403, "permission_error", "PERMISSION_DENIED"),
        ("model_not_allowed", 403, "permission_error", "PERMISSION_DENIED"),
        ("model_not_found", 404, "not_found_error", "NOT_FOUND"),
        ("endpoint_not_found", 404, "not_found_error", "NOT_FOUND"),
        ("unknown_path", 404, "not_found_error", "NOT_FOUND"),
        ("method_not_allowed", 405, "api_error", "INVALID_ARGUMENT"),
        ("request_timeout", 408, "api_error", "INVALID_ARGUMENT"),
        ("body_too_large", 413, "request_too_large", "INVALID_ARGUMENT"),
        ("unsupported_encoding", 415, "api_error", "INVALID_ARGUMENT"),
        ("rate_limit_exceeded", 429, "rate_limit_error", "RESOURCE_EXHAUSTED"),
        ("not_supported", 501, "api_error", "INTERNAL"),
        ("upstream_error", 502, "api_error", "INTERNAL"),
        ("model_unavailable", 503, "overloaded_error", "UNAVAILABLE"),
        ("model_not_ready", 503, "overloaded_error", "UNAVAILABLE"),
        ("not_ready", 503, "overloaded_error", "UNAVAILABLE"),
        ("overloaded", 503, "overloaded_error", "UNAVAILABLE"),
        ("upstream_timeout", 504, "api_error", "DEADLINE_EXCEEDED"),
    ];
    assert_eq!(table.len(), Code::ALL.len());
    for (code, (label, status, anthropic, gemini)) in Code::ALL.into_iter().zip(table) {
        assert_eq!((code.label(), code.status().as_u16()), (label, status));
        for surface in [Surface::OpenAi, Surface::Rerank] {
            let error = &shape(surface, code)["error"];
            assert_eq!((&error["code"], &error["message"]), (&label.into(), &"Do this.".into()));
            assert!(error["type"].is_string());
            let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["code", "message", "param", "type"]);
            let about_model = label.contains("model") && status < 500;
            assert_eq!(error["param"], if about_model { "model".into() } else { Value::Null }, "{label}");
        }
        let error = shape(Surface::Anthropic, code);
        assert_eq!(error["type"], "error");
        assert_eq!(error["error"]["type"], anthropic, "{label}");
        assert_eq!(error["error"]["message"], "Do this.");
        let error = &shape(Surface::Gemini, code)["error"];
        assert_eq!((&error["code"], &error["status"]), (&status.into(), &gemini.into()), "{label}");
        assert_eq!(error["message"], "Do this.");
    }
}

#[test]
fn every_429_and_503_has_a_time_to_wait() {
    for code in Code::ALL {
        let waits = matches!(code.status().as_u16(), 429 | 503);
        assert_eq!(Denial::new(code, "").retry_after.is_some(), waits, "{code:?}");
    }
    assert_eq!(Denial::overloaded().retry_after(7).retry_after, Some(7));
    let kept = Denial::with_status(Code::UpstreamError, StatusCode::SERVICE_UNAVAILABLE, "");
    assert_eq!(kept.retry_after, Some(RETRY_AFTER_SECONDS));
}

#[test]
fn t1_a_stream_ends_with_an_error_in_its_own_format() {
    let denial = Denial::new(Code::UpstreamError, "Broke.");
    let event = |surface, at_boundary| {
        String::from_utf8(stream_error_event(surface, at_boundary, &denial, "req-1").to_vec()).unwrap()
    };
    for surface in [Surface::OpenAi, Surface::Anthropic, Surface::Gemini] {
        let whole = event(surface, true);
        assert_eq!(event(surface, false), format!("\n\n{whole}"));
        assert!(whole.ends_with("\n\n"));
        let data = whole.trim_start_matches("event: error\n").strip_prefix("data: ").unwrap();
        let body: Value = serde_json::from_str(data.trim_end()).unwrap();
        assert_eq!(body, serde_json::from_slice::<Value>(&denial.body(surface, "req-1")).unwrap());
        assert_eq!(whole.starts_with("event: error\n"), surface == Surface::Anthropic);
    }
}
