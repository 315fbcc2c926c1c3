//! Strategies that look at all replicas of a pool at once, with their shares as weights (data-plane 3.3).

use core::time::Duration;
use std::sync::Arc;

use super::draw::Draw;
use super::rendezvous::mix;
use super::tree::{Arm, Open, Tree};
use crate::time::Moment;

/// Below this, times to first byte are taken as equal: the clock has no finer steps.
const SHORTEST: Duration = Duration::from_millis(1);
/// A replica's slowness counts half once it was not seen for so long, so that one that has recovered is found again.
const HALF_FORGOTTEN: Duration = Duration::from_secs(10);

/// The replicas of a pool, each with its share.
#[derive(Debug, Clone)]
pub(super) struct Flat {
    arms: Vec<(Arm, f64)>,
    turn: Draw<Arc<str>>,
}

impl Flat {
    pub(super) fn renewed(before: Option<Self>, tree: &Tree) -> Self {
        let mut arms = Vec::new();
        tree.each(|arm, share| arms.push((arm.clone(), share)));
        let children = arms.iter().map(|(arm, share)| (arm.backend.name.clone(), *share)).collect();
        Self { arms, turn: Draw::renewed(before.map(|before| before.turn), children) }
    }

    /// In turn, by weight; `constrained` when some are not open.
    pub(super) fn round_robin(&mut self, constrained: bool, open: Open<'_>) -> Option<&Arm> {
        let Self { arms, turn } = self;
        let is_open = |at: usize| arms.get(at).is_some_and(|(arm, _)| open(arm));
        let at = if constrained { turn.next_open(is_open) } else { turn.next() };
        arms.get(at?).map(|(arm, _)| arm)
    }

    /// By chance, by weight.
    pub(super) fn random(&self, draw: u64, open: Open<'_>) -> Option<&Arm> {
        self.drawn(draw, |arm, share| if open(arm) { share } else { 0.0 }).map(|(arm, _)| arm)
    }

    /// By chance, a share counting less with the square of how much slower its replica is than the fastest: equal ones
    /// get their shares, and one twice as slow a quarter of its own. A replica without an answer yet counts as fast.
    pub(super) fn least_latency(&self, draw: u64, now: Moment, open: Open<'_>) -> Option<&Arm> {
        let known = self.arms.iter().filter(|(arm, _)| open(arm)).filter_map(|(arm, _)| arm.load.first_byte());
        let fastest = known.min().unwrap_or_default().max(SHORTEST).as_secs_f64();
        let weight = |arm: &Arm, share: f64| {
            if !open(arm) {
                return 0.0;
            }
            let average = arm.load.first_byte().map_or(fastest, |time| time.max(SHORTEST).as_secs_f64());
            let age = now.since(arm.load.sampled()).as_secs_f64() / HALF_FORGOTTEN.as_secs_f64();
            let slower = 1.0 + (average / fastest - 1.0) / (1.0 + age);
            share / (slower * slower)
        };
        self.drawn(draw, weight).map(|(arm, _)| arm)
    }

    /// The less loaded of two drawn by weight, load being requests in flight for each part of the whole. The first of
    /// them when they are equal, so that an idle pool is drawn from by its shares.
    pub(super) fn least_loaded(&self, draw: u64, open: Open<'_>) -> Option<&Arm> {
        let weight = |arm: &Arm, share: f64| if open(arm) { share } else { 0.0 };
        let (first, share) = self.drawn(draw, weight)?;
        let apart = |arm: &Arm, share: f64| if Arc::ptr_eq(&arm.load, &first.load) { 0.0 } else { weight(arm, share) };
        let Some((second, other)) = self.drawn(mix(draw), apart) else { return Some(first) };
        let (load, other_load) = (f64::from(first.load.in_flight()), f64::from(second.load.in_flight()));
        Some(if other_load * share < load * other { second } else { first })
    }

    /// An arm drawn by these weights, with its share.
    fn drawn(&self, draw: u64, weight: impl Fn(&Arm, f64) -> f64) -> Option<(&Arm, f64)> {
        let sum: f64 = self.arms.iter().map(|(arm, share)| weight(arm, *share)).sum();
        let mut left = (draw >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        let mut last = None;
        for (arm, share) in &self.arms {
            let weight = weight(arm, *share);
            if weight > 0.0 {
                last = Some((arm, *share));
                left -= weight;
                if left < 0.0 {
                    break;
                }
            }
        }
        // Rounding may leave a crumb behind the last one.
        last
    }
}
