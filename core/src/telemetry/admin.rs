//! The admin listener's answers (data-plane 1, 2, 7): the same bytes from both shells.

use core::net::IpAddr;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
    WWW_AUTHENTICATE,
};
use http::{Method, Response, StatusCode, Uri};
use std::borrow::Cow;
use std::sync::Arc;
use subtle::ConstantTimeEq;

use super::export::Levels;
use super::metrics::Metrics;
use super::state;
use super::wanted::{Wanted, pairs};
use crate::access::rate_ledger::{LedgerKey, RateFigures};
use crate::defects::{Defect, has};
use crate::desired::Backend;
use crate::exchange::selection::Ask;
use crate::exchange::{AccessToken, Figures, Loads, Node, Question, States, decode, explain};
use crate::secret::Secret;
use crate::serving::{Drain, ModelPool};
use crate::wire::ids::CircuitId;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

/// The status page: one file, nothing fetched from elsewhere. It holds no data, and asks `/admin/state` for it.
const PAGE: &str = include_str!("page.html");
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the answers are made of: one view of a node and what its requests share.
#[derive(Debug, Clone, Copy)]
pub struct Desk<'a> {
    /// The shell's version.
    pub version: &'static str,
    /// The node.
    pub node: Node<'a>,
    /// Its draws and ledgers.
    pub states: &'a States,
    /// Its counts.
    pub metrics: &'a Metrics,
}

/// The answer to a request for `uri`, and what the shell is to tell the worker. `token` is `admin.token`: when there is one every path needs it but the page's own,
/// which holds nothing; what changes something needs one in any case.
pub fn answer(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    token: Option<&Secret>,
    desk: &Desk<'_>,
) -> (Response<String>, Option<Drain>) {
    let reads = [Method::GET, Method::HEAD].contains(method);
    let path = uri.path();
    if path == "/admin/" && reads {
        return (page(), None);
    }
    if (path == "/admin" || path == "/") && reads {
        return (to_the_page(), None);
    }
    if token.is_some_and(|token| !shows(headers, token)) && !has(Defect::AdminOpen) {
        let message = "the admin listener needs `Authorization: Bearer <admin.token>`\n";
        let mut refusal = of(StatusCode::UNAUTHORIZED, PLAIN, message);
        refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return (refusal, None);
    }
    let response = match path {
        "/metrics" if reads => of(StatusCode::OK, OPEN_METRICS, desk.export()),
        "/admin/state" if reads => match Wanted::of(uri.query().unwrap_or_default()) {
            Ok(wanted) => of(StatusCode::OK, JSON, state::state(desk, &wanted).to_string()),
            Err(wrong) => bad(wrong),
        },
        "/admin/explain" if reads => explained(uri.query().unwrap_or_default(), desk),
        "/metrics" | "/admin/" | "/admin/state" | "/admin/explain" => {
            of(StatusCode::METHOD_NOT_ALLOWED, PLAIN, format!("{path} takes GET\n"))
        }
        _ => match path.strip_prefix("/admin/backends/").and_then(|rest| rest.rsplit_once('/')) {
            Some((name, verb @ ("drain" | "undrain"))) => {
                return drained(method, name, verb == "drain", token.is_some(), desk);
            }
            _ => of(
                StatusCode::NOT_FOUND,
                PLAIN,
                format!(
                    "{path} is not here; the admin listener has /metrics, /admin/, /admin/state, /admin/explain and \
                     /admin/backends/NAME/drain or undrain\n"
                ),
            ),
        },
    };
    (response, None)
}

/// For the shell: what was to be told to the worker was lost, since too much is on its way there.
pub fn busy() -> Response<String> {
    of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the worker is busy; nothing was changed, send it again\n")
}

impl Desk<'_> {
    fn export(&self) -> String {
        let Node { view, control, now, .. } = self.node;
        self.metrics.export(Levels::of(self.version, view, control, now.moment))
    }
}

fn page() -> Response<String> {
    let mut page = of(StatusCode::OK, HTML, PAGE);
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    page
}

/// What people type when they look for the page.
fn to_the_page() -> Response<String> {
    let mut there = of(StatusCode::PERMANENT_REDIRECT, PLAIN, "the status page is at /admin/\n");
    there.headers_mut().insert(LOCATION, HeaderValue::from_static("/admin/"));
    there
}

