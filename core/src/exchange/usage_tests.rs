use super::*;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use proptest::prelude::*;

fn reader(surface: Surface, kind: &'static str) -> Option<Reader> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Reader::of(surface, &headers, kind == EVENTS)
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// What is stated by an answer that comes in pieces of this size.
fn of(surface: Surface, kind: &'static str, answer: &str, piece: usize) -> Option<(u64, u64)> {
    let mut reader = reader(surface, kind).expect("a form that states usage");
    answer.as_bytes().chunks(piece).for_each(|chunk| reader.see(chunk));
    assert!(reader.tail.len() <= 2 * USAGE_BYTES && reader.lead.as_ref().is_none_or(|lead| lead.len() <= USAGE_BYTES));
    reader.stated().map(|usage| (usage.input, usage.output))
}

fn whole(surface: Surface, answer: &str) -> Option<(u64, u64)> {
    of(surface, JSON, answer, usize::MAX)
}

fn stream(surface: Surface, events: &[&str]) -> Option<(u64, u64)> {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let stated = of(surface, EVENTS, &text, usize::MAX);
    assert_eq!(of(surface, EVENTS, &text.replace('\n', "\r\n"), 7), stated, "{text}");
    stated
}

#[test]
fn whole_answers_of_every_protocol_state_it_at_their_end() {
    use Surface::{Anthropic, Gemini, OpenAi, Rerank};
    let long = "w".repeat(3 * USAGE_BYTES);
    for (surface, answer, stated) in [
        (
            OpenAi,
            r#"{"choices":[{"message":{"content":"CONTENT"}}],"usage":{"prompt_tokens":3,"completion_tokens":8,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":2}},"prompt_logprobs":null}"#,
            (3, 8),
        ),
        (
            OpenAi,
            "{\"data\":[{\"embedding\":\"CONTENT\"}],\n \"usage\" :\t{ \"prompt_tokens\": 5, \"total_tokens\": 5 }\n}\n",
            (5, 0),
        ),
        (
            OpenAi,
            r#"{"output":["CONTENT"],"usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9},"user":null,"metadata":{"a":"}"}}"#,
            (7, 2),
        ),
        (
            Anthropic,
            r#"{"content":[{"type":"text","text":"CONTENT"}],"usage":{"input_tokens":1,"cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":4}}"#,
            (111, 4),
        ),
        (
            Gemini,
            r#"{"candidates":["CONTENT"],"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":2,"thoughtsTokenCount":30,"totalTokenCount":38},"modelVersion":"m"}"#,
            (6, 32),
        ),
        (
            Gemini,
            "[{\"candidates\":[],\"usageMetadata\":{\"promptTokenCount\":6}}\n,\r\n{\"candidates\":[\"CONTENT\"],\"usageMetadata\":{\"promptTokenCount\":6,\"candidatesTokenCount\":9}}\n]",
            (6, 9),
        ),
        (Rerank, r#"{"id":"r","usage":{"total_tokens":12},"results":[{"document":{"text":"CONTENT"}}]}"#, (12, 0)),
    ] {
        for content in ["", "short", &long] {
            let answer = answer.replace("CONTENT", content);
            for piece in [1, 7, 1000, usize::MAX] {
                assert_eq!(of(surface, JSON, &answer, piece), Some(stated), "{answer}");
            }
        }
    }
}

#[test]
fn streams_of_every_protocol_state_it_in_their_last_events() {
    use Surface::{Anthropic, Gemini, OpenAi};
    let delta = r#"{"choices":[{"delta":{"content":"a"}}],"usage":null}"#;
    let last = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":8}}"#;
    assert_eq!(stream(OpenAi, &[delta, delta, last, "[DONE]"]), Some((3, 8)));
    assert_eq!(stream(OpenAi, &[delta, delta, "[DONE]"]), None);
    assert_eq!(stream(OpenAi, &[last, delta, delta, delta, "[DONE]"]), None, "it is not the end's");
    // A completed response holds the whole answer, longer than what is remembered.
    let text = "w".repeat(3 * USAGE_BYTES);
    let completed = format!(
        r#"{{"type":"response.completed","response":{{"output":["{text}"],"usage":{{"input_tokens":7,"output_tokens":2}},"user":null}},"sequence_number":9}}"#
    );
    assert_eq!(stream(OpenAi, &["{}", &completed]), Some((7, 2)));
    let start = r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}}}"#;
    let text = format!(r#"{{"type":"content_block_delta","delta":{{"text":"{}"}}}}"#, "w".repeat(USAGE_BYTES));
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    assert_eq!(stream(Anthropic, &[start, &text, &text, &text, delta, stop]), Some((30, 15)));
    assert_eq!(stream(Anthropic, &[start, &text, &text, &text]), Some((30, 1)), "one that broke off");
    let part = r#"{"candidates":[{}],"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":1}}"#;
    assert_eq!(stream(Gemini, &[part, &part.replace(":1}", ":4}")]), Some((6, 4)));
}

