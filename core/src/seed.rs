//! Randomness as the core knows it: a seed handed in, and draws that follow from it.

use bytes::{Bytes, BytesMut};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

/// 32 bytes from which every draw of one worker follows. The shell takes them from the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// A seed for tests and replays: `number` in every word's place, mixed apart by [`Draws`].
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let mut bytes = [0; 32];
        for (word, chunk) in (0u64..).zip(bytes.chunks_exact_mut(8)) {
            let mut state = number.wrapping_add(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            chunk.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self(bytes)
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// A stream of draws (xoshiro256++). Not for secrets: it decides jitter, ids and picks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draws {
    state: [u64; 4],
    #[serde(skip)]
    room: Room,
}

/// Bytes of a piece of room: some fifty ids. One id that is kept keeps all of it.
const ROOM: usize = 2048;

/// Room for the texts of ids, so that not each allocates its own. No part of the stream: a copy has none of it.
#[derive(Debug, Default)]
struct Room(BytesMut);

impl Clone for Room {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Room {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Room {}

impl Room {
    fn write(&mut self, text: &str) -> Bytes {
        if self.0.capacity() < text.len() {
            self.0 = BytesMut::with_capacity(ROOM.max(text.len()));
        }
        self.0.extend_from_slice(text.as_bytes());
        self.0.split().freeze()
    }
}

impl Draws {
    /// The stream that follows from `seed`.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let mut state = [0; 4];
        for (word, chunk) in state.iter_mut().zip(seed.0.chunks_exact(8)) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            // Mixing keeps a seed of zeros, or of one repeated word, from being a weak state.
            let mut mixed = u64::from_le_bytes(bytes);
            *word = split_mix(&mut mixed);
        }
        if state == [0; 4] {
            state = [1, 2, 3, 4];
        }
        Self { state, room: Room::default() }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (mut c, mut d) = (c ^ a, d ^ b);
        let (b, a) = (b ^ c, a ^ d);
        c ^= self.state[1] << 17;
        d = d.rotate_left(45);
        self.state = [a, b, c, d];
        result
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 128-bit product: even enough for jitter and picks, and never loops.
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// A duration from zero up to, not including, `bound`, in whole milliseconds.
    pub fn duration_below(&mut self, bound: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(bound.as_millis()).unwrap_or(u64::MAX)))
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&self.next_u64().to_be_bytes());
        low.copy_from_slice(&self.next_u64().to_be_bytes());
        Builder::from_random_bytes(bytes).into_uuid()
    }

    /// A version 4 UUID as text.
    pub(crate) fn uuid_text(&mut self) -> Bytes {
        let mut text = Uuid::encode_buffer();
        let text = self.uuid().hyphenated().encode_lower(&mut text);
        self.room.write(text)
    }

    /// An independent stream, for a part that draws in its own time.
    #[must_use]
    pub fn child(&mut self) -> Self {
        Self::new(self.seed())
    }

    /// A seed for such a part.
    #[must_use]
    pub fn seed(&mut self) -> Seed {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        Seed(bytes)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_follows_the_published_recurrence() {
        // s = [1, 2, 3, 4]: the first outputs of the reference implementation.
        let mut draws = Draws { state: [1, 2, 3, 4], room: Room::default() };
        let first: Vec<u64> = (0..4).map(|_| draws.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn ids_share_their_room_and_are_what_they_would_be_without() {
        let mut draws = Draws::new(Seed::from_number(7));
        let mut alone = draws.clone();
        let texts: Vec<Bytes> = (0..200).map(|_| draws.uuid_text()).collect();
        let wanted: Vec<String> = (0..200).map(|_| alone.uuid().to_string()).collect();
        assert!(texts.iter().zip(&wanted).all(|(text, wanted)| text == wanted.as_bytes()));
        assert_eq!(draws, alone);
        let behind = |two: &[Bytes]| two[0].as_ptr().wrapping_add(two[0].len()) == two[1].as_ptr();
        assert!(texts.windows(2).filter(|two| behind(two)).count() > 190, "nearly all stand behind the one before");
    }

    #[test]
    fn same_seed_same_draws_and_below_stays_below() {
        let mut a = Draws::new(Seed::from_number(7));
        let mut b = Draws::new(Seed::from_number(7));
        let mut other = Draws::new(Seed::from_number(8));
        assert_eq!(a.uuid(), b.uuid());
        assert_ne!(a.uuid(), other.uuid());
        assert_eq!(a.uuid().get_version_num(), 4);
        for bound in [1, 2, 3, 1000, u64::MAX] {
            assert!(a.below(bound) < bound);
        }
        assert_eq!(a.below(0), 0);
    }
}
