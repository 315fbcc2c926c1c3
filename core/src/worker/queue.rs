//! Outputs not drained yet.

use std::collections::VecDeque;

use super::output::{Command, Event, Output};
use crate::defects::{Defect, has};
use crate::limits;

/// Commands and events in their order. Undrained inputs are safe: commands are all kept, and when events pile up the
/// oldest go.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    queue: VecDeque<Output>,
    events: usize,
    dropped_events: u64,
}

impl Outputs {
    pub(super) fn command(&mut self, command: Command) {
        self.queue.push_back(Output::Command(command));
    }

    pub(super) fn event(&mut self, event: Event) {
        if matches!(event, Event::Malformed(_)) && has(Defect::MalformedUncounted) {
            return;
        }
        if self.events == limits::QUEUED_EVENTS
            && let Some(oldest) = self.queue.iter().position(|output| matches!(output, Output::Event(_)))
        {
            self.queue.remove(oldest);
            self.events -= 1;
            self.dropped_events += 1;
        }
        self.events += 1;
        self.queue.push_back(Output::Event(event));
    }

    pub(super) fn next(&mut self) -> Option<Output> {
        let output = self.queue.pop_front()?;
        if matches!(output, Output::Event(_)) {
            self.events -= 1;
        }
        Some(output)
    }

    pub(super) const fn dropped_events(&self) -> u64 {
        self.dropped_events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_bounded_and_commands_are_not() {
        let mut outputs = Outputs::default();
        outputs.command(Command::Subscribe);
        for _ in 0..limits::QUEUED_EVENTS {
            outputs.event(Event::AckSent);
        }
        assert_eq!(outputs.dropped_events(), 0);
        outputs.event(Event::AckDropped { why: "expired".into() });
        outputs.command(Command::Stop);
        assert_eq!(outputs.dropped_events(), 1);
        assert!(matches!(outputs.next(), Some(Output::Command(Command::Subscribe))));
        let rest: Vec<Output> = core::iter::from_fn(|| outputs.next()).collect();
        assert_eq!(rest.len(), limits::QUEUED_EVENTS + 1);
        assert!(matches!(rest.last(), Some(Output::Command(Command::Stop))));
    }
    #[test]
    fn the_bound_is_on_what_waits_not_on_what_ever_came() {
        let mut outputs = Outputs::default();
        for _ in 0..3 {
            for _ in 0..limits::QUEUED_EVENTS {
                outputs.event(Event::AckSent);
            }
            assert_eq!(outputs.dropped_events(), 0);
            while outputs.next().is_some() {}
        }
        for _ in 0..limits::QUEUED_EVENTS + 7 {
            outputs.event(Event::AckSent);
        }
        assert_eq!((outputs.dropped_events(), outputs.queue.len()), (7, limits::QUEUED_EVENTS));
    }
}
