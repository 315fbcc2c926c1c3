//! A request's body that goes to the replica as it comes, and how it ends.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use appproxy_core::exchange::{self, Denial, Outgoing};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::body::{Coming, Inbound, Stopped, broken};
use crate::executor::{Instant, Timer};
use crate::node::Node;
use crate::part::Part;

type Failure = Box<dyn Error + Send + Sync>;
/// The client's end of it.
type Source = Pin<Box<dyn Body<Data = Bytes, Error = Failure> + Send>>;

/// What goes to a replica behind a request's head.
pub(crate) enum Sent {
    /// It is here.
    Kept(Outgoing),
    /// It comes.
    Streamed(Box<Streaming>),
}

/// An upload, as the exchange sees it. A body that no attempt has begun to read is there for the next one.
pub(crate) struct Upload(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    node: Arc<Node>,
    limit: u64,
}

struct State {
    source: Option<Source>,
    /// Why it goes no further.
    stopped: Option<Stopped>,
    /// When it last went on, or was over.
    moved: Instant,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, why: Stopped) -> io::Error {
        self.state().stopped = Some(why);
        io::Error::other("the request's body broke off")
    }
}

impl Upload {
    /// An upload of at most `limit` bytes.
    pub(crate) fn new<B: Coming>(body: Inbound<B>, limit: u64, node: &Arc<Node>) -> Self {
        let state = State { source: Some(Box::pin(body)), stopped: None, moved: Instant::now() };
        Self(Arc::new(Shared { state: Mutex::new(state), node: node.clone(), limit }))
    }

    /// The body for one attempt, which takes it once it is connected.
    pub(crate) fn body(&self) -> Sent {
        let length = self.0.state().source.as_ref().map_or_else(SizeHint::default, |source| source.size_hint());
        Sent::Streamed(Box::new(Streaming { shared: self.0.clone(), length, running: None, waits: None }))
    }

    /// Why it broke off.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        self.0.state().stopped.take()
    }

    /// What is left of `patience` with a replica that has not answered: it counts from the end of the body, and while the
    /// body is on its way, from the last of it that was taken.
    pub(crate) fn left(&self, patience: Duration) -> Option<Duration> {
        patience.checked_sub(self.0.state().moved.elapsed()).filter(|left| !left.is_zero())
    }
}

/// An upload on its way.
pub(crate) struct Streaming {
    shared: Arc<Shared>,
    length: SizeHint,
    running: Option<(Source, exchange::Upload)>,
    /// For the client's next piece.
    waits: Option<(Timer, Part)>,
}

impl Streaming {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { shared, running, waits, .. } = self;
        let clock = &shared.node.clock;
        let (source, upload) = match running {
            Some(running) => running,
            None => {
                let Some(source) = shared.state().source.take() else {
                    return Poll::Ready(Some(Err(io::Error::other("the request's body was sent already"))));
                };
                let upload = exchange::Upload::new(shared.limit, &shared.node.bodies(), clock.moment());
                running.insert((source, upload))
            }
        };
        loop {
            match source.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    *waits = None;
                    let Ok(data) = frame.into_data() else { continue };
                    if let Err(denial) = upload.pass(data.len(), clock.moment()) {
                        return Poll::Ready(Some(Err(shared.stop(denial.into()))));
                    }
                    shared.state().moved = Instant::now();
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(shared.stop(broken(&*error))))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let (timer, part) = waits.get_or_insert_with(|| {
                        upload.held_up(clock.moment());
                        (Timer::at(clock.instant(upload.due())), Part::new())
                    });
                    ready!(part.poll(cx, |cx| Pin::new(&mut *timer).poll(cx)));
                    return Poll::Ready(Some(Err(shared.stop(Denial::body_too_slow().into()))));
                }
            }
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.shared.state().moved = Instant::now();
        }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Kept(kept) => Pin::new(kept).poll_frame(cx).map_err(|never| match never {}),
            Self::Streamed(streaming) => streaming.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Kept(kept) => kept.is_end_stream(),
            Self::Streamed(streaming) => streaming.running.as_ref().is_some_and(|(source, _)| source.is_end_stream()),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Kept(kept) => kept.size_hint(),
            Self::Streamed(streaming) => match &streaming.running {
                Some((source, _)) => source.size_hint(),
                None => streaming.length,
            },
        }
    }
}
