//! One decision of the data plane: gate, peek, selection and headers of a chat request.

use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::access::rate_ledger::RateLedger;
use appproxy_core::desired::Rules;
use appproxy_core::exchange::selection::Selection;
use appproxy_core::exchange::{
    Attempt, Chosen, Connection, Control, ExchangeRules, Gate, KeyGate, Node, Payload, RetryBudget, token_hash,
};
use appproxy_core::secret::Secret;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::key::ApiKey;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::request::Parts;

use crate::states::{self, circuit, key, publication, route};

const KEY: &str = "sk-bench";

pub(crate) struct World {
    rules: ExchangeRules,
    view: Arc<ServingView>,
    control: Control,
    ledger: RateLedger,
    selection: Selection,
    budget: RetryBudget,
    draws: Draws,
    connection: Connection,
    /// What a shell writes to the replica; kept from one request to the next.
    head: Vec<u8>,
}

impl World {
    /// Two endpoints of four and eight replicas, and a key with a rate limit.
    pub(crate) fn new() -> Self {
        let replicas = |number: u128, count: u128| {
            circuit(number, number, (0..count).map(|at| route(10 * number + at, 1.0)).collect())
        };
        let model = publication("bench", &["alias"], &[(1, 0.7), (2, 0.3)]);
        let mut desired = states::desired(vec![replicas(1, 4), replicas(2, 8)], vec![model]);
        let key = ApiKey {
            token_hash: token_hash(&Secret::new(KEY)),
            expires_at: Some(UnixMillis(i64::MAX)),
            rate_limit: Some(u32::MAX),
            ..key("bench", 0, &[])
        };
        desired.replace_keys([(key.key_id.clone(), key)].into());
        let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
        let touched = desired.take_touched();
        let _ = serving.update(&desired, &touched);
        Self {
            rules: ExchangeRules { key_gate: KeyGate::Published, ..ExchangeRules::default() },
            view: serving.view().clone(),
            control: Control::Alone { leaving: false },
            ledger: RateLedger::new(),
            selection: Selection::new(),
            budget: RetryBudget::new(),
            draws: Draws::new(Seed::from_number(7)),
            connection: Connection::new(Peer::Ip([192, 0, 2, 1].into()), false),
            head: Vec::new(),
        }
    }

    /// From a request's head and body to the replica it goes to, and what is written to it. The head is taken from where
    /// it stands, as a server does.
    pub(crate) fn decide(&mut self, head: &mut Option<Parts>, body: Bytes, decided: &mut Decided) -> Option<()> {
        let Self { rules, view, control, ledger, selection, budget, draws, connection, head: written } = self;
        let now = Now { moment: Moment::from_millis(5_000), wall: UnixMillis(1) };
        let node = Node { rules, view, control, now, file_refused: false };
        let connection = connection.clone();
        let gated = Gate::open(head.take()?, connection, node, draws).ok()?.pass(Some(ledger), node).ok()?;
        let chosen = gated.route(body, node).ok()?.begin(budget, node).choose(selection, node).ok()?;
        let Chosen::Send(attempt) = chosen else { panic!("the request is let through and sent") };
        let payload = attempt.payload();
        written.clear();
        attempt.write_head(&payload, written);
        *decided = Decided(Some((attempt, payload)));
        Some(())
    }
}

/// What is to be sent. Ends as every attempt does: its connection's next request finds the room of this one.
#[derive(Default)]
pub(crate) struct Decided(Option<(Attempt, Payload)>);

impl Drop for Decided {
    fn drop(&mut self) {
        drop(self.0.take().map(|(attempt, _)| attempt.gone()));
    }
}

/// A head as a server reads it: the values are parts of one buffer.
pub(crate) fn head(length: usize) -> Parts {
    let lines: [(HeaderName, String); 6] = [
        (HOST, "models.example.com".to_owned()),
        (AUTHORIZATION, format!("Bearer {KEY}")),
        (CONTENT_TYPE, "application/json".to_owned()),
        (USER_AGENT, "OpenAI/Python 1.99.0".to_owned()),
        (ACCEPT, "application/json".to_owned()),
        (CONTENT_LENGTH, length.to_string()),
    ];
    let mut buffer = Bytes::from(lines.iter().map(|(_, value)| value.as_str()).collect::<String>());
    // Shared from the start, as the buffer of a connection is.
    let _other = buffer.clone();
    let target = Bytes::copy_from_slice(b"/v1/chat/completions");
    let _another = target.clone();
    let target = http::Uri::from_maybe_shared(target).expect("a path");
    let request = lines.into_iter().fold(http::Request::post(target), |request, (name, value)| {
        request.header(name, HeaderValue::from_maybe_shared(buffer.split_to(value.len())).expect("plain text"))
    });
    request.body(()).expect("a request").into_parts().0
}

/// A chat as they mostly come, 2 KB of it: the model first, a long system prompt, few messages.
pub(crate) fn chat() -> Bytes {
    let message = |role: &str, text: &str| format!(r#"{{"role":"{role}","content":"{text}"}}"#);
    let prompt = "You answer questions about computer networks, briefly, and say so when you do not know. ".repeat(16);
    let messages = [
        message("system", prompt.trim_end()),
        message("user", "What does a router do?\\nGive one example of where it matters."),
        message(
            "assistant",
            &"It sends each packet a step nearer to its end, by a table of \\\"routes\\\". ".repeat(5),
        ),
        message("user", "And a proxy?"),
    ];
    let settings = r#""model":"bench","temperature":0.7,"max_tokens":512,"stream":true"#;
    format!(r#"{{{settings},"messages":[{}]}}"#, messages.join(",")).into()
}

/// A chat of many messages, its model after all of them.
pub(crate) fn body(size: usize) -> Bytes {
    let message = r#"{"role":"user","content":"Tell me, in \"plain\" words, what a router does."}"#;
    let mut text = format!(r#"{{"messages":[{message}"#);
    while text.len() + message.len() + 40 < size {
        text.push(',');
        text.push_str(message);
    }
    text.push_str(r#"],"model":"bench","stream":true}"#);
    text.into()
}
