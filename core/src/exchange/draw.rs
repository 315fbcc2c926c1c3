//! One level of the weighted draw: Tijdeman's chairman assignment in whole numbers (worker-protocol 6.1).
//!
//! After every pick each child has been picked within one of its exact share, so that over any window of picks it is
//! within two. A child becomes eligible once its credit reaches `1/(2k-2)` of a pick; of the eligible ones the one
//! whose credit would soonest run over goes first. Credits are kept in units of the parts' sum: nothing is ever
//! rounded after the parts themselves, however long it runs.

use core::ops::{AddAssign, SubAssign};

/// Largest part as a power of two. A part is off by at most 2^-45 of the largest; products below stay under 2^127.
const PART_BITS: i32 = 44;
/// The same for levels with more than [`MANY`] children.
const PART_BITS_OF_MANY: i32 = 24;
const MANY: usize = 65_536;

/// A level's children with their parts and credits. Children whose weight is 0 are not in it.
#[derive(Debug, Clone)]
pub(super) struct Draw<K> {
    keys: Vec<K>,
    parts: Vec<i64>,
    sum: i64,
    /// Whether all parts are the same. Then first picks go round, which is what their credits would come to.
    even: bool,
    /// Whose turn it is, where they are.
    round: usize,
    /// Credits of first picks: the bound is theirs.
    first: Vec<i64>,
    /// Credits of picks among the children that a request has not tried yet: apart, so that they leave the bound alone. Who
    /// is open changes from one to the next, so that no bound is known for them.
    again: Vec<i128>,
}

impl<K: PartialEq> Draw<K> {
    /// A level over these children, with weights above 0. The state of `before` goes on when its children are the
    /// same, with the same parts.
    pub(super) fn renewed(before: Option<Self>, children: Vec<(K, f64)>) -> Self {
        let bits = if children.len() > MANY { PART_BITS_OF_MANY } else { PART_BITS };
        let largest = children.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        let parts: Vec<i64> = children.iter().map(|(_, weight)| part(*weight, largest, bits)).collect();
        let keys: Vec<K> = children.into_iter().map(|(key, _)| key).collect();
        match before {
            Some(before) if before.keys == keys && before.parts == parts => before,
            _ => {
                let (first, again) = (vec![0; keys.len()], vec![0; keys.len()]);
                let even = parts.iter().all(|part| parts.first() == Some(part));
                Self { keys, sum: parts.iter().sum(), parts, even, round: 0, first, again }
            }
        }
    }

    pub(super) fn keys(&self) -> &[K] {
        &self.keys
    }

    /// A child's part of the whole.
    pub(super) fn share(&self, at: usize) -> f64 {
        self.parts.get(at).map_or(0.0, |part| *part as f64 / self.sum as f64)
    }

    /// The next child in turn.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.even {
            let at = self.round;
            self.round = if at + 1 < self.parts.len() { at + 1 } else { 0 };
            return (at < self.parts.len()).then_some(at);
        }
        turn(&mut self.first, &self.parts, self.sum, |_| true)
    }

    /// The next child in turn among those that are open, apart from [`Draw::next`].
    pub(super) fn next_open(&mut self, open: impl Fn(usize) -> bool) -> Option<usize> {
        let sum = self.parts.iter().enumerate().filter(|(at, _)| open(*at)).map(|(_, part)| part).sum();
        turn(&mut self.again, &self.parts, sum, open)
    }
}

/// A weight in whole numbers, relative to the largest; never 0, since a child that may serve can be picked.
fn part(weight: f64, largest: f64, bits: i32) -> i64 {
    ((weight / largest * f64::from(bits).exp2()).round() as i64).max(1)
}

/// `C` holds credits: up to `sum` either way where all are open each time.
fn turn<C>(credits: &mut [C], parts: &[i64], sum: i64, open: impl Fn(usize) -> bool) -> Option<usize>
where
    C: Copy + From<i64> + Into<i128> + AddAssign + SubAssign,
{
    let children = i128::try_from((0..parts.len()).filter(|at| open(*at)).count()).ok()?;
    let step = (2 * children - 2).max(1);
    let whole = i128::from(sum);
    let mut soonest: Option<(bool, i128, i128, usize)> = None;
    for (at, (credit, part)) in credits.iter_mut().zip(parts).enumerate().filter(|(at, _)| open(*at)) {
        *credit += C::from(*part);
        let (due, part) = ((*credit).into() * step, i128::from(*part));
        let eligible = due >= whole;
        // Time left, in picks, is `slack / part / step`: compared by cross-multiplying.
        let slack = whole * (step - 1) - due;
        let before = soonest.is_none_or(|(other_eligible, other_slack, other_part, _)| {
            if eligible == other_eligible { slack * other_part < other_slack * part } else { eligible }
        });
        if before {
            soonest = Some((eligible, slack, part, at));
        }
    }
    let (_, _, _, at) = soonest?;
    if let Some(credit) = credits.get_mut(at) {
        *credit -= C::from(sum);
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_parts_go_round_as_their_credits_would_have_it() {
        for children in 1..40 {
            let mut draw = Draw::renewed(None, (0..children).map(|at| (at, 0.3)).collect());
            let mut by_credits = draw.clone();
            for _ in 0..3 * children {
                let Draw { first, parts, sum, .. } = &mut by_credits;
                assert_eq!(draw.next(), turn(first, parts, *sum, |_| true), "of {children}");
            }
        }
        assert_eq!(Draw::<u32>::renewed(None, Vec::new()).next(), None);
    }
}
