//! Lists read element by element: one malformed element costs only itself (worker-protocol 2).

use core::fmt::Display;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use super::json::Fault;
use super::malformed::{Elements, MalformedKind};
use super::report::{At, Reports};

/// Why one element was skipped, and its id where that could be read.
pub(super) struct Skipped<I> {
    pub(super) id: Option<I>,
    pub(super) fault: Fault,
}

impl<I> From<Fault> for Skipped<I> {
    fn from(fault: Fault) -> Self {
        Self { id: None, fault }
    }
}

/// Reads every element of `list`. Of several with one id the last one counts, good or malformed, and the others are
/// reported. `malformed` of the result stays empty: the reports go to `reports`.
pub(super) fn read_elements<T, I: Ord + Clone + Display>(
    list: &[&RawValue],
    at: At<'_>,
    kind: MalformedKind,
    reports: &mut Reports,
    mut read: impl FnMut(&RawValue, At<'_>, &mut Reports) -> Result<T, Skipped<I>>,
    id_of: impl Fn(&T) -> I,
) -> Elements<T> {
    let mut read_ones: Vec<Option<T>> = Vec::with_capacity(list.len());
    let mut newest: BTreeMap<I, Option<usize>> = BTreeMap::new();
    let mut unreadable = false;
    for (index, raw) in list.iter().enumerate() {
        let at = At::Index(&at, index);
        let (id, place) = match read(raw, at, reports) {
            Ok(element) => {
                let id = id_of(&element);
                read_ones.push(Some(element));
                (id, Some(read_ones.len() - 1))
            }
            Err(Skipped { id, fault }) => {
                reports.element(kind, at, id.as_ref().map(|id| id as &dyn Display), &fault);
                let Some(id) = id else {
                    unreadable = true;
                    continue;
                };
                (id, None)
            }
        };
        if let Some(older) = newest.get(&id) {
            if let Some(older) = older.and_then(|place| read_ones.get_mut(place)) {
                *older = None;
            }
            let problem = "an earlier element of this list has the same id and is left out; ids should differ";
            reports.element(kind, at, Some(&id), &Fault::whole(problem));
        }
        newest.insert(id, place);
    }
    let skipped_ids = newest.into_iter().filter(|(_, place)| place.is_none()).map(|(id, _)| id.to_string()).collect();
    Elements { good: read_ones.into_iter().flatten().collect(), malformed: Vec::new(), skipped_ids, unreadable }
}
