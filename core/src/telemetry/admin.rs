//! The admin listener's answers (data-plane 2, 7).

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The answer to a request of these parts; every path needs `token` (`admin.token`) when there is one. `export` is asked
/// only for what is shown.
pub fn answer(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    token: Option<&Secret>,
    export: impl FnOnce() -> String,
) -> Response<String> {
    if token.is_some_and(|token| !shows(headers, token)) {
        let message = "the admin listener needs `Authorization: Bearer <admin.token>`\n";
        let mut refusal = of(StatusCode::UNAUTHORIZED, PLAIN, message.to_owned());
        refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return refusal;
    }
    match path {
        "/metrics" if [Method::GET, Method::HEAD].contains(method) => of(StatusCode::OK, OPEN_METRICS, export()),
        "/metrics" => of(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET /metrics, please\n".to_owned()),
        _ => of(StatusCode::NOT_FOUND, PLAIN, format!("{path} is not here; the admin listener has /metrics\n")),
    }
}

fn shows(headers: &HeaderMap, token: &Secret) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
    shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.ct_eq(token.expose().as_bytes()))
    })
}

fn of(status: StatusCode, content_type: &'static str, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &Method, path: &str, shown: Option<&str>, token: Option<&Secret>) -> u16 {
        let mut headers = HeaderMap::new();
        if let Some(shown) = shown {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(shown).expect("header"));
        }
        answer(method, path, &headers, token, || "text".to_owned()).status().as_u16()
    }

    #[test]
    fn every_path_needs_the_token_when_there_is_one() {
        let token = Secret::new("t0ken");
        let token = Some(&token);
        assert_eq!(status(&Method::GET, "/metrics", None, None), 200);
        assert_eq!(status(&Method::POST, "/metrics", None, None), 405);
        assert_eq!(status(&Method::GET, "/elsewhere", None, None), 404);
        for path in ["/metrics", "/elsewhere"] {
            for shown in
                [None, Some("Bearer"), Some("Bearer "), Some("Bearer t0ke"), Some("Basic t0ken"), Some("t0ken")]
            {
                assert_eq!(status(&Method::GET, path, shown, token), 401, "{path} {shown:?}");
            }
        }
        assert_eq!(status(&Method::GET, "/metrics", Some("bearer t0ken"), token), 200);
        assert_eq!(status(&Method::GET, "/elsewhere", Some("Bearer t0ken"), token), 404);
    }
}
