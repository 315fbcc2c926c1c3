//! What an exchange leaves behind: its access line, its counts, the last time of its key.

use core::time::Duration;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::sync::Arc;

use super::*;
use crate::exchange::testing::{World, chat, request};
use crate::exchange::{EndOfBody, FailStage, Failure, Head, Outcome};
use crate::serving::ServingView;

const FIRST: Duration = Duration::from_millis(20);
const TOOK: Duration = Duration::from_micros(1_234_567);

/// A whole answer of 200 with this body, in the second attempt.
fn answered(world: &mut World, model: &str, body: &[u8], end: EndOfBody) -> Outcome {
    let (attempt, _) = world.first(chat("three"), model).unwrap();
    let (attempt, _) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    let mut reply = http::Response::new(()).into_parts().0;
    reply.headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let mut budget = core::mem::take(&mut world.budget);
    let Ok(Head::Commit(mut committed, _)) = attempt.head(reply, &mut budget, world.node()) else { panic!("200") };
    committed.passed(body);
    committed.ended(end)
}

fn lines(counts: &Counts) -> String {
    export(counts, &Levels::default())
}

fn holds(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
}

#[test]
fn an_access_line_says_who_asked_for_what_and_what_became_of_it() {
    let mut world = World::new();
    let outcome = answered(&mut world, "two", b"12345", EndOfBody::UpstreamBroke);
    let line = AccessLine::of(&outcome, Some(FIRST), TOOK);
    assert_eq!(
        (line.method, line.path, line.model, line.key_id),
        ("POST", "/v1/chat/completions", "two", "id-of-three")
    );
    assert_eq!((line.attempts, line.status, line.bytes, line.end), (2, 200, 5, "upstream_broke"));
    assert_eq!((line.first_byte_ms, line.duration_ms), (Some(20.0), 1234.567));
    assert_eq!(Some(line.backend), outcome.trail.backend().map(|name| &**name));
    assert!(line.backend.starts_with("appproxy-") && line.request_id.len() == 36, "{line:?}");
}

#[test]
fn times_have_three_decimals_at_the_most() {
    let mut world = World::new();
    let answer = world.answer(request("GET", "/nowhere", &[]), "");
    // 1.0000009 s and 16.666667 ms: what doubles make of them has sixteen digits.
    for (took, told) in [(1_000_000_900, "1000.001"), (16_666_667, "16.667"), (7, "0"), (300_000_000, "300")] {
        let took = Duration::from_nanos(took);
        let line = AccessLine::of(&answer.outcome, Some(took), took);
        assert_eq!((line.duration_ms.to_string(), line.first_byte_ms), (told.to_owned(), Some(line.duration_ms)));
    }
}

#[test]
fn what_is_not_known_is_a_dash_and_a_query_is_not_told() {
    let mut world = World::new();
    let answer = world.answer(request("POST", "/v1beta/models/m1:generateContent?key=sk-secret", &[]), "");
    let line = AccessLine::of(&answer.outcome, None, TOOK);
    assert_eq!((line.status, line.model, line.key_id, line.backend), (401, "-", "-", "-"));
    assert_eq!((line.path, line.attempts, line.first_byte_ms), ("/v1beta/models/m1:generateContent", 0, None));
    assert!(!format!("{line:?}").contains("sk-secret"));
    let long = world.answer(request("GET", &format!("/{}", "x".repeat(5000)), &[]), "");
    assert_eq!(AccessLine::of(&long.outcome, None, TOOK).path.len(), crate::limits::QUOTED_CHARS);
}

