//! A rule that did not hold.

/// Which rule, and how it was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule, in words.
    pub invariant: &'static str,
    /// What was seen instead.
    pub detail: String,
}

/// The rule did not hold.
///
/// # Errors
/// Always.
pub fn broken<T>(invariant: &'static str, detail: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { invariant, detail: detail.into() })
}

/// The rule holds if `holds`.
///
/// # Errors
/// When it does not.
pub fn must(holds: bool, invariant: &'static str, detail: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, detail: detail() }) }
}
