//! An answer's body: passed on frame by frame as the client takes it, and never made to look whole when it is not.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::time::Instant;

use appproxy_core::defects::{Defect, has, spoil_piece};
use appproxy_core::exchange::EndOfBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::data::Opened;
use crate::lane::Answering;
use crate::part::Part;
use crate::runtime::{Runtime, Timer};
use crate::upload::Upload;

/// A replica's answer on its way to the client. Dropping it drops the replica's body, which cancels the request there.
pub(crate) struct Relay<R: Runtime> {
    upstream: Answering<R>,
    upload: Option<Upload<R>>,
    opened: Opened<R>,
    idle: Duration,
    last: Instant,
    /// Made when there is something to wait for: most whole answers are there with their heads.
    waits: Option<(R::Timer, Part)>,
    ending: Ending,
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

impl<R: Runtime> Relay<R> {
    /// Passes `upstream` on.
    pub(crate) fn new(upstream: Answering<R>, upload: Option<Upload<R>>, opened: Opened<R>) -> Self {
        let (idle, last) = (opened.node.rules().idle_timeout, Instant::now());
        Self { upstream, upload, opened, idle, last, waits: None, ending: Ending::None }
    }

    /// The answer broke off: the stream's own error event where it has one, then the end of the connection.
    fn broke(&mut self, end: EndOfBody) -> Option<Bytes> {
        let event = self.opened.committed.as_ref().and_then(|committed| committed.last_words(end));
        self.opened.ended(end);
        self.ending = Ending::Break(false);
        event
    }
}

impl<R: Runtime> Body for Relay<R> {
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
                    if let Some(committed) = &mut relay.opened.committed {
                        committed.passed(&data);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Poll::Ready(None) => {
                    relay.ending = Ending::Over;
                    relay.opened.ended(EndOfBody::Complete);
                    return Poll::Ready(None);
                }
                // The replica is left because its caller was lost, and did nothing wrong.
                Poll::Ready(Some(Err(_))) if relay.upload.as_ref().and_then(Upload::stopped).is_some() => {
                    EndOfBody::DownstreamGone
                }
                Poll::Ready(Some(Err(_))) => EndOfBody::UpstreamBroke,
                // Whoever carries the client's connection is woken when running requests are cut.
                Poll::Pending if relay.opened.node.phases.cutting.is_turned() => EndOfBody::NodeStopped,
                Poll::Pending => {
                    let due = relay.last + relay.idle;
                    let (timer, part) = relay.waits.get_or_insert_with(|| (R::Timer::at(due), Part::new()));
                    ready!(part.poll(cx, |cx| {
                        while Pin::new(&mut *timer).poll(cx).is_ready() {
                            if Instant::now() >= due {
                                return Poll::Ready(());
                            }
                            // Bytes came since the timer was set.
                            timer.set_at(due);
                        }
                        Poll::Pending
                    }));
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

impl<R: Runtime> Drop for Relay<R> {
    fn drop(&mut self) {
        // A server that knows the length takes the last byte and never asks for the end.
        let end = if self.upstream.is_end_stream() { EndOfBody::Complete } else { EndOfBody::DownstreamGone };
        self.opened.ended(end);
    }
}
