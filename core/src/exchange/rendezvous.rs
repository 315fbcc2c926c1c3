//! Weighted rendezvous hashing: which of several a key belongs to, by scores that depend on nothing but the key, the
//! child and its weight. The same on every node and every machine.

/// The child with the highest score has the key.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Score(f64);

/// The score of a child at `point` with this weight: a key belongs to a child with a chance in proportion to its
/// weight, and the order of two children does not depend on a third.
pub(super) fn score(key: u64, point: u64, weight: f64) -> Score {
    // 53 bits of the mix, from just above 0 up to 1.
    let unit = ((mix(key ^ mix(point)) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    // At 1 the logarithm is 0, and the score infinite.
    Score(weight / natural_log(unit).abs())
}

/// Spreads a number over all 64 bits.
pub(super) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Folds bytes into a number, word by word. Good for routing, not against somebody who looks for collisions: what those
/// could do, the bound on a replica's load limits.
pub(super) fn fold(sum: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| chunk.iter().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte)));
    let folded = words.fold(sum, |sum, word| mix(sum ^ word));
    // With the length, `a` and `a` before a NUL stay apart.
    mix(folded ^ u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

/// The natural logarithm of a number above 0. The platform's own may differ in the last bits from machine to machine,
/// and two nodes would send a key to two replicas.
fn natural_log(number: f64) -> f64 {
    let bits = number.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), as a series; the first term left out is below 1e-13.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0].iter().fold(0.0, |sum, odd| sum * square + 1.0 / odd);
    exponent * core::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for number in [1.0, 0.5, 0.999_999_999, 1e-16, 0.7, 0.71, 0.1, 3.0_f64.recip()] {
            assert!((natural_log(number) - number.ln()).abs() < 1e-11 * number.ln().abs().max(1.0), "{number}");
        }
        assert_eq!(natural_log(1.0), 0.0);
    }

    #[test]
    fn texts_are_told_apart() {
        let folds = [b"".as_slice(), b"\0", b"a", b"a\0", b"12345678", b"123456789", b"12345678\0"];
        for (at, one) in folds.iter().enumerate() {
            assert!(folds.iter().skip(at + 1).all(|other| fold(1, one) != fold(1, other)));
        }
        assert_ne!(fold(1, b"a"), fold(2, b"a"));
    }
}
