//! One connection to a replica, carried by the task of the request that uses it: no task of its own, and no hand-over.
//! What the bytes mean is the core's (`exchange::http1`).

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::error::Error;
use std::io::{self, IoSlice};
use std::sync::Arc;

use appproxy_core::exchange::http1::{Framed, HeadReader, Malformed, write_head};
use appproxy_core::exchange::{Attempt, Origin};
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use rustls::ClientConfig;

use crate::dial::{self, Io};
use crate::part::Part;
use crate::pool::Slot;
use crate::runtime::Runtime;
use crate::stream::Stream;
use crate::upload::{Sent, Upload};

/// What is read in one go at first, and at most.
const ROOM: usize = 4 * 1024;
const MOST_ROOM: usize = 64 * 1024;
/// Slices in one go.
const SLICES: usize = 8;
/// Reads in one go that come to nothing; beyond, others have their turn: limits of time, and whoever left.
const READS: usize = 16;

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The replica closed the connection before the end of its answer.
    Closed,
    Io(io::Error),
    Malformed(Malformed),
    /// The request's own body broke off.
    Body(io::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed before the end of the answer"),
            Self::Io(error) | Self::Body(error) => error.fmt(f),
            Self::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

impl Error for Broken {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) | Self::Body(error) => Some(error),
            _ => None,
        }
    }
}

/// A request as it goes out.
pub(crate) struct Asking<R: Runtime> {
    method: Method,
    head: Vec<u8>,
    body: Sent<R>,
}

impl<R: Runtime> Asking<R> {
    /// That of an attempt, with the body that goes through as it comes if it does.
    pub(crate) fn of(attempt: &Attempt, upload: Option<&Upload<R>>) -> Self {
        let (payload, mut head) = (attempt.payload(), Vec::new());
        attempt.write_head(&payload, &mut head);
        let mut body = match upload {
            Some(upload) => upload.body(),
            None => Sent::Kept(payload.into()),
        };
        if attempt.is_chunked() {
            body.chunk();
        }
        Self { method: attempt.trail().method().clone(), head, body }
    }

    /// One of our own: whoever asks makes the whole of it.
    fn whole(mut request: Request<Sent<R>>) -> Self {
        let chunked = state_length(&mut request);
        let mut head = Vec::new();
        write_head(&request, chunked, &mut head);
        Self { method: request.method().clone(), head, body: request.into_body() }
    }
}

/// A request that met no answer; given back when not a byte of it was sent.
pub(crate) struct Unanswered<R: Runtime> {
    pub(crate) error: Broken,
    pub(crate) unsent: Option<Asking<R>>,
    /// Bytes of an answer came.
    pub(crate) heard: bool,
}

/// An open connection. Handed on often, and in a box for that.
pub(crate) struct Lane<R: Runtime>(Box<Open<R>>);

struct Open<R: Runtime> {
    io: Io<R>,
    /// What the replica said and nobody took yet.
    read: BytesMut,
    room: usize,
    /// The running request, and how much of its head is sent.
    sending: Option<Asking<R>>,
    sent: usize,
    /// Sending met an error: what the replica says may still be an answer.
    deaf: bool,
    /// Rung by what happens while nobody polls it.
    bell: Part,
}

