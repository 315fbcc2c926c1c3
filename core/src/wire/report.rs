//! Where in a body something stands, and the bounded list of what was malformed there.

use core::fmt::{self, Display};
use std::collections::BTreeMap;

use super::json::Fault;
use super::malformed::{Malformed, MalformedKind};
use crate::limits;

/// A place in a body. Rendered only when something there is reported.
#[derive(Clone, Copy)]
pub(super) enum At<'p> {
    /// The body as a whole, by a name or by nothing.
    Root(&'p str),
    /// A field of the object there.
    Field(&'p Self, &'p str),
    /// An element of the list there.
    Index(&'p Self, usize),
    /// The same place, which belongs to something with this id.
    Of(&'p Self, &'p dyn Display),
}

impl At<'_> {
    fn is_nameless(&self) -> bool {
        match self {
            Self::Root(name) => name.is_empty(),
            Self::Of(place, _) => place.is_nameless(),
            Self::Field(..) | Self::Index(..) => false,
        }
    }

    /// The id of the nearest thing around that has one.
    fn owner(&self) -> Option<String> {
        match self {
            Self::Root(_) => None,
            Self::Of(_, id) => Some(shown(*id)),
            Self::Field(place, _) | Self::Index(place, _) => place.owner(),
        }
    }
}

impl Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Field(place, "") | Self::Of(place, _) => place.fmt(f),
            Self::Field(place, name) if place.is_nameless() => f.write_str(name),
            Self::Field(place, name) => write!(f, "{place}.{name}"),
            Self::Index(place, index) => write!(f, "{place}[{index}]"),
        }
    }
}

/// What was malformed in one body: the first [`limits::REPORTED_ELEMENTS`] one by one, the others as numbers.
#[derive(Default)]
pub(super) struct Reports {
    listed: Vec<Malformed>,
    further: BTreeMap<MalformedKind, u64>,
}

impl Reports {
    /// Reports an element, with its id where that could be read.
    pub(super) fn element(&mut self, kind: MalformedKind, at: At<'_>, id: Option<&dyn Display>, fault: &Fault) {
        if self.has_room(kind) {
            self.listed.push(malformed(kind, at, id, fault));
        }
    }

    /// Reports a number that was read as something else, with the id of what it belongs to.
    pub(super) fn number(&mut self, at: At<'_>, problem: &str) {
        if self.has_room(MalformedKind::Number) {
            let mut report = Malformed::new(MalformedKind::Number, at.to_string(), problem);
            report.id = at.owner();
            self.listed.push(report);
        }
    }

    /// Takes over the reports of something that was read by itself.
    pub(super) fn adopt(&mut self, reports: Vec<Malformed>) {
        for report in reports {
            if self.has_room(report.kind) {
                self.listed.push(report);
            }
        }
    }

    /// Everything reported, the numbers of what had no room last.
    pub(super) fn finish(self) -> Vec<Malformed> {
        let mut all = self.listed;
        all.extend(self.further.into_iter().map(|(kind, number)| {
            let problem = format!("{number} more of this kind in the same body, not listed one by one");
            Malformed { further: number.saturating_sub(1), ..Malformed::new(kind, "further elements", problem) }
        }));
        all
    }

    fn has_room(&mut self, kind: MalformedKind) -> bool {
        let room = self.listed.len() < limits::REPORTED_ELEMENTS;
        if !room {
            let number = self.further.entry(kind).or_default();
            *number = number.saturating_add(1);
        }
        room
    }
}

/// One report, by itself.
pub(super) fn malformed(kind: MalformedKind, at: At<'_>, id: Option<&dyn Display>, fault: &Fault) -> Malformed {
    let path = At::Field(&at, fault.field).to_string();
    Malformed { id: id.map(shown), ..Malformed::new(kind, path, fault.problem.as_str()) }
}

/// An id for a report: key ids and model names are the coordinator's choice, of any length.
fn shown(id: &dyn Display) -> String {
    let id = id.to_string();
    match id.char_indices().nth(limits::QUOTED_CHARS) {
        Some((end, _)) => id.get(..end).unwrap_or_default().to_owned(),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_the_body() {
        let body = At::Root("");
        let circuits = At::Field(&body, "circuits");
        let circuit = At::Index(&circuits, 3);
        let owned = At::Of(&circuit, &"c-1");
        let routes = At::Field(&owned, "route_info");
        let route = At::Index(&routes, 0);
        assert_eq!(At::Field(&route, "kernel_port").to_string(), "circuits[3].route_info[0].kernel_port");
        assert_eq!(At::Field(&route, "").to_string(), "circuits[3].route_info[0]");
        assert_eq!(route.owner().as_deref(), Some("c-1"));
    }

    #[test]
    fn ids_are_cut_and_cannot_break_a_log_line() {
        let id = format!("a\n{}", "한".repeat(limits::QUOTED_CHARS));
        let report = malformed(MalformedKind::Key, At::Root("keys[0]"), Some(&id), &Fault::whole("wrong"));
        assert_eq!(report.id.as_ref().map(|id| id.chars().count()), Some(limits::QUOTED_CHARS));
        assert!(report.to_string().starts_with("malformed key at keys[0] (id a\\n한한"), "{report}");
    }

    #[test]
    fn reports_are_bounded_and_the_rest_is_counted_by_kind() {
        for over in [0u64, 1, 7] {
            let mut reports = Reports::default();
            for index in 0..limits::REPORTED_ELEMENTS as u64 + over {
                let at = At::Root("x");
                let kind = if index % 2 == 0 { MalformedKind::Route } else { MalformedKind::Key };
                reports.element(kind, at, None, &Fault::whole("wrong"));
            }
            let all = reports.finish();
            assert_eq!(all.iter().map(Malformed::count).sum::<u64>(), limits::REPORTED_ELEMENTS as u64 + over);
            assert!(all.len() <= limits::REPORTED_ELEMENTS + 2);
        }
    }
}
