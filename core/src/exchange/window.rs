//! Sixteen bytes of a JSON string at once: which of them is the first that is more than text?

use wide::u8x16;

/// Bytes of a window.
pub(super) const WIDTH: usize = 16;

/// All bytes that went by in windows, laid over each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    bits: u8x16,
}

impl Seen {
    pub(super) fn nothing() -> Self {
        Self { bits: u8x16::splat(0) }
    }

    /// Whether all of them were ASCII. A window may reach past the string it is about: then this says no too often,
    /// never yes.
    pub(super) fn ascii(self) -> bool {
        self.bits.to_array().is_ascii()
    }

    /// One byte that did not go by in a window.
    pub(super) fn note(&mut self, byte: u8) {
        self.bits |= u8x16::splat(byte);
    }

    /// The place of the first quote, backslash or control character.
    #[inline(always)]
    pub(super) fn special(&mut self, window: &[u8; WIDTH]) -> Option<usize> {
        let bytes = u8x16::new(*window);
        self.bits |= bytes;
        // Of all bytes only the quote (0x22) and the control characters come to 0x20 or less when this bit is turned.
        let turned = bytes ^ u8x16::splat(0x02);
        let quote_or_control = turned.min(u8x16::splat(0x20)).simd_eq(turned);
        let hits = (quote_or_control | bytes.simd_eq(u8x16::splat(b'\\'))).to_bitmask();
        // One bit for each byte, so below WIDTH.
        (hits != 0).then_some(hits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_told_apart_at_every_place() {
        for byte in 0..=u8::MAX {
            let special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for at in 0..WIDTH {
                let mut window = [b'x'; WIDTH];
                window[at] = byte;
                let mut seen = Seen::nothing();
                assert_eq!(seen.special(&window), special.then_some(at), "{byte} at {at}");
                assert_eq!(seen.ascii(), byte < 0x80, "{byte} at {at}");
                // A quote behind it comes second.
                if at + 1 < WIDTH {
                    window[at + 1] = b'"';
                    assert_eq!(seen.special(&window), Some(if special { at } else { at + 1 }), "{byte} at {at}");
                }
            }
        }
    }

    #[test]
    fn a_byte_outside_of_windows_counts() {
        let mut seen = Seen::nothing();
        seen.note(b'~');
        assert!(seen.ascii());
        seen.note(0x80);
        seen.note(b'x');
        assert!(!seen.ascii());
    }
}
