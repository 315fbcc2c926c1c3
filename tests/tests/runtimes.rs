//! What the driver relies on in a runtime, held against each shell's, on real sockets.

use std::future::{pending, poll_fn};
use std::io::{IoSlice, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use appproxy_core::worker::TransportFailure;
use appproxy_driver::{Runtime, Stream, Timer};
use bytes::{Bytes, BytesMut};
use http::Request;
use hyper::rt::ReadBuf;
use rustls::{ClientConfig, RootCertStore};

const PATIENCE: Duration = Duration::from_secs(10);

fn wait_for<R: Runtime, T>(future: impl Future<Output = T>) -> T {
    R::block_on(future).expect("a runtime")
}

/// Says when it is dropped.
struct Dropped(Sender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // The test may be over.
        let _ = self.0.send(());
    }
}

fn a_task_comes_to_its_value_and_ends_with_its_handle<R: Runtime>() {
    wait_for::<R, _>(async {
        R::start().expect("started once more");
        assert_eq!(R::spawn(async { 7 }).await.expect("no fault"), 7);
        assert!(R::spawn(async { panic!("on purpose") }).await.is_err());
        let (tell, told) = channel();
        let mark = Dropped(tell);
        let task = R::spawn(async move {
            let _mark = mark;
            pending::<()>().await;
        });
        drop(task);
        assert_eq!(R::aside(move || told.recv_timeout(PATIENCE)).await, Some(Ok(())));
        let (tell, told) = channel();
        R::detach(async move { tell.send(()) });
        assert_eq!(R::aside(move || told.recv_timeout(PATIENCE)).await, Some(Ok(())));
    });
}

fn work_aside_is_done_whoever_waits_and_a_fault_in_it_is_its_own<R: Runtime>() {
    wait_for::<R, _>(async {
        assert_eq!(R::aside(|| 7).await, Some(7));
        assert_eq!(R::aside(|| -> u8 { panic!("on purpose") }).await, None);
        let (tell, told) = channel();
        let late = R::aside(move || {
            std::thread::sleep(Duration::from_millis(20));
            tell.send(())
        });
        assert_eq!(R::within(Duration::from_millis(1), late).await, None);
        assert_eq!(R::aside(move || told.recv_timeout(PATIENCE)).await, Some(Ok(())));
    });
}

fn work_has_its_time_and_no_more<R: Runtime>() {
    wait_for::<R, _>(async {
        assert_eq!(R::until(Instant::now(), pending::<()>()).await, None);
        assert_eq!(R::within(Duration::from_millis(1), pending::<()>()).await, None);
        assert_eq!(R::within(Duration::MAX, async { 7 }).await, Some(7));
    });
}

fn a_timer_comes_at_its_instant_and_can_be_moved<R: Runtime>() {
    wait_for::<R, _>(async {
        let at = Instant::now() + Duration::from_millis(5);
        // Some runtimes count in milliseconds; none is early.
        let said = R::Timer::at(at).await;
        assert!(said >= at && Instant::now() >= at);
        let mut timer = R::Timer::after(Duration::from_secs(3_600));
        assert!(R::within(Duration::from_millis(1), &mut timer).await.is_none());
        timer.set_at(Instant::now());
        assert!(R::within(PATIENCE, &mut timer).await.is_some());
        // A timer that has come can be set again.
        timer.set_at(Instant::now() + Duration::from_millis(1));
        assert!(R::within(PATIENCE, &mut timer).await.is_some());
    });
}

/// What goes into one end comes out of the other, by every way to read.
async fn carries(mut from: impl Stream, mut to: impl Stream) {
    let slices = [IoSlice::new(b"hel"), IoSlice::new(b"lo")];
    let mut sent = poll_fn(|cx| from.poll_send(cx, &slices)).await.expect("sent");
    if sent == 3 {
        sent += poll_fn(|cx| from.poll_send(cx, &slices[1..])).await.expect("sent");
    }
    assert_eq!(sent, 5);
    poll_fn(|cx| from.poll_flush(cx)).await.expect("flushed");

    let mut first = [0; 1];
    assert_eq!(poll_fn(|cx| to.poll_read(cx, &mut first)).await.expect("read"), 1);
    let mut filled = BytesMut::with_capacity(2);
    while filled.len() < 4 {
        assert!(poll_fn(|cx| to.poll_fill(cx, &mut filled)).await.expect("read") > 0);
    }
    assert_eq!((&first, &*filled), (b"h", b"ello".as_slice()));

    poll_fn(|cx| from.poll_send(cx, &[IoSlice::new(b"world")])).await.expect("sent");
    let mut room = [0; 16];
    let mut taken = ReadBuf::new(&mut room);
    let mut seen = 0;
    while seen < 5 {
        to.look_again();
        poll_fn(|cx| {
            to.poll_take(cx, taken.unfilled(), |came| {
                seen += came.len();
                came.iter().take_while(|byte| **byte != b'l').count()
            })
        })
        .await
        .expect("read");
    }
    assert!(taken.filled().starts_with(b"wor") && taken.filled().len() < 5, "{:?}", taken.filled());

    poll_fn(|cx| from.poll_close(cx)).await.expect("closed");
    assert_eq!(poll_fn(|cx| to.poll_read(cx, &mut first)).await.expect("an end"), 0);
}

