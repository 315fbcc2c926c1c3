//! Packed bodies: to unpack one takes a while, and other requests must not wait for it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::exchange::{Admitted, Answer, Denial, Gated, Room};
use bytes::Bytes;

use crate::data::record;
use crate::node::Node;
use crate::runtime::Runtime;

/// What becomes of a request whose body is packed, and the room that its unpacked body takes.
pub(crate) async fn routed<R: Runtime>(
    node: &Arc<Node<R>>,
    began: Instant,
    gated: Gated,
    packed: Bytes,
    mut room: Room,
) -> Result<(Admitted, Room), Box<Answer>> {
    let done = Unclaimed { node: node.clone(), began, result: None };
    let unpacked = R::aside(move || {
        let mut done = done;
        done.result = Some(done.node.see(|seen| gated.route(packed, seen)));
        done
    });
    let Some(mut done) = unpacked.await else {
        // Answered by whoever answers all faults of ours.
        resume_unwind(Box::new("unpacking a body met a fault"));
    };
    let Some(result) = done.result.take() else { unreachable!("a result is taken once") };
    let admitted = result?;
    match room.cover(admitted.body_len()) {
        Ok(()) => Ok((admitted, room)),
        Err(denial) => Err(refused(node, admitted, &denial)),
    }
}

fn refused<R: Runtime>(node: &Node<R>, admitted: Admitted, denial: &Denial) -> Box<Answer> {
    node.see(|seen| admitted.begin(&mut node.states.budget(), seen)).refuse(denial)
}

/// A result that is recorded when its client has gone away meanwhile.
struct Unclaimed<R: Runtime> {
    node: Arc<Node<R>>,
    began: Instant,
    result: Option<Result<Admitted, Box<Answer>>>,
}

impl<R: Runtime> Drop for Unclaimed<R> {
    fn drop(&mut self) {
        let outcome = match self.result.take() {
            Some(Ok(admitted)) => admitted.gone(),
            Some(Err(answer)) => answer.outcome,
            None => return,
        };
        record(&self.node, &outcome, self.began, None);
    }
}
