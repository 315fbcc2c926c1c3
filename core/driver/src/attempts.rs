//! From an admitted request to an answer that has begun: chooses, waits, sends, and chooses again, as the core says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use appproxy_core::exchange::{
    Admitted, Answer, Choosing, Chosen, Committed, Explained, Head, Place, Queued, ReplyHead,
};
use appproxy_core::serving::PoolKey;
use async_channel::{Receiver, Sender, bounded};
use bytes::Bytes;
use core::pin::pin;
use core::time::Duration;
use http_body_util::{BodyExt, Limited};

use crate::body::Stopped;
use crate::held::Held;
use crate::lane::{Answering, Asking};
use crate::node::Node;
use crate::runtime::{Runtime, Timer};
use crate::upload::Upload;
use crate::upstream::To;

/// A replica's answer that goes to the client.
pub(crate) struct Begun<R: Runtime> {
    pub(crate) committed: Committed,
    pub(crate) head: ReplyHead,
    pub(crate) body: Answering<R>,
    /// The request's own body, which may still be on its way.
    pub(crate) upload: Option<Upload<R>>,
    pub(crate) freeing: Option<Freeing<R>>,
}

/// Tries until an answer begins. An error is an answer of our own.
pub(crate) async fn answered<R: Runtime>(
    node: &Arc<Node<R>>,
    began: Instant,
    admitted: Admitted,
    upload: Option<Upload<R>>,
) -> Result<Begun<R>, Box<Answer>> {
    let mut choosing = node.see(|seen| admitted.begin(&mut node.states.budget(), seen));
    loop {
        if let Some(moment) = choosing.not_before() {
            let wait = R::Timer::at(node.clock.instant(moment));
            choosing = Held::new(node, began, choosing).through(pin!(wait)).await?.0;
        }
        let pool = choosing.pool().clone();
        let attempt = match node.see(|seen| choosing.choose(&mut node.states.selection(&pool), seen))? {
            Chosen::Send(attempt) => attempt,
            Chosen::Elsewhere(next) => {
                choosing = next;
                continue;
            }
            Chosen::Queue(queued) => {
                choosing = Box::pin(called(node, began, queued)).await?;
                continue;
            }
        };
        let (freeing, upstream) = (Freeing::of(node, &pool), node.upstream());
        let to = To::of(&attempt);
        let patience = node.rules().first_byte_timeout;
        let sending = upstream.send(&to, Asking::of(&attempt, upload.as_ref()), patience, upload.as_ref());
        let (attempt, sent) = Held::new(node, began, attempt).through(pin!(sending)).await?;
        choosing = match sent {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                match node.see(|seen| attempt.head(parts, &mut node.states.budget(), seen))? {
                    Head::Commit(committed, head) => return Ok(Begun { committed, head, body, upload, freeing }),
                    Head::Again(choosing) => choosing,
                    Head::Explain(explained) => {
                        // In a box, like all that is rare: what every request carries along stays small.
                        let mut reading = Box::pin(whole(body, node.rules().idle_timeout));
                        let (explained, body) = Held::new(node, began, *explained).through(reading.as_mut()).await?;
                        return Err(explained.body(body));
                    }
                }
            }
            Err((stage, failure)) => {
                match upload.as_ref().and_then(Upload::stopped) {
                    Some(Stopped::Refused(denial)) => return Err(attempt.refuse(&denial)),
                    Some(Stopped::Gone) => return Err(attempt.broken_off()),
                    None => {}
                }
                node.see(|seen| attempt.failed(stage, failure, &mut node.states.budget(), seen))?
            }
        };
        if let Some(ended) = choosing.take_ended() {
            node.saw(&ended);
        }
        // Only now: what was held at the replica went with the attempt.
        drop(freeing);
    }
}

/// A short body; `None` when it is long, slow or broken.
async fn whole<R: Runtime>(body: Answering<R>, patience: Duration) -> Option<Bytes> {
    let reading = Limited::new(body, Explained::MOST).collect();
    Some(R::within(patience, reading).await?.ok()?.to_bytes())
}

/// Waits until it is this request's turn to look for a replica.
async fn called<R: Runtime>(node: &Arc<Node<R>>, began: Instant, queued: Queued) -> Result<Choosing, Box<Answer>> {
    if let Some(place) = queued.pushed_out() {
        node.calls.call(queued.pool(), place);
    }
    let waiting = node.calls.wait(queued.pool(), queued.place());
    let look_again = node.clock.instant(queued.look_again());
    let turn = async {
        let _ = R::until(look_again, waiting.rung.recv()).await;
    };
    Ok(Held::new(node, began, queued).through(pin!(turn)).await?.0.again())
}

/// Tells whoever waits for a replica of this pool, when dropped, that one may have room. Drop it after the attempt's or
/// the answer's own state.
pub(crate) struct Freeing<R: Runtime> {
    node: Arc<Node<R>>,
    pool: PoolKey,
}

impl<R: Runtime> Freeing<R> {
    /// `None` while replicas are not bounded: nobody waits then.
    fn of(node: &Arc<Node<R>>, pool: &PoolKey) -> Option<Self> {
        node.rules().max_in_flight.map(|_| Self { node: node.clone(), pool: pool.clone() })
    }
}

impl<R: Runtime> Drop for Freeing<R> {
    fn drop(&mut self) {
        call_next(&self.node, &self.pool);
    }
}

/// Calls the next who waits for a replica of this pool.
pub(crate) fn call_next<R: Runtime>(node: &Node<R>, pool: &PoolKey) {
    // A place that nobody waits at any more passes its turn on.
    while let Some(place) = node.states.selection(pool).freed(pool, node.clock.moment()) {
        if node.calls.call(pool, place) {
            return;
        }
    }
}

/// Who waits for a replica, and how to reach them.
#[derive(Default)]
pub(crate) struct Calls {
    bells: Mutex<BTreeMap<(PoolKey, Place), Sender<()>>>,
}

impl Calls {
    fn bells(&self) -> MutexGuard<'_, BTreeMap<(PoolKey, Place), Sender<()>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody waits there. One who was called already stays called.
    fn call(&self, pool: &PoolKey, place: Place) -> bool {
        let bell = self.bells().get(&(pool.clone(), place)).cloned();
        bell.is_some_and(|bell| bell.try_send(()).is_ok() || bell.is_full())
    }

    fn wait(&self, pool: &PoolKey, place: Place) -> Bell<'_> {
        let (key, (ring, rung)) = ((pool.clone(), place), bounded(1));
        self.bells().insert(key.clone(), ring);
        Bell { calls: self, key, rung }
    }
}

/// A bell that is taken down when nobody listens any more.
struct Bell<'a> {
    calls: &'a Calls,
    key: (PoolKey, Place),
    rung: Receiver<()>,
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        self.calls.bells().remove(&self.key);
    }
}
