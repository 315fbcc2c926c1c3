//! Thirty-two bytes of a JSON string at once: which of them is the first that is more than text?

use fearless_simd::{Simd, prelude::*, u8x32};

/// Bytes of a window.
pub(super) const WIDTH: usize = 32;

/// All bytes that went by in windows, laid over each other; with the instructions that the machine has for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<S: Simd> {
    simd: S,
    bits: u8x32<S>,
}

impl<S: Simd> Seen<S> {
    #[inline(always)]
    pub(super) fn nothing(simd: S) -> Self {
        Self { simd, bits: u8x32::splat(simd, 0) }
    }

    /// Whether all of them were ASCII. A window may reach past the string it is about: then this says no too often,
    /// never yes.
    #[inline(always)]
    pub(super) fn ascii(self) -> bool {
        self.bits.simd_ge(u8x32::splat(self.simd, 0x80)).to_bitmask() == 0
    }

    /// The place of the first quote, backslash or control character.
    #[inline(always)]
    pub(super) fn special(&mut self, window: &[u8; WIDTH]) -> Option<usize> {
        let bytes = u8x32::from_slice(self.simd, window);
        self.bits |= bytes;
        // Of all bytes only the quote (0x22) and the control characters come to 0x20 or less when this bit is turned.
        let turned = bytes ^ u8x32::splat(self.simd, 0x02);
        let quote_or_control = turned.saturating_sub(u8x32::splat(self.simd, 0x20));
        // Each of the two is 0 where it hits.
        let none = quote_or_control.min(bytes ^ u8x32::splat(self.simd, b'\\'));
        let hits = none.simd_eq(u8x32::splat(self.simd, 0)).to_bitmask();
        // One bit for each byte, so below WIDTH.
        (hits != 0).then_some(hits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Level, dispatch};

    use super::*;

    /// The place of the first special byte, and whether the window is ASCII.
    fn look(level: Level, window: [u8; WIDTH]) -> (Option<usize>, bool) {
        dispatch!(level, simd => {
            let mut seen = Seen::nothing(simd);
            (seen.special(&window), seen.ascii())
        })
    }

    #[test]
    fn every_byte_is_told_apart_at_every_place() {
        for level in [Level::new(), Level::baseline()] {
            for byte in 0..=u8::MAX {
                let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                for at in 0..WIDTH {
                    let mut window = [b'x'; WIDTH];
                    window[at] = byte;
                    assert_eq!(look(level, window), (special.then_some(at), byte < 0x80), "{byte} at {at}");
                    // A quote behind it comes second.
                    if at + 1 < WIDTH {
                        window[at + 1] = b'"';
                        let first = if special { at } else { at + 1 };
                        assert_eq!(look(level, window).0, Some(first), "{byte} at {at}");
                    }
                }
            }
        }
    }
}