impl<R: Runtime> Open<R> {
    /// Sends what there is to send; pending until all is sent.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let Self { io, sent, sending, .. } = self;
        let Some(Asking { head, body, .. }) = sending else { return Poll::Ready(Ok(())) };
        loop {
            let rest = head.get(*sent..).unwrap_or_default();
            // The head goes first: a body that comes from a client is not touched before it.
            let more = if *sent == 0 && body.is_streamed() { Poll::Ready(Ok(true)) } else { body.poll_more(cx) };
            // One that broke off ends here: the replica must never see what looks like its end.
            let more = more.map_err(Broken::Body)?;
            let mut slices = [IoSlice::new(&[]); SLICES];
            let [first, others @ ..] = &mut slices;
            *first = IoSlice::new(rest);
            let count = body.slices(others);
            if rest.is_empty() && count == 0 {
                ready!(io.poll_flush(cx)).map_err(Broken::Io)?;
                if !ready!(more) {
                    *sending = None;
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let slices = slices.get(usize::from(rest.is_empty())..=count).unwrap_or_default();
            let done = match ready!(io.poll_send(cx, slices)).map_err(Broken::Io)? {
                0 => return Poll::Ready(Err(Broken::Io(io::ErrorKind::WriteZero.into()))),
                done => done,
            };
            let of_head = done.min(rest.len());
            *sent += of_head;
            body.advance(done - of_head);
        }
    }

    /// Sends on beside an answer: a replica that takes no more may still say why, but a body that broke off ends it all.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        if self.deaf || self.sending.is_none() {
            return Ok(());
        }
        match self.poll_send(cx) {
            Poll::Ready(Err(Broken::Io(error))) if self.sent == 0 => Err(Broken::Io(error)),
            Poll::Ready(Err(Broken::Io(_))) => {
                self.deaf = true;
                Ok(())
            }
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Reads what has come; false at the end of the connection.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Broken>> {
        if self.read.capacity() - self.read.len() < self.room / 4 {
            self.read.reserve(self.room);
        }
        let bytes = ready!(self.io.poll_fill(cx, &mut self.read)).map_err(Broken::Io)?;
        // What comes in large pieces is read in larger ones.
        if bytes >= self.room {
            self.room = (self.room * 2).min(MOST_ROOM);
        }
        Poll::Ready(Ok(bytes > 0))
    }

    fn poll_head(
        &mut self,
        reader: &mut HeadReader,
        method: &Method,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Response<()>, Framed), Broken>> {
        self.send_on(cx)?;
        for _ in 0..READS {
            if let Some(head) = reader.take(&mut self.read, method).map_err(Broken::Malformed)? {
                return Poll::Ready(Ok(head));
            }
            if !ready!(self.poll_fill(cx))? {
                return Poll::Ready(Err(Broken::Closed));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R: Runtime> Lane<R> {
    /// Speaks HTTP over `io`.
    pub(crate) fn open(io: Io<R>) -> Self {
        let (read, bell) = (BytesMut::new(), Part::new());
        Self(Box::new(Open { io, read, room: ROOM, sending: None, sent: 0, deaf: false, bell }))
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn ask(mut self, asking: Asking<R>) -> Result<(Self, Response<Framed>), Box<Unanswered<R>>> {
        let open = &mut *self.0;
        let method = asking.method.clone();
        open.sent = 0;
        open.sending = Some(asking);
        let mut reader = HeadReader::default();
        match poll_fn(|cx| open.poll_head(&mut reader, &method, cx)).await {
            Ok((head, framed)) => Ok((self, head.map(|()| framed))),
            Err(error) => {
                let unsent = open.sending.take().filter(|_| open.sent == 0);
                Err(Box::new(Unanswered { error, unsent, heard: !open.read.is_empty() }))
            }
        }
    }

    /// Whether it may take another request; to be asked when an answer has been read to its end.
    fn settles(&mut self) -> bool {
        let open = &mut *self.0;
        if open.deaf || open.sending.is_some() || !open.read.is_empty() {
            return false;
        }
        let Open { io, read, bell, .. } = open;
        // Nothing is to come: whatever does ends it.
        bell.settle(|cx| io.poll_fill(cx, read)).is_pending()
    }

    /// Whether it still is there, after a while in the pool.
    pub(crate) fn is_open(&mut self) -> bool {
        if !self.0.bell.is_rung() {
            return true;
        }
        self.0.io.look_again();
        self.settles()
    }

    /// The connection itself once it has become something else, and what the replica has said already.
    pub(crate) fn into_tunnel(self) -> (Io<R>, Bytes) {
        let Open { io, read, .. } = *self.0;
        (io, read.freeze())
    }
}

/// Has the head say how long the body is, where it does not; whether the body goes in chunks.
fn state_length<R: Runtime>(request: &mut Request<Sent<R>>) -> bool {
    if request.headers().contains_key(CONTENT_LENGTH) {
        return false;
    }
    let Some(length) = request.body().length() else {
        request.body_mut().chunk();
        return true;
    };
    if length > 0 || !request.method().is_safe() {
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    false
}

/// Makes one request over a connection of its own; each of the addresses of its host has its part of `limit`.
pub(crate) async fn once<R: Runtime>(
    mut request: Request<Sent<R>>,
    tls: &Arc<ClientConfig>,
    limit: Duration,
) -> Result<Response<Answering<R>>, Box<dyn Error + Send + Sync>> {
    let Some(origin) = Origin::of(request.uri()) else { return Err("neither http nor https".into()) };
    Origin::form(&mut request);
    let lane = Lane::open(dial::connect(&origin, tls, limit).await?);
    let (lane, response) = lane.ask(Asking::whole(request)).await.map_err(|unanswered| unanswered.error)?;
    Ok(response.map(|framed| Answering::new(framed, lane, None)))
}

/// An answer's body, which carries its connection along. Dropped before its end it closes it, which cancels the request;
/// at its end the connection goes back to where it came from.
pub(crate) struct Answering<R: Runtime> {
    framed: Framed,
    lane: Option<Lane<R>>,
    back: Option<Slot<R>>,
}

impl<R: Runtime> Answering<R> {
    /// `back`: where a connection that may serve again belongs.
    pub(crate) const fn new(framed: Framed, lane: Lane<R>, back: Option<Slot<R>>) -> Self {
        Self { framed, lane: Some(lane), back }
    }

    /// The connection of an answer that made it a tunnel.
    pub(crate) fn into_lane(mut self) -> Option<Lane<R>> {
        self.lane.take()
    }
}

impl<R: Runtime> Body for Answering<R> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Self { framed, lane, .. } = &mut *self;
        let Some(Lane(open)) = lane else { return Poll::Ready(None) };
        open.send_on(cx)?;
        for _ in 0..READS {
            if framed.is_over() {
                return Poll::Ready(None);
            }
            if let Some(piece) = framed.take(&mut open.read).map_err(Broken::Malformed)? {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            // The last bytes may have been none of the body's own.
            if !framed.is_over() && !ready!(open.poll_fill(cx))? && !framed.ended() {
                return Poll::Ready(Some(Err(Broken::Closed)));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.framed.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        self.framed.left().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl<R: Runtime> Drop for Answering<R> {
    fn drop(&mut self) {
        if self.framed.is_over()
            && self.framed.keeps()
            && let (Some(mut lane), Some(back)) = (self.lane.take(), self.back.take())
            && lane.settles()
        {
            back.put(lane);
        }
    }
}