#[test]
fn what_only_looks_like_a_statement_is_none() {
    use Surface::{Anthropic, OpenAi};
    for answer in [
        // What a client or a model says.
        r#"{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}}"}}]}"#,
        r#"{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":9}}}]}"#,
        r#"{"usage":{"input_tokens":9},"more":{"usage":7}}"#,
        // Cut, or not as it should be.
        r#"{"choices":[],"usage":{"prompt_tokens":9}"#,
        r#"{"choices":[],"usage":{"prompt_tok"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9},"x":"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9},"x":"a}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9}]"#,
        r#"{"choices":[],"usage":{"prompt_tokens":-9}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":4294967296}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"prompt_tokens":2}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":"9"}}"#,
        r#"{"choices":[],"usage":{}}"#,
        r#"{"choices":[],"usage":null}"#,
        r#"{"choices":[],"usage":"#,
        "\"usage\"",
        "",
    ] {
        assert_eq!((whole(OpenAi, answer), whole(Anthropic, answer)), (None, None), "{answer}");
    }
    assert_eq!(whole(OpenAi, r#"{"usage":{"prompt_tokens":9}}"#), Some((9, 0)));
    // A comment is no data, and neither is a name of an event.
    let comment = format!("data: {{}}\n\n: {0}\nevent: {0}\n\n", r#"{"usage":{"prompt_tokens":9}}"#);
    assert_eq!(of(OpenAi, EVENTS, &comment, usize::MAX), None);
}

#[test]
fn what_cannot_be_read_is_not_remembered() {
    assert!(reader(Surface::OpenAi, "audio/mpeg").is_none() && reader(Surface::OpenAi, JSON).is_some());
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert!(Reader::of(Surface::OpenAi, &headers, false).is_none());
}

#[test]
fn the_last_bytes_are_remembered_and_no_more() {
    let statement = r#""usage":{"prompt_tokens":9},"pad":"#;
    for (length, stated) in [(USAGE_BYTES, Some((9, 0))), (2 * USAGE_BYTES + 1, None)] {
        let pad = "p".repeat(length - statement.len() - 3);
        let answer = format!("{{{statement}\"{pad}\"}}");
        assert_eq!(answer.len(), length + 1);
        assert_eq!(whole(Surface::OpenAi, &answer), stated);
    }
}

proptest! {
    /// However it is cut into pieces, the same is stated; and anything may pass.
    #[test]
    fn pieces_make_no_difference(
        before in "[ -~]{0,40}",
        long in 0..3 * USAGE_BYTES,
        sizes in prop::collection::vec(1..3000_usize, 1..20),
    ) {
        let content = serde_json::to_string(&format!("{before}{}", "x".repeat(long))).expect("a string");
        let answer = format!(r#"{{"choices":[{{"message":{{"content":{content}}}}}],"usage":{{"prompt_tokens":3,"completion_tokens":8}}}}"#);
        let mut reader = reader(Surface::OpenAi, JSON).expect("readable");
        let mut rest = answer.as_bytes();
        for size in sizes.into_iter().cycle() {
            let (chunk, left) = rest.split_at(size.min(rest.len()));
            reader.see(chunk);
            rest = left;
            if rest.is_empty() { break }
        }
        prop_assert_eq!(reader.stated(), Some(Usage { input: 3, output: 8 }));
    }

    #[test]
    fn anything_may_pass(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'}'), Just(b'\n'), any::<u8>()], 0..200), events: bool, surface in 0..4_usize) {
        let surface = [Surface::OpenAi, Surface::Rerank, Surface::Anthropic, Surface::Gemini][surface];
        let mut reader = reader(surface, if events { EVENTS } else { JSON }).expect("readable");
        reader.see(b"data: {\"usage\":{\"total_tokens\":1");
        reader.see(&bytes);
        let _ = reader.stated();
    }
}
