//! A request's body that goes to the replica as it comes, and how it ends.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use appproxy_core::exchange::http1::{CHUNK_END, LAST_CHUNK, chunk_line};
use appproxy_core::exchange::{self, Denial, Outgoing};
use bytes::{Buf, Bytes};
use http_body::Body;

use crate::body::{Coming, Inbound, Stopped, broken};
use crate::node::Node;
use crate::part::Part;
use crate::runtime::{Runtime, Timer};

type Failure = Box<dyn Error + Send + Sync>;
/// The client's end of it.
type Source = Pin<Box<dyn Body<Data = Bytes, Error = Failure> + Send>>;

/// Pieces that are here, beyond which no more are asked for.
const PIECES: usize = 4;

/// What goes to a replica behind a request's head.
pub(crate) enum Sent<R: Runtime> {
    /// It is here.
    Kept(Outgoing),
    /// It comes.
    Streamed(Box<Streaming<R>>),
}

/// An upload, as the exchange sees it. A body that no attempt has begun to read is there for the next one.
pub(crate) struct Upload<R: Runtime>(Arc<Shared<R>>);

struct Shared<R: Runtime> {
    state: Mutex<State>,
    node: Arc<Node<R>>,
    limit: u64,
}

struct State {
    source: Option<Source>,
    /// Why it goes no further.
    stopped: Option<Stopped>,
    /// When it last went on, or was over.
    moved: Instant,
}

impl<R: Runtime> Shared<R> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, why: Stopped) -> io::Error {
        self.state().stopped = Some(why);
        io::Error::other("the request's body broke off")
    }
}

impl<R: Runtime> Upload<R> {
    /// An upload of at most `limit` bytes.
    pub(crate) fn new<B: Coming>(body: Inbound<R, B>, limit: u64, node: &Arc<Node<R>>) -> Self {
        let state = State { source: Some(Box::pin(body)), stopped: None, moved: Instant::now() };
        Self(Arc::new(Shared { state: Mutex::new(state), node: node.clone(), limit }))
    }

    /// The body for one attempt, which takes it once it is connected.
    pub(crate) fn body(&self) -> Sent<R> {
        let length = self.0.state().source.as_ref().and_then(|source| source.size_hint().exact());
        let (shared, here) = (self.0.clone(), VecDeque::new());
        let streaming =
            Streaming { shared, length, chunked: false, running: None, waits: None, here, ended: false, broken: false };
        Sent::Streamed(Box::new(streaming))
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
pub(crate) struct Streaming<R: Runtime> {
    shared: Arc<Shared<R>>,
    length: Option<u64>,
    chunked: bool,
    running: Option<(Source, exchange::Upload)>,
    /// For the client's next piece.
    waits: Option<(R::Timer, Part)>,
    /// Here, and not sent yet.
    here: VecDeque<Bytes>,
    ended: bool,
    /// Whoever broke may say next that it has ended.
    broken: bool,
}

impl<R: Runtime> Streaming<R> {
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.ended || self.here.len() >= PIECES {
            return Poll::Ready(Ok(!self.ended));
        }
        if self.broken {
            return Poll::Ready(Err(io::Error::other("the request's body broke off")));
        }
        let piece = ready!(self.poll(cx)).transpose().inspect_err(|_| self.broken = true)?;
        self.ended = piece.is_none();
        match (piece, self.chunked) {
            (Some(piece), false) => self.here.push_back(piece),
            (Some(piece), true) => self.here.extend([chunk_line(piece.len()), piece, CHUNK_END]),
            (None, true) => self.here.push_back(LAST_CHUNK),
            (None, false) => {}
        }
        Poll::Ready(Ok(!self.ended))
    }

    /// The next piece, which is not empty.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
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
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(shared.stop(broken(&*error))))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let (timer, part) = waits.get_or_insert_with(|| {
                        upload.held_up(clock.moment());
                        (R::Timer::at(clock.instant(upload.due())), Part::new())
                    });
                    ready!(part.poll(cx, |cx| Pin::new(&mut *timer).poll(cx)));
                    return Poll::Ready(Some(Err(shared.stop(Denial::body_too_slow().into()))));
                }
            }
        }
    }
}

impl<R: Runtime> Drop for Streaming<R> {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.shared.state().moved = Instant::now();
        }
    }
}

impl<R: Runtime> Sent<R> {
    /// Whether it may take a client's time.
    pub(crate) const fn is_streamed(&self) -> bool {
        matches!(self, Self::Streamed(_))
    }

    /// Bytes of all of it, when they are known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Kept(kept) => u64::try_from(kept.remaining()).ok(),
            Self::Streamed(streaming) => streaming.length,
        }
    }

    /// Has what comes go in chunks.
    pub(crate) fn chunk(&mut self) {
        if let Self::Streamed(streaming) = self {
            streaming.chunked = true;
        }
    }

    /// Brings more of it here; false when all there will be is.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        match self {
            Self::Kept(_) => Poll::Ready(Ok(false)),
            Self::Streamed(streaming) => streaming.poll_more(cx),
        }
    }

    /// Shows what is here and not taken; how many slices it is.
    pub(crate) fn slices<'a>(&'a self, to: &mut [IoSlice<'a>]) -> usize {
        match self {
            Self::Kept(kept) => kept.chunks_vectored(to),
            Self::Streamed(streaming) => {
                to.iter_mut().zip(&streaming.here).map(|(to, piece)| *to = IoSlice::new(piece)).count()
            }
        }
    }

    /// So many bytes were taken.
    pub(crate) fn advance(&mut self, mut count: usize) {
        match self {
            Self::Kept(kept) => kept.advance(count),
            Self::Streamed(streaming) => {
                while let Some(first) = streaming.here.front_mut() {
                    if count < first.len() {
                        return first.advance(count);
                    }
                    count -= first.len();
                    streaming.here.pop_front();
                }
            }
        }
    }
}
