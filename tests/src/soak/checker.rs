//! What each answer must be, and the tally of what they were.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::{REPLICAS, Report, replica};

/// Wrong answers that are told in words.
const TOLD: usize = 10;

/// What came of one request.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Right to the byte, and ended as it should.
    Right,
    /// Broke off and showed it; what came was right.
    Broken,
    /// Refused with a reason.
    Refused(u16),
    /// The client left.
    Left,
    /// It must not have been.
    Wrong(String),
}

/// The counts of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    requests: AtomicU64,
    right: AtomicU64,
    broken: AtomicU64,
    left: AtomicU64,
    wrong: AtomicU64,
    refused: Mutex<BTreeMap<u16, u64>>,
    examples: Mutex<Vec<String>>,
}

impl Tally {
    pub(super) fn count(&self, verdict: Verdict) {
        let one = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        one(&self.requests);
        match verdict {
            Verdict::Right => one(&self.right),
            Verdict::Broken => one(&self.broken),
            Verdict::Left => one(&self.left),
            Verdict::Refused(status) => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
            }
            Verdict::Wrong(why) => {
                one(&self.wrong);
                let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
                if examples.len() < TOLD {
                    examples.push(why);
                }
            }
        }
    }

    pub(super) fn report(&self) -> Report {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            requests: read(&self.requests),
            right: read(&self.right),
            broken: read(&self.broken),
            left: read(&self.left),
            wrong: read(&self.wrong),
            refused: self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone().into_iter().collect(),
            examples: self.examples.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ..Report::default()
        }
    }
}

/// What a replica of this model says to this question: who it is, then the question.
fn expected(name: &str, question: &str) -> String {
    format!("Hello from {name}. You said: {question}")
}

/// Whose answer it says it is, when that is a replica of this model.
fn author(model: u32, value: &Value) -> Result<String, String> {
    let name = value["served_by"].as_str().unwrap_or_default();
    let of_model = (0..REPLICAS).any(|at| replica(model, at) == name);
    let asked = value["model"] == super::model(model).as_str();
    if of_model && asked { Ok(name.to_owned()) } else { Err(format!("{name:?} answered for model {model}: {value}")) }
}

/// Judges a whole answer with status 200.
pub(super) fn whole(model: u32, question: &str, body: &[u8]) -> Verdict {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return Verdict::Wrong(format!("no JSON: {}", String::from_utf8_lossy(body)));
    };
    match author(model, &value) {
        Ok(name) => {
            let content = value["choices"][0]["message"]["content"].as_str().unwrap_or_default();
            if content == expected(&name, question) {
                Verdict::Right
            } else {
                Verdict::Wrong(format!("{name} said {value}"))
            }
        }
        Err(why) => Verdict::Wrong(why),
    }
}

/// Judges a stream with status 200 by all bytes that came, and whether it ended well.
pub(super) fn stream(model: u32, question: &str, bytes: &[u8], ended_well: bool) -> Verdict {
    let text = String::from_utf8_lossy(bytes);
    let (mut said, mut name, mut done, mut told) = (String::new(), None, false, false);
    let events: Vec<&str> = text.split("\n\n").collect();
    // What stands behind the last empty line is half an event, and says nothing.
    for event in events.split_last().map_or(&[][..], |(_, whole)| whole) {
        let Some(data) = event.strip_prefix("data: ") else {
            // Half an event before our own error event.
            continue;
        };
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            if ended_well {
                return Verdict::Wrong(format!("an event that is no JSON in a whole stream: {data}"));
            }
            continue;
        };
        if value["error"].is_object() {
            told = true;
            continue;
        }
        match author(model, &value) {
            Ok(author) if name.as_ref().is_none_or(|name| *name == author) => name = Some(author),
            Ok(author) => return Verdict::Wrong(format!("{author} went on where {name:?} began")),
            Err(why) => return Verdict::Wrong(why),
        }
        said.push_str(value["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    let expected = name.as_deref().map(|name| expected(name, question)).unwrap_or_default();
    match (ended_well, done) {
        (true, true) if told => Verdict::Wrong("an error in a stream that ended well".to_owned()),
        (true, true) if said == expected && name.is_some() => Verdict::Right,
        (true, _) => Verdict::Wrong(format!("looks whole and is not: done {done}, {said:?} of {expected:?}")),
        (false, _) if !expected.starts_with(&said) => Verdict::Wrong(format!("{said:?} is no part of {expected:?}")),
        // `[DONE]` came and the end of the chunks did not: it broke between the two, and shows it.
        (false, _) => Verdict::Broken,
    }
}

/// Judges a refusal: an error in OpenAI's shape, with a time to wait where it must have one.
pub(super) fn refusal(status: u16, body: &[u8], retry_after: bool) -> Verdict {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let worded = value["error"]["message"].as_str().is_some_and(|message| !message.is_empty());
    let waits = status != 503 || retry_after;
    match status {
        502..=504 if worded && waits => Verdict::Refused(status),
        _ => Verdict::Wrong(format!("{status}: {}", String::from_utf8_lossy(body))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(content: &str) -> String {
        format!(
            "data: {{\"served_by\":\"replica-1-0\",\"model\":\"model-1\",\"choices\":[{{\"delta\":{{\"content\":\"{content}\"}}}}]}}\n\n"
        )
    }

    #[test]
    fn a_stream_is_right_only_when_it_is_all_there_and_ends_well() {
        let (all, done) = (event("Hello from replica-1-0. You said: hi"), "data: [DONE]\n\n");
        let judge = |text: String, well| stream(1, "hi", text.as_bytes(), well);
        assert_eq!(judge(all.clone() + done, true), Verdict::Right);
        assert_eq!(judge(all.clone() + done, false), Verdict::Broken);
        assert_eq!(judge(event("Hello from ") + "data: {\"err", false), Verdict::Broken);
        for (text, well) in [
            (all.clone(), true),
            (event("Hello from replica-1-0.") + done, true),
            (event("Hello from replica-1-1.") + done, false),
            (done.to_owned(), true),
            (all.replace("model-1", "model-2") + done, true),
            (all.clone() + &all.replace("1-0", "1-1"), false),
        ] {
            assert!(matches!(judge(text.clone(), well), Verdict::Wrong(_)), "{text} {well}");
        }
    }

    #[test]
    fn a_whole_answer_and_a_refusal_are_judged_to_the_word() {
        let body = r#"{"served_by":"replica-1-2","model":"model-1","choices":[{"message":{"content":"Hello from replica-1-2. You said: hi"}}]}"#;
        assert_eq!(whole(1, "hi", body.as_bytes()), Verdict::Right);
        assert!(matches!(whole(1, "ho", body.as_bytes()), Verdict::Wrong(_)));
        assert!(matches!(whole(2, "hi", body.as_bytes()), Verdict::Wrong(_)));
        let said = br#"{"error":{"message":"no"}}"#;
        assert_eq!(refusal(503, said, true), Verdict::Refused(503));
        for (status, retry_after) in [(503, false), (500, true), (404, true)] {
            assert!(matches!(refusal(status, said, retry_after), Verdict::Wrong(_)), "{status}");
        }
    }
}
