//! One client: asks, reads, leaves, and has every answer judged.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use appproxy_core::seed::Draws;
use serde_json::json;

use super::checker::{self, Verdict};
use super::keys::Opinion;
use super::{MODELS, Shared, model};
use crate::http::{Connection, Head, Request};

/// Longest wait for any part of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until the run is over.
pub(super) fn run(number: u32, shared: &Shared, mut draws: Draws) {
    let mut connection = None;
    let mut asked = 0_u64;
    while !shared.stopped() {
        thread::sleep(Duration::from_millis(draws.next_u64() % 400));
        asked += 1;
        let question = question(number, asked, &mut draws);
        shared.tally.count(ask(shared, &mut connection, &question, &mut draws));
    }
}

/// Different for every request, with characters of several lengths.
fn question(number: u32, asked: u64, draws: &mut Draws) -> String {
    let words = ["one", "två", "三", "🦀", "four", "fünf"];
    let mut question = format!("{number}/{asked}");
    for _ in 0..draws.next_u64() % 30 {
        let word = usize::try_from(draws.next_u64() % 6).unwrap_or(0);
        question.push(' ');
        question.push_str(words.get(word).copied().unwrap_or_default());
    }
    question
}

fn ask(shared: &Shared, kept: &mut Option<Connection>, question: &str, draws: &mut Draws) -> Verdict {
    let number = u32::try_from(draws.next_u64() % u64::from(MODELS)).unwrap_or(0);
    let streams = draws.next_u64().is_multiple_of(2);
    let leaves = draws.next_u64().is_multiple_of(8);
    let (key, slot) = shared.keys.some(draws);
    let body = json!({"model": model(number), "stream": streams, "messages": [{"role": "user", "content": question}]});
    let request = Request::post_json("/v1/chat/completions", &body.to_string()).bearer(&key);

    let began = Instant::now();
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => match Connection::open(&shared.data, PATIENCE) {
            Ok(connection) => connection,
            Err(e) => return Verdict::Wrong(format!("no connection to the worker: {e}")),
        },
    };
    if leaves {
        return leave(connection, &request, draws);
    }
    let head = connection.send(&request).and_then(|()| connection.head());
    let head = match head {
        Ok(head) => head,
        Err(e) => return Verdict::Wrong(format!("no answer at all: {e}")),
    };
    let (bytes, end) = read(&mut connection);
    let verdict = judge(shared, &head, &bytes, &end, (number, question, streams), (slot, began));
    if end.is_ok() && head.header("connection") != Some("close") {
        *kept = Some(connection);
    }
    verdict
}

/// Goes away after a while: before the head, or after a few pieces.
fn leave(mut connection: Connection, request: &Request, draws: &mut Draws) -> Verdict {
    if connection.send(request).is_ok() && draws.next_u64().is_multiple_of(2) && connection.head().is_ok() {
        for _ in 0..draws.next_u64() % 4 {
            let _ = connection.piece();
        }
    }
    Verdict::Left
}

fn read(connection: &mut Connection) -> (Vec<u8>, io::Result<()>) {
    let mut bytes = Vec::new();
    loop {
        match connection.piece() {
            Ok(Some(piece)) => bytes.extend(piece),
            Ok(None) => return (bytes, Ok(())),
            Err(e) => return (bytes, Err(e)),
        }
    }
}

fn judge(
    shared: &Shared,
    head: &Head,
    bytes: &[u8],
    end: &io::Result<()>,
    (number, question, streams): (u32, &str, bool),
    (slot, began): (Option<usize>, Instant),
) -> Verdict {
    if let Err(e) = end
        && e.kind() == io::ErrorKind::TimedOut
    {
        return Verdict::Wrong(format!("an answer that neither goes on nor ends: {e}"));
    }
    match (head.status, shared.keys.opinion(slot, began)) {
        (401, Opinion::Good) => Verdict::Wrong("a good key was refused".to_owned()),
        (401, _) => Verdict::Refused(401),
        (_, Opinion::Revoked) => Verdict::Wrong(format!("a revoked key got {}", head.status)),
        (200, _) if streams => checker::stream(number, question, bytes, end.is_ok()),
        (200, _) if end.is_ok() => checker::whole(number, question, bytes),
        (200, _) => Verdict::Broken,
        (status, _) => checker::refusal(status, bytes, head.header("retry-after").is_some()),
    }
}
