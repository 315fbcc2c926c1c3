//! The bounds of a configuration file, at the limit and one past it.

use super::{config, problems, router};
use crate::limits::{CONFIG_BYTES, QUOTED_VALUE_CHARS, SHOWN_KEY_CHARS};

#[test]
fn a_file_may_be_so_large_and_no_larger() {
    let text = router("");
    let padded = |length: usize| format!("{text}#{}", "x".repeat(length - text.len() - 1));
    assert_eq!(config(&padded(CONFIG_BYTES)).worker.map(|worker| worker.authority.to_string()).as_deref(), Some("a1"));
    assert!(problems(&padded(CONFIG_BYTES + 1)).contains("the file is larger than"));
}

#[test]
fn a_value_is_quoted_up_to_a_length_and_beyond_it_not_at_all() {
    let said = |length: usize| problems(&format!("routing:\n  weights: {}\n", "v".repeat(length)));
    let whole = "v".repeat(QUOTED_VALUE_CHARS);
    assert!(said(QUOTED_VALUE_CHARS).contains(&format!("\"{whole}\"")), "{}", said(QUOTED_VALUE_CHARS));
    assert!(!said(QUOTED_VALUE_CHARS + 1).contains("vv"), "{}", said(QUOTED_VALUE_CHARS + 1));
}

#[test]
fn a_key_is_shown_up_to_a_length_and_beyond_it_cut() {
    let said = |length: usize| problems(&format!("{}: 1\n", "k".repeat(length)));
    let whole = "k".repeat(SHOWN_KEY_CHARS);
    assert!(said(SHOWN_KEY_CHARS).contains(&format!("{whole}:")), "{}", said(SHOWN_KEY_CHARS));
    let cut = said(SHOWN_KEY_CHARS + 1);
    assert!(cut.contains(&format!("{whole}..")) && !cut.contains(&format!("{whole}k")), "{cut}");
}
