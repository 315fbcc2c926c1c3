//! The bus envelope, in both dialects (worker-protocol 3.1, 3.2).

use super::event::{Ack, Decoded};
use super::ids::NodeId;
use crate::config::worker::EventDialect;

/// The one Pub/Sub channel.
pub const CHANNEL: &str = "events_all-appproxy";

/// What `bytes`, a message of the bus, says to the workers of `authority`. Never fails: what cannot be read is
/// [`Decoded::Malformed`].
#[must_use]
pub fn decode(bytes: &[u8], authority: &str) -> Decoded {
    unimplemented!("{} {authority}", bytes.len())
}

/// The envelope to publish for `ack`, with the bodies that `dialect` asks for.
#[must_use]
pub fn encode_ack(
    ack: &Ack,
    authority: &str,
    node_id: NodeId,
    request_id: Option<&str>,
    dialect: EventDialect,
) -> Vec<u8> {
    unimplemented!("{ack:?} {authority} {node_id} {request_id:?} {dialect:?}")
}
