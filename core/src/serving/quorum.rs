//! How much of a model live traffic alone may take out (data-plane 4, 9): at most half of its replicas, and never the
//! last one that serves.

use std::sync::Arc;

use super::health::{Book, Health};
use super::pool::{Candidate, ModelPool};

/// A pool's replicas that may take requests when they are well; drained ones are none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    replicas: usize,
    serving: usize,
    quarantined: usize,
}

impl Tally {
    fn of(pool: &ModelPool) -> Self {
        active(pool).fold(Self::default(), |tally, candidate| Self {
            replicas: tally.replicas + 1,
            serving: tally.serving + usize::from(candidate.health.serves()),
            quarantined: tally.quarantined + usize::from(candidate.health == Health::Quarantined),
        })
    }

    const fn kept(self) -> bool {
        self.quarantined * 2 <= self.replicas && (self.serving > 0 || self.quarantined == 0)
    }
}

/// Whether this pool can do without the replica, which serves now.
pub(super) fn can_spare(pool: &ModelPool, name: &str) -> bool {
    let Tally { replicas, serving, quarantined } = Tally::of(pool);
    let without = Tally { replicas, serving: serving.saturating_sub(1), quarantined: quarantined + 1 };
    without.kept() || !active(pool).any(|candidate| *candidate.backend.name == *name)
}

/// The replicas in quarantine that this pool needs back, since others of it went away: those that are nearest to the
/// end of it.
pub(super) fn needed(pool: &ModelPool, book: &Book) -> Vec<Arc<str>> {
    let mut tally = Tally::of(pool);
    if tally.kept() {
        return Vec::new();
    }
    let out = active(pool).filter(|candidate| candidate.health == Health::Quarantined);
    let mut out: Vec<_> = out.map(|one| (book.released_at(&one.backend.name), &one.backend.name)).collect();
    out.sort_unstable();
    let mut needed = Vec::new();
    for (_, name) in out {
        if tally.kept() {
            break;
        }
        tally.quarantined -= 1;
        tally.serving += 1;
        needed.push(name.clone());
    }
    needed
}

fn active(pool: &ModelPool) -> impl Iterator<Item = &Candidate> {
    let endpoints = pool.endpoints.iter().filter(|share| share.ratio > 0.0);
    let groups = endpoints.flat_map(|share| &share.endpoint.groups).filter(|group| group.traffic_weight > 0.0);
    groups
        .flat_map(|group| &group.candidates)
        .filter(|candidate| candidate.ratio > 0.0 && candidate.health != Health::Drained)
}