#[test]
fn an_exchange_is_counted_under_names_that_are_served() {
    let mut world = World::new();
    let body = br#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":8}}"#;
    let outcome = answered(&mut world, "two", body, EndOfBody::Complete);
    let backend = outcome.trail.backend().unwrap().clone();
    let mut counts = Counts::default();
    counts.exchange(&outcome, Some(FIRST), TOOK, &world.view);
    counts.exchange(&outcome, None, TOOK, &world.view);
    let text = lines(&counts);
    holds(&text, &format!(r#"appproxy_requests_total{{model="two",backend="{backend}",status="200"}} 2"#));
    holds(&text, &format!(r#"appproxy_tokens_total{{model="two",backend="{backend}",kind="input"}} 6"#));
    holds(&text, &format!(r#"appproxy_tokens_total{{model="two",backend="{backend}",kind="output"}} 16"#));
    holds(&text, r#"appproxy_time_to_first_byte_seconds_count{model="two"} 1"#);
    holds(&text, r#"appproxy_request_duration_seconds_count{model="two"} 2"#);
    holds(&text, "appproxy_retries_total 2");
    assert!(!text.contains("appproxy_responses_cut_total{"), "{text}");
    // What a client says is no name, and what is gone is none any more.
    for _ in 0..2 {
        let unknown = world.answer(chat("all"), r#"{"model":"sk-whatever"}"#);
        counts.exchange(&unknown.outcome, None, TOOK, &world.view);
    }
    counts.exchange(&outcome, None, TOOK, &ServingView::default());
    let text = lines(&counts);
    holds(&text, r#"appproxy_requests_total{model="-",backend="-",status="404"} 2"#);
    holds(&text, r#"appproxy_refusals_total{reason="model_not_found"} 2"#);
    holds(&text, r#"appproxy_requests_total{model="removed",backend="removed",status="200"} 1"#);
    assert!(!text.contains("whatever") && !text.contains("id-of"), "{text}");
}

#[test]
fn series_go_with_their_backends_and_names() {
    let mut world = World::new();
    let body = br#"{"usage":{"prompt_tokens":3}}"#;
    let outcome = answered(&mut world, "two", body, EndOfBody::DownstreamGone);
    let backend = outcome.trail.backend().unwrap().clone();
    let counted = || {
        let mut counts = Counts::default();
        counts.exchange(&outcome, Some(FIRST), TOOK, &world.view);
        counts
    };
    let mut counts = counted();
    counts.forget(&[], &[]);
    counts.forget(&["another".into()], &["m1".into()]);
    assert_eq!(counts, counted());
    holds(&lines(&counts), r#"appproxy_responses_cut_total{by="client_gone"} 1"#);
    counts.forget(core::slice::from_ref(&backend), &[]);
    let text = lines(&counts);
    assert!(!text.contains(&*backend), "{text}");
    holds(&text, r#"appproxy_request_duration_seconds_count{model="two"} 1"#);
    let mut counts = counted();
    counts.forget(&[], &[Arc::from("two")]);
    assert!(!lines(&counts).contains("two"), "{}", lines(&counts));
    // Sums stay.
    holds(&lines(&counts), "appproxy_retries_total 1");
}

#[test]
fn parts_add_up_to_what_one_would_have_counted() {
    let mut world = World::new();
    let body = br#"{"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let outcome = answered(&mut world, "two", body, EndOfBody::UpstreamIdle);
    let count = |counts: &mut Counts| {
        counts.exchange(&outcome, Some(FIRST), TOOK, &world.view);
        counts.connection_cut("slow");
    };
    let (mut one, mut part, mut other) = (Counts::default(), Counts::default(), Counts::default());
    (0..3).for_each(|_| count(&mut one));
    count(&mut part);
    (0..2).for_each(|_| count(&mut other));
    part.add(&other);
    assert_eq!(part, one);
    holds(&lines(&part), r#"appproxy_connections_cut_total{why="slow"} 3"#);
}

#[test]
fn refused_credentials_are_counted_and_their_keys_seen() {
    let mut world = World::new();
    let (attempt, _) = world.first(chat("root"), "gpt").unwrap();
    let mut reply = http::Response::new(()).into_parts().0;
    reply.status = StatusCode::UNAUTHORIZED;
    let mut budget = core::mem::take(&mut world.budget);
    let answer = attempt.head(reply, &mut budget, world.node()).unwrap_err();
    let metrics = Metrics::default();
    metrics.exchange(&answer.outcome, None, TOOK, &world.view);
    let text = metrics.export(Levels::default());
    holds(&text, "appproxy_credentials_refused_total 1");
    holds(&text, r#"appproxy_requests_total{model="gpt",backend="openai",status="502"} 1"#);
    holds(&text, r#"appproxy_refusals_total{reason="upstream_error"} 1"#);
    let key = answer.outcome.trail.key.clone().unwrap();
    assert_eq!(metrics.last_seen(&key), Some(answer.outcome.trail.arrived()));
    // A key that is none leaves no trace.
    let nobody = world.answer(chat("nobody"), "{}");
    assert_eq!((nobody.status.as_u16(), &nobody.outcome.trail.key), (401, &None));
}
