//! How much of a model live traffic alone may take out (data-plane 4, 9): at most half of its replicas, and never the
//! last one that serves.
//!
//! Quarantine is of a replica; what it takes out of a model is the model's own matter. A model that would lose too much
//! keeps some of those in quarantine and goes on asking them, while models with others pass over them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::health::{Book, Health};
use super::pool::{Candidate, EndpointShare, GroupPool, ModelPool};

/// A pool's replicas that may take requests when they are well; drained ones are none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    replicas: usize,
    serving: usize,
    passed_over: usize,
}

impl Tally {
    fn of(endpoints: &[EndpointShare]) -> Self {
        active(endpoints).fold(Self::default(), |tally, candidate| Self {
            replicas: tally.replicas + 1,
            serving: tally.serving + usize::from(candidate.serves()),
            passed_over: tally.passed_over + usize::from(is_passed_over(candidate)),
        })
    }

    const fn within_bounds(self) -> bool {
        self.passed_over * 2 <= self.replicas && (self.serving > 0 || self.passed_over == 0)
    }
}

/// Whether this pool has the replica, which serves now, and can do without it.
pub(super) fn can_spare(pool: &ModelPool, name: &str) -> bool {
    let Tally { replicas, serving, passed_over } = Tally::of(&pool.endpoints);
    let without = Tally { replicas, serving: serving.saturating_sub(1), passed_over: passed_over + 1 };
    without.within_bounds() && active(&pool.endpoints).any(|candidate| *candidate.backend.name == *name)
}

/// Keeps of the replicas in quarantine those that the model cannot do without: the ones that are nearest to the end of it.
pub(super) fn keep_needed(endpoints: &mut [EndpointShare], book: &Book) {
    let mut tally = Tally::of(endpoints);
    if tally.within_bounds() {
        return;
    }
    let out = active(endpoints).filter(|candidate| is_passed_over(candidate)).map(|one| one.backend.name.clone());
    let mut out: Vec<_> = out.map(|name| (book.released_at(&name), name)).collect();
    out.sort_unstable();
    let mut needed = BTreeSet::new();
    for (_, name) in out {
        if tally.within_bounds() {
            break;
        }
        tally.passed_over -= 1;
        tally.serving += 1;
        needed.insert(name);
    }
    let is_needed = |candidate: &Candidate| needed.contains(&candidate.backend.name);
    for share in endpoints.iter_mut().filter(|share| share.ratio > 0.0) {
        if share.endpoint.groups.iter().flat_map(|group| &group.candidates).any(is_needed) {
            // Of this pool alone: what other pools have of the endpoint stays as it is.
            let groups = &mut Arc::make_mut(&mut share.endpoint).groups;
            let candidates = groups.iter_mut().flat_map(|group| &mut group.candidates);
            candidates.filter(|candidate| is_needed(candidate)).for_each(|candidate| candidate.kept = true);
        }
    }
}

/// The replicas that quarantine takes out of this pool no more: it keeps them now, or has them in another way or not at all.
pub(super) fn given_back(before: Option<&ModelPool>, now: Option<&ModelPool>) -> Vec<Arc<str>> {
    let names = |pool: Option<&ModelPool>, which: fn(&Candidate) -> bool| -> BTreeSet<Arc<str>> {
        let those = pool.into_iter().flat_map(|pool| active(&pool.endpoints)).filter(|one| which(one));
        those.map(|one| one.backend.name.clone()).collect()
    };
    let (passed_over, kept) = (names(before, is_passed_over), names(before, |one| one.kept));
    let still = if passed_over.is_empty() { BTreeSet::new() } else { names(now, is_passed_over) };
    let newly = names(now, |one| one.kept);
    passed_over.difference(&still).chain(newly.difference(&kept)).cloned().collect()
}

/// Whether quarantine is in vain: there are models that the replica belongs to, and all of them keep it.
pub(super) fn kept_by_all<'a>(pools: impl Iterator<Item = &'a ModelPool>, name: &str) -> bool {
    let mut here = pools.filter_map(|pool| active(&pool.endpoints).find(|one| *one.backend.name == *name)).peekable();
    here.peek().is_some() && here.all(|candidate| candidate.kept)
}

/// Whether this group can serve, or could with what is in quarantine.
pub(super) fn could_serve(group: &GroupPool) -> bool {
    let candidates = group.candidates.iter();
    group.traffic_weight > 0.0
        && candidates.filter(|one| one.ratio > 0.0).any(|one| one.serves() || one.health == Health::Quarantined)
}

fn is_passed_over(candidate: &Candidate) -> bool {
    candidate.health == Health::Quarantined && !candidate.kept
}

fn active(endpoints: &[EndpointShare]) -> impl Iterator<Item = &Candidate> {
    let endpoints = endpoints.iter().filter(|share| share.ratio > 0.0);
    let groups = endpoints.flat_map(|share| &share.endpoint.groups).filter(|group| group.traffic_weight > 0.0);
    groups
        .flat_map(|group| &group.candidates)
        .filter(|candidate| candidate.ratio > 0.0 && candidate.health != Health::Drained)
}
