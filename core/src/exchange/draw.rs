//! One level of the weighted draw: Tijdeman's chairman assignment in whole numbers (worker-protocol 6.1).
//!
//! After every pick each child has been picked within one of its exact share, so that over any window of picks it is
//! within two. A child becomes eligible once its credit reaches `1/(2k-2)` of a pick; of the eligible ones the one
//! whose credit would soonest run over goes first. Credits are kept in units of the parts' sum: nothing is ever
//! rounded after the parts themselves, however long it runs.

/// Largest part as a power of two. A part is off by at most 2^-45 of the largest; products below stay under 2^127.
const PART_BITS: i32 = 44;
/// The same for levels with more than [`MANY`] children.
const PART_BITS_OF_MANY: i32 = 24;
const MANY: usize = 65_536;

/// A level's children with their parts and credits. Children whose weight is 0 are not in it.
#[derive(Debug, Clone)]
pub(super) struct Draw<K> {
    keys: Vec<K>,
    parts: Vec<i128>,
    sum: i128,
    /// Credits of first picks: the bound is theirs.
    first: Vec<i128>,
    /// Credits of picks among the children that a request has not tried yet: apart, so that they leave the bound alone.
    again: Vec<i128>,
}

impl<K: PartialEq> Draw<K> {
    /// A level over these children, with weights above 0. The state of `before` goes on when its children are the
    /// same, with the same parts.
    pub(super) fn renewed(before: Option<Self>, children: Vec<(K, f64)>) -> Self {
        let bits = if children.len() > MANY { PART_BITS_OF_MANY } else { PART_BITS };
        let largest = children.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        let parts: Vec<i128> = children.iter().map(|(_, weight)| part(*weight, largest, bits)).collect();
        let keys: Vec<K> = children.into_iter().map(|(key, _)| key).collect();
        match before {
            Some(before) if before.keys == keys && before.parts == parts => before,
            _ => {
                let none = vec![0; keys.len()];
                Self { keys, sum: parts.iter().sum(), parts, first: none.clone(), again: none }
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
        // An only child gains and spends the whole each time.
        if self.parts.len() == 1 {
            return Some(0);
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
fn part(weight: f64, largest: f64, bits: i32) -> i128 {
    ((weight / largest * f64::from(bits).exp2()).round() as i128).max(1)
}

fn turn(credits: &mut [i128], parts: &[i128], sum: i128, open: impl Fn(usize) -> bool) -> Option<usize> {
    let children = i128::try_from((0..parts.len()).filter(|at| open(*at)).count()).ok()?;
    let step = (2 * children - 2).max(1);
    let mut soonest: Option<(bool, i128, i128, usize)> = None;
    for (at, (credit, part)) in credits.iter_mut().zip(parts).enumerate().filter(|(at, _)| open(*at)) {
        *credit += part;
        let eligible = *credit * step >= sum;
        // Time left, in picks, is `slack / part / step`: compared by cross-multiplying.
        let slack = sum * (step - 1) - *credit * step;
        let before = soonest.is_none_or(|(other_eligible, other_slack, other_part, _)| {
            if eligible == other_eligible { slack * other_part < other_slack * part } else { eligible }
        });
        if before {
            soonest = Some((eligible, slack, *part, at));
        }
    }
    let (_, _, _, at) = soonest?;
    if let Some(credit) = credits.get_mut(at) {
        *credit -= sum;
    }
    Some(at)
}
