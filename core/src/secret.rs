//! Values that must never be printed.

use core::fmt;

/// A text that no `Debug`, `Display` or serialiser shows (worker-protocol 8).
///
/// ```
/// let secret = appproxy_core::secret::Secret::new("hunter2");
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert_eq!(secret.expose(), "hunter2");
/// ```
/// The default is empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself. Every caller of this is a place to audit.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
