//! The last notices, for the status page: what the log says of the control plane and of health.

use serde::Serialize;
use std::collections::VecDeque;

use crate::limits;
use crate::time::Moment;

/// One notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Noticed {
    /// When.
    #[serde(skip)]
    pub at: Moment,
    /// `info`, `warning` or `error`.
    pub severity: &'static str,
    /// A stable word for it.
    pub code: String,
    /// In words, without secrets.
    pub text: String,
}

/// The last [`limits::NOTICES`] of them.
#[derive(Debug, Clone, Default)]
pub struct Notices {
    last: VecDeque<Noticed>,
}

impl Notices {
    /// Keeps one, and lets go of the oldest when there are too many.
    pub fn keep(&mut self, noticed: Noticed) {
        if self.last.len() >= limits::NOTICES {
            self.last.pop_front();
        }
        self.last.push_back(noticed);
    }

    /// All of them, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Noticed> {
        self.last.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let mut notices = Notices::default();
        for n in 0..=limits::NOTICES {
            let at = Moment::from_millis(n as u64);
            notices.keep(Noticed { at, severity: "info", code: "n".to_owned(), text: n.to_string() });
        }
        let shown: Vec<&str> = notices.newest_first().map(|noticed| noticed.text.as_str()).collect();
        assert_eq!(shown.len(), limits::NOTICES);
        assert_eq!((shown[0], *shown.last().expect("some")), (limits::NOTICES.to_string().as_str(), "1"));
    }
}
