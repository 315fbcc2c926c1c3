//! Quoting what a client sent in an answer to it.

use crate::limits;

/// `text` in quotes, cut to [`limits::QUOTED_CHARS`] characters, control characters escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut cut: String = text.chars().take(limits::QUOTED_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("{cut:?}")
}