fn explained(query: &str, desk: &Desk<'_>) -> Response<String> {
    let mut question = Question::default();
    let mut json = false;
    for pair in pairs(query) {
        let (name, value) = match pair {
            Ok(pair) => pair,
            Err(wrong) => return bad(wrong),
        };
        let given = (!value.is_empty()).then(|| value.clone());
        match name {
            "model" => question.model = value.as_str().into(),
            "key_id" => question.key_id = given.filter(|_| !has(Defect::ExplainForgetsKey)),
            "host" => question.host = given,
            "client_ip" => match value.parse::<IpAddr>() {
                Ok(address) => question.client = Some(address.to_canonical()),
                Err(_) if value.is_empty() => {}
                Err(_) => return bad("client_ip is no address; write one such as 192.0.2.7\n".to_owned()),
            },
            "access_token" => match access_token(&value) {
                Some(token) => question.access_token = Some(token),
                None if value.is_empty() => {}
                None => return bad("access_token is good, none, or the id of the circuit that it is of\n".to_owned()),
            },
            "format" => json = value == "json",
            _ => {
                let known = "model, key_id, client_ip, host, access_token, format";
                return bad(format!("{name} is not known here; ask with {known}\n"));
            }
        }
    }
    if question.model.is_empty() {
        return bad("model is missing: GET /admin/explain?model=NAME\n".to_owned());
    }
    let mut figures = Looking { states: desk.states, desk };
    let told = explain(&question, desk.node, &mut figures);
    if json {
        let text = serde_json::to_string(&told).unwrap_or_default();
        return of(StatusCode::OK, JSON, text + "\n");
    }
    of(StatusCode::OK, PLAIN, told.to_string())
}

fn access_token(value: &str) -> Option<AccessToken> {
    match value {
        "good" => Some(AccessToken::Good),
        "none" => Some(AccessToken::Absent),
        id => Some(AccessToken::Of(CircuitId(id.parse().ok()?))),
    }
}

fn drained(
    method: &Method,
    name: &str,
    out: bool,
    has_token: bool,
    desk: &Desk<'_>,
) -> (Response<String>, Option<Drain>) {
    if *method != Method::POST {
        return (of(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "draining takes POST\n"), None);
    }
    if !has_token {
        return (of(StatusCode::FORBIDDEN, PLAIN, "set admin.token: nothing is changed here without one\n"), None);
    }
    if !cfg!(feature = "appproxy-common") {
        return (of(StatusCode::NOT_IMPLEMENTED, PLAIN, "this build judges no backends, so it drains none\n"), None);
    }
    let backend = decode(name).and_then(|name| desk.node.view.backend(&name).cloned());
    let Some(backend) = backend else {
        return (of(StatusCode::NOT_FOUND, PLAIN, "there is no backend of this name; /admin/state names them\n"), None);
    };
    let text = match out {
        true => format!(
            "{} takes no new requests on this node until it is undrained, or the worker starts anew\n",
            backend.name
        ),
        false => format!("{} takes requests as its health says\n", backend.name),
    };
    let drain = (!has(Defect::DrainUnheard)).then(|| Drain { backend: backend.name.clone(), out });
    (of(StatusCode::OK, PLAIN, text), drain)
}

/// What an explanation reads of the shared states, nothing of it changed.
struct Looking<'a> {
    states: &'a States,
    desk: &'a Desk<'a>,
}

impl Figures for Looking<'_> {
    fn rate(&mut self, key: &LedgerKey, limit: u32) -> RateFigures {
        self.states.ledger(key).look(key, limit, self.desk.node.now.moment)
    }

    fn next(&mut self, pool: &ModelPool, ask: &Ask<'_>) -> Option<Arc<Backend>> {
        self.states.selection(&pool.key).look_ahead(pool, ask)
    }

    fn loads(&self) -> &Loads {
        self.states.loads()
    }
}

fn shows(headers: &HeaderMap, token: &Secret) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
    shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.ct_eq(token.expose().as_bytes()))
    })
}

fn bad(text: String) -> Response<String> {
    of(StatusCode::BAD_REQUEST, PLAIN, text)
}

fn of(status: StatusCode, content_type: &'static str, text: impl Into<Cow<'static, str>>) -> Response<String> {
    let mut response = Response::new(text.into().into_owned());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
