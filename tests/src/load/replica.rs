//! A replica that costs next to nothing: one thread, answers made beforehand, nothing parsed but what it is asked for.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use super::wire::{content_length, find, head_end};

const WHOLE: &str = r#"{"id":"chatcmpl-load","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A proxy that stands in every request's way should cost as little as it can; the model's own time is what is paid for."},"finish_reason":"stop"}],"usage":{"prompt_tokens":52,"completion_tokens":28,"total_tokens":80}}"#;
const PIECE: &str = r#"{"id":"chatcmpl-load","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}"#;
const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// Starts a replica on a thread of its own, which lives as long as the program; returns where it listens.
///
/// # Errors
/// When no port can be had.
pub(super) fn start() -> io::Result<SocketAddr> {
    let (tell, told) = mpsc::channel();
    thread::Builder::new().name("replica".to_owned()).spawn(move || {
        let opened = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
            Ok((listener.local_addr()?, listener, runtime))
        });
        let (address, listener, runtime) = match opened {
            Ok(opened) => opened,
            Err(error) => return drop(tell.send(Err(error))),
        };
        drop(tell.send(Ok(address)));
        LocalSet::new().block_on(&runtime, accept(listener));
    })?;
    told.recv().map_err(io::Error::other)?
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // A client that leaves ends its conversation, which is all there is to it.
        tokio::task::spawn_local(async move { drop(converse(stream).await) });
    }
}

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let whole =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{WHOLE}", WHOLE.len());
    let mut bytes = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(head) = head_end(&bytes) {
                let length = content_length(bytes.get(..head).unwrap_or_default()).unwrap_or(0);
                if bytes.len() >= head + length {
                    break head + length;
                }
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let request = bytes.get(..end).unwrap_or_default();
        match (number(request, b"pieces="), number(request, b"every_ms=")) {
            (Some(pieces), Some(every)) => pour(&mut stream, pieces, Duration::from_millis(every)).await?,
            _ => stream.write_all(whole.as_bytes()).await?,
        }
        bytes.drain(..end);
    }
}

async fn pour(stream: &mut TcpStream, pieces: u64, every: Duration) -> io::Result<()> {
    let piece = format!("data: {PIECE}\n\n");
    let piece = format!("{:x}\r\n{piece}\r\n", piece.len());
    let began = Instant::now();
    for number in 0..pieces {
        sleep_until(began + every * u32::try_from(number).unwrap_or(u32::MAX)).await;
        match number {
            0 => stream.write_all(&[STREAM_HEAD, piece.as_bytes()].concat()).await?,
            _ => stream.write_all(piece.as_bytes()).await?,
        }
    }
    stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await
}

/// The number behind `mark`.
fn number(bytes: &[u8], mark: &[u8]) -> Option<u64> {
    let rest = bytes.get(find(bytes, mark)? + mark.len()..)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    core::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}
