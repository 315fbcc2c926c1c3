//! `logging` and `journal` (data-plane 7).

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What needs a hand.
    Error,
    /// What may need one.
    Warn,
    /// Access lines and changes.
    #[default]
    Info,
    /// Decisions.
    Debug,
    /// Everything.
    Trace,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `logging`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Logging {
    /// What is logged.
    pub level: LogLevel,
    /// How a line looks.
    pub format: LogFormat,
}

/// `journal`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    /// Where control-plane inputs are recorded; `None` is nowhere.
    pub file: Option<String>,
}
