//! One connection to a replica, carried by the task of the request that uses it: no task of its own, and no hand-over.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error;
use std::sync::Arc;

use appproxy_core::exchange::Origin;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, Parts, SendRequest, handshake};
use rustls::ClientConfig;

use crate::dial::{self, Io};
use crate::part::Part;
use crate::pool::Slot;
use crate::upload::Sent;

/// What stands on a lane when a request could not be sent.
type Unsent = TrySendError<Request<Sent>>;

/// An open connection. Handed on often, and in a box for that.
pub(crate) struct Lane(Box<Open>);

struct Open {
    sender: SendRequest<Sent>,
    line: Line,
    part: Part,
}

/// The library's half of it.
struct Line {
    /// Taken when it has ended badly: dropping it tells whoever waits for an answer.
    connection: Option<Connection<Io, Sent>>,
    /// It has ended; of a connection that became a tunnel the rest is still there.
    over: bool,
}

impl Line {
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = self.connection.as_mut().filter(|_| !self.over) {
            // How it ended is said to whoever waits for an answer or its body.
            self.over = connection.poll_without_shutdown(cx).is_ready();
        }
    }

    /// Asks `half`, carries on, and asks again: the connection reads on only when its answer is wanted.
    fn poll<T>(&mut self, cx: &mut Context<'_>, mut half: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if let Poll::Ready(done) = half(cx) {
            return Poll::Ready(done);
        }
        self.drive(cx);
        if let Poll::Ready(done) = half(cx) {
            return Poll::Ready(done);
        }
        if self.over {
            self.connection = None;
            return half(cx);
        }
        Poll::Pending
    }
}

impl Lane {
    /// Speaks HTTP over `io`.
    pub(crate) async fn open(io: Io) -> hyper::Result<Self> {
        let (sender, connection) = handshake(io).await?;
        let line = Line { connection: Some(connection), over: false };
        Ok(Self(Box::new(Open { sender, line, part: Part::new() })))
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn ask(mut self, request: Request<Sent>) -> Result<(Self, Response<Incoming>), Box<Unsent>> {
        let answered = {
            let Open { sender, line, part } = &mut *self.0;
            let mut answer = pin!(sender.try_send_request(request));
            poll_fn(|cx| part.poll(cx, |cx| line.poll(cx, |cx| answer.as_mut().poll(cx)))).await
        };
        match answered {
            Ok(response) => Ok((self, response)),
            Err(unsent) => Err(Box::new(unsent)),
        }
    }

    /// Whether it may take another request; to be asked when an answer has been read to its end.
    fn settles(&mut self) -> bool {
        let Open { sender, line, part } = &mut *self.0;
        let _: Poll<()> = part.settle(|cx| {
            line.drive(cx);
            Poll::Pending
        });
        !line.over && sender.is_ready()
    }

    /// Whether it still is there, after a while in the pool.
    pub(crate) fn is_open(&mut self) -> bool {
        !self.0.part.is_rung() || self.settles()
    }

    /// The connection itself once it has become something else, and what the replica has said already.
    pub(crate) async fn into_tunnel(self) -> Option<(Io, Bytes)> {
        let Line { connection, over } = self.0.line;
        let mut connection = connection?;
        if !over {
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await.ok()?;
        }
        let Parts { io, read_buf, .. } = connection.into_parts();
        Some((io, read_buf))
    }
}

/// Makes one request over a connection of its own; each of the addresses of its host has its part of `limit`.
pub(crate) async fn once(
    mut request: Request<Sent>,
    tls: &Arc<ClientConfig>,
    limit: Duration,
) -> Result<Response<Answering>, Box<dyn Error + Send + Sync>> {
    let Some(origin) = Origin::of(request.uri()) else { return Err("neither http nor https".into()) };
    Origin::form(&mut request);
    let lane = Lane::open(dial::connect(&origin, tls, limit).await?).await?;
    let (lane, response) = lane.ask(request).await.map_err(|error| error.into_error())?;
    Ok(response.map(|body| Answering::new(body, lane, None)))
}

/// An answer's body, which carries its connection along. Dropped before its end it closes it, which cancels the request;
/// at its end the connection goes back to where it came from.
pub(crate) struct Answering {
    body: Incoming,
    ended: bool,
    lane: Option<Lane>,
    back: Option<Slot>,
}

impl Answering {
    /// `back`: where a connection that may serve again belongs.
    pub(crate) const fn new(body: Incoming, lane: Lane, back: Option<Slot>) -> Self {
        Self { body, ended: false, lane: Some(lane), back }
    }

    /// The connection of an answer that made it a tunnel.
    pub(crate) fn into_lane(mut self) -> Option<Lane> {
        self.lane.take()
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body, lane, ended, .. } = &mut *self;
        let mut body = Pin::new(body);
        let polled = match lane.as_mut().map(|lane| &mut *lane.0) {
            Some(Open { line, part, .. }) => part.poll(cx, |cx| line.poll(cx, |cx| body.as_mut().poll_frame(cx))),
            None => body.poll_frame(cx),
        };
        *ended |= matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.is_end_stream()
            && let (Some(mut lane), Some(back)) = (self.lane.take(), self.back.take())
            && lane.settles()
        {
            back.put(lane);
        }
    }
}