fn connections_carry_bytes_both_ways<R: Runtime>() {
    wait_for::<R, _>(async {
        let (listener, at) = R::listen("localhost", 0).await.expect("a listener");
        assert!(R::resolve("localhost", at.port()).await.expect("addresses").contains(&at));
        for turned in [false, true] {
            let near = R::connect(at).await.expect("connected");
            let (far, from) = R::accept(&listener).await.expect("accepted");
            assert!(from.ip().is_loopback());
            if turned { carries(near, far).await } else { carries(far, near).await }
        }
        drop(listener);
        assert!(R::connect(at).await.is_err(), "nobody listens any more");

        let path = std::env::temp_dir().join(format!("appproxy-{}-{}", R::PROGRAM, std::process::id()));
        assert!(R::connect_unix(&path).await.is_err(), "nobody listens yet");
        let listener = R::listen_unix(&path).expect("a listener");
        let near = R::connect_unix(&path).await.expect("connected");
        let far = R::accept_unix(&listener).await.expect("accepted");
        carries(near, far).await;
        assert!(R::listen_unix(&path).is_err(), "it exists");
        std::fs::remove_file(path).expect("a socket");
    });
}

/// What a runtime makes of one call.
fn outcome_of<R: Runtime>(base: &str) -> Result<(u16, Bytes), TransportFailure> {
    let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let request = Request::get(format!("{base}/x")).body(Bytes::new()).expect("a request");
    wait_for::<R, _>(R::fetch(request, &Arc::new(tls)))
}

/// A peer that reads a little, writes `answer` and closes.
fn peer(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(answer.as_bytes());
    });
    format!("http://{address}")
}

fn every_kind_of_failure_has_its_name<R: Runtime>() {
    let outcome_of = outcome_of::<R>;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        format!("http://{}", listener.local_addr().expect("address"))
    };
    assert_eq!(outcome_of(&closed), Err(TransportFailure::Refused));
    assert_eq!(outcome_of(&closed.replace("http:", "https:")), Err(TransportFailure::Refused));
    for scheme in ["http", "https"] {
        assert_eq!(outcome_of(&format!("{scheme}://does-not-exist.invalid")), Err(TransportFailure::Unresolved));
    }
    assert_eq!(outcome_of(&peer("")), Err(TransportFailure::Reset));
    assert_eq!(outcome_of(&peer("SSH-2.0-OpenSSH_9.6\r\n")), Err(TransportFailure::NotHttp));
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
    assert_eq!(outcome_of(&peer(short)), Err(TransportFailure::Reset));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\"";
    assert_eq!(outcome_of(&peer(chunked)), Err(TransportFailure::Reset));
    let tls = peer("HTTP/1.1 400 Bad Request\r\n\r\n").replace("http://", "https://");
    assert!(matches!(outcome_of(&tls), Err(TransportFailure::Tls(_))));
}

fn an_answer_keeps_status_and_body<R: Runtime>() {
    for (answer, status, body) in [
        ("HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n", 304, ""),
        ("HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}", 500, "{}"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200, "{}"),
    ] {
        assert_eq!(outcome_of::<R>(&peer(answer)), Ok((status, Bytes::from(body))), "{answer}");
    }
}

macro_rules! on {
    ($($name:ident: $runtime:ty, $checks:tt;)*) => {
        $(mod $name {
            on!(@ $runtime, $checks);
        })*
    };
    (@ $runtime:ty, [$($check:ident)*]) => {
        $(#[test]
        fn $check() {
            super::$check::<$runtime>();
        })*
    };
}

macro_rules! on_each {
    ($checks:tt) => {
        on! {
            tokio: appproxy_shell_tokio::Tokio, $checks;
            smol: appproxy_shell_smol::Smol, $checks;
        }
    };
}

on_each! {[
    a_task_comes_to_its_value_and_ends_with_its_handle
    work_aside_is_done_whoever_waits_and_a_fault_in_it_is_its_own
    work_has_its_time_and_no_more
    a_timer_comes_at_its_instant_and_can_be_moved
    connections_carry_bytes_both_ways
    every_kind_of_failure_has_its_name
    an_answer_keeps_status_and_body
]}
