//! `logging` and `journal` (data-plane 7).

use super::forms;
use super::reader::{Reader, Section};

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

impl LogLevel {
    /// The level for the lines of the package `own`, as a list that log filters read. The libraries' own debug lines may
    /// quote what passes through them: they stay out.
    #[must_use]
    pub fn filter(self, own: &str) -> String {
        match self {
            Self::Off => "off".to_owned(),
            Self::Error => "error".to_owned(),
            Self::Warn => "warn".to_owned(),
            Self::Info => "info".to_owned(),
            Self::Debug => format!("info,{own}=debug"),
            Self::Trace => format!("info,{own}=trace"),
        }
    }
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Where control-plane inputs are recorded; `None` is nowhere.
    pub file: Option<String>,
    /// Bytes of inputs after which another part is begun.
    pub part_size: u64,
    /// Parts kept beside the one being written.
    pub older_parts: u32,
}

impl Default for Journal {
    fn default() -> Self {
        Self { file: None, part_size: 64 << 20, older_parts: 4 }
    }
}

pub(super) const LEVELS: &[(&str, LogLevel)] = &[
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
pub(super) const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// Reads `logging`.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>) -> Logging {
    let section = reader.section(root, "logging");
    let logging = Logging {
        level: reader.choice(&section, "level", LEVELS).unwrap_or_default(),
        format: reader.choice(&section, "format", FORMATS).unwrap_or_default(),
    };
    reader.finish(&section);
    logging
}

/// Reads `journal`.
pub(super) fn read_journal(reader: &mut Reader<'_>, root: &Section<'_>) -> Journal {
    let section = reader.section(root, "journal");
    let default = Journal::default();
    let journal = Journal {
        file: reader.file(&section, "file"),
        part_size: reader.value(&section, "part_size", forms::size).unwrap_or(default.part_size),
        older_parts: reader.value(&section, "older_parts", forms::number).unwrap_or(default.older_parts),
    };
    reader.finish(&section);
    journal
}
