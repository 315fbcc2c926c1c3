//! An answer's body: passed on frame by frame as the client takes it, and never made to look whole when it is not.

use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::defects::{Defect, has, spoil_piece};
use appproxy_core::exchange::{Committed, EndOfBody};
use appproxy_core::telemetry::Held;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use smol::Timer;

use crate::attempts::Freeing;
use crate::data;
use crate::executor::Switch;
use crate::node::Node;
use crate::pool::Answering;

/// A replica's answer on its way to the client. Dropping it drops the replica's body, which cancels the request there.
pub(crate) struct Relay {
    upstream: Answering,
    /// Taken when the end is recorded.
    committed: Option<Committed>,
    node: Arc<Node>,
    began: Instant,
    idle: Duration,
    last: Instant,
    timer: Timer,
    cut: Cut,
    first_byte: Duration,
    ending: Ending,
    /// Dropped last: what is counted, and who waits, hear of the end when it has come.
    _counts: (Held, Option<Freeing>),
}

/// Whether running requests are cut.
struct Cut {
    switch: Switch,
    /// Made when there is something to wait for: most whole answers are there with their heads.
    turned: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waits: Option<Waker>,
}

impl Cut {
    fn of(switch: &Switch) -> Self {
        Self { switch: switch.clone(), turned: None, waits: None }
    }

    /// Waits at the shared switch once for each task: all streams would queue at its lock for each chunk.
    fn has_come(&mut self, cx: &mut Context<'_>) -> bool {
        if self.switch.is_turned() {
            return true;
        }
        if self.waits.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return false;
        }
        self.waits = Some(cx.waker().clone());
        let turned = self.turned.get_or_insert_with(|| Box::pin(self.switch.turned()));
        turned.as_mut().poll(cx).is_ready()
    }
}

/// Where a relay stands.
enum Ending {
    /// Bytes pass.
    None,
    /// The answer broke: what was passed on is flushed before the connection is cut.
    Break(bool),
    /// Nothing more comes.
    Over,
}

impl Relay {
    /// Passes `upstream` on.
    pub(crate) fn new(
        upstream: Answering,
        committed: Committed,
        node: Arc<Node>,
        began: Instant,
        counts: (Held, Option<Freeing>),
    ) -> Self {
        let idle = node.rules().idle_timeout;
        let first_byte = began.elapsed();
        let last = Instant::now();
        let timer = Timer::at(last + idle);
        let cut = Cut::of(&node.phases.cutting);
        let (committed, ending) = (Some(committed), Ending::None);
        Self { upstream, committed, node, began, idle, last, timer, cut, first_byte, ending, _counts: counts }
    }

    fn record(&mut self, end: EndOfBody) {
        if let Some(committed) = self.committed.take() {
            data::record(&self.node, &committed.ended(end), self.began, Some(self.first_byte));
        }
    }

    /// The answer broke off: the stream's own error event where it has one, then the end of the connection.
    fn broke(&mut self, end: EndOfBody) -> Option<Bytes> {
        let event = self.committed.as_ref().and_then(|committed| committed.last_words(end));
        self.record(end);
        self.ending = Ending::Break(false);
        event
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let relay = &mut *self;
        match relay.ending {
            Ending::None => {}
            Ending::Over => return Poll::Ready(None),
            Ending::Break(false) => {
                // Being pending once has the server write out what it holds.
                relay.ending = Ending::Break(true);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ending::Break(true) => {
                relay.ending = Ending::Over;
                if has(Defect::CleanEnd) {
                    return Poll::Ready(None);
                }
                return Poll::Ready(Some(Err(io::Error::other("the replica's answer broke off"))));
            }
        }
        loop {
            let end = match Pin::new(&mut relay.upstream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let Some(data) = spoil_piece(data) else { continue };
                    relay.last = Instant::now();
                    if let Some(committed) = &mut relay.committed {
                        committed.passed(&data);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Poll::Ready(None) => {
                    relay.ending = Ending::Over;
                    relay.record(EndOfBody::Complete);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => EndOfBody::UpstreamBroke,
                Poll::Pending if relay.cut.has_come(cx) => EndOfBody::NodeStopped,
                Poll::Pending => {
                    ready!(Pin::new(&mut relay.timer).poll(cx));
                    let due = relay.last + relay.idle;
                    if Instant::now() < due {
                        // Bytes came since the timer was set.
                        relay.timer.set_at(due);
                        continue;
                    }
                    EndOfBody::UpstreamIdle
                }
            };
            return match relay.broke(end) {
                Some(event) => Poll::Ready(Some(Ok(Frame::data(event)))),
                None => {
                    cx.waker().wake_by_ref();
                    relay.ending = Ending::Break(true);
                    Poll::Pending
                }
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.ending {
            Ending::None => self.upstream.is_end_stream(),
            Ending::Break(_) => false,
            Ending::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.upstream.size_hint()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A server that knows the length takes the last byte and never asks for the end.
        let end = if self.upstream.is_end_stream() { EndOfBody::Complete } else { EndOfBody::DownstreamGone };
        self.record(end);
    }
}
