//! Clients on one thread, each with a connection that it keeps: the next request follows the answer to the last.

use core::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::wire::{content_length, count, find, head_end};
use super::{KEY, MODEL, Step};

/// An answer takes less, or it is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// What clients saw. Times in microseconds.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whole answers, and how long each took; of a stream to its first event.
    pub(super) answers: Vec<u32>,
    /// Between one read with events and the next of the same stream.
    pub(super) gaps: Vec<u32>,
    /// Events of streams.
    pub(super) events: u64,
    /// What was not as it should be, and the first of it in words.
    pub(super) wrong: u64,
    pub(super) example: Option<String>,
    /// How long they were at it.
    pub(super) took: Duration,
}

impl Seen {
    fn met(&mut self, error: &io::Error) {
        self.wrong += 1;
        self.example.get_or_insert_with(|| error.to_string());
    }
}

/// Puts `step` on `address` for `length`, after a short while that does not count.
///
/// # Errors
/// When there is no runtime to be had.
pub(super) fn run(address: SocketAddr, step: &Step, length: Duration) -> io::Result<Seen> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let seen = Rc::new(RefCell::new(Seen::default()));
    let tasks = LocalSet::new();
    let began = Instant::now();
    for _ in 0..step.clients {
        let client = Client { address, request: request(step), step: *step, until: began + length, seen: seen.clone() };
        tasks.spawn_local(client.run());
    }
    runtime.block_on(tasks);
    let mut seen = Rc::try_unwrap(seen).map_err(|_| io::Error::other("a client is still at work"))?.into_inner();
    seen.took = began.elapsed();
    Ok(seen)
}

fn request(step: &Step) -> Vec<u8> {
    let stream = match step.every {
        Some(every) => format!("\"stream\":true,\"user\":\"pieces={} every_ms={}\",", step.pieces, every.as_millis()),
        None => String::new(),
    };
    let body = format!(
        "{{\"model\":\"{MODEL}\",{stream}\"max_tokens\":256,\"temperature\":0.7,\"messages\":[{{\"role\":\"system\",\
         \"content\":\"You are a helpful assistant.\"}},{{\"role\":\"user\",\"content\":\"Write a short note on why a proxy \
         between a client and an engine should add as little as it can to the time that the model takes to answer.\"}}]}}"
    );
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: load\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

struct Client {
    address: SocketAddr,
    request: Vec<u8>,
    step: Step,
    until: Instant,
    seen: Rc<RefCell<Seen>>,
}

impl Client {
    async fn run(self) {
        while Instant::now() < self.until {
            if let Err(error) = self.converse().await {
                self.seen.borrow_mut().met(&error);
                // Whatever it is, trying as fast as one can tells no more about it.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn converse(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(16 * 1024);
        while Instant::now() < self.until {
            buffer.clear();
            let began = Instant::now();
            stream.write_all(&self.request).await?;
            let answer = async {
                match self.step.every {
                    None => self.whole(&mut stream, &mut buffer, began).await,
                    Some(_) => self.streamed(&mut stream, &mut buffer, began).await,
                }
            };
            timeout(PATIENCE, answer).await??;
        }
        Ok(())
    }

    async fn whole(&self, stream: &mut TcpStream, buffer: &mut Vec<u8>, began: Instant) -> io::Result<()> {
        let all = loop {
            more(stream, buffer).await?;
            if let Some(head) = head_end(buffer) {
                break head + content_length(good(buffer, head)?).ok_or_else(|| wrong(buffer))?;
            }
        };
        while buffer.len() < all {
            more(stream, buffer).await?;
        }
        self.seen.borrow_mut().answers.push(micros(began.elapsed()));
        if buffer.len() == all { Ok(()) } else { Err(wrong(buffer)) }
    }

    /// Reads a stream to its end. Events are counted as they come and dropped, so that none is looked at twice.
    async fn streamed(&self, stream: &mut TcpStream, buffer: &mut Vec<u8>, began: Instant) -> io::Result<()> {
        let mut events = 0;
        let mut last = None;
        loop {
            more(stream, buffer).await?;
            if last.is_none() {
                let Some(head) = head_end(buffer) else { continue };
                good(buffer, head)?;
                buffer.drain(..head);
            }
            let whole_events = buffer.windows(2).rposition(|window| window == b"\n\n").map_or(0, |at| at + 2);
            let came = count(buffer.get(..whole_events).unwrap_or_default(), b"data: ");
            buffer.drain(..whole_events);
            if came > 0 {
                let (now, mut seen) = (Instant::now(), self.seen.borrow_mut());
                match last.replace(now) {
                    Some(before) => seen.gaps.push(micros(now - before)),
                    None => seen.answers.push(micros(now - began)),
                }
                events += came;
                seen.events += u64::try_from(came).unwrap_or(0);
            }
            if find(buffer, b"\r\n0\r\n\r\n").is_some() {
                let all = usize::try_from(self.step.pieces).unwrap_or(0) + 1;
                return if events == all { Ok(()) } else { Err(io::Error::other(format!("{events} of {all} events"))) };
            }
        }
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(buffer).await? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended in the middle of an answer")),
        _ => Ok(()),
    }
}

/// The head, of an answer that says 200.
fn good(buffer: &[u8], head: usize) -> io::Result<&[u8]> {
    match buffer.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(buffer.get(..head).unwrap_or_default()),
        false => Err(wrong(buffer)),
    }
}

fn wrong(buffer: &[u8]) -> io::Error {
    let shown = String::from_utf8_lossy(buffer.get(..200).unwrap_or(buffer)).into_owned();
    io::Error::other(format!("not the answer that was sent: {shown:?}"))
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
