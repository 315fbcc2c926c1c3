//! What is wrong with a configuration, said so that an operator can mend it.

use core::fmt;

/// A place in the file; both counted from 1, 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl Position {
    /// The place of what is not in the file but in a variable of [`super::OVERRIDE_PREFIX`].
    pub const ENVIRONMENT: Self = Self { line: 0, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ENVIRONMENT {
            return f.write_str("environment");
        }
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One reason why a configuration is refused. Never holds a secret, nor anything that came from a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file.
    pub at: Position,
    /// The whole key, such as `backends[2].url`; empty for the file as a whole.
    pub key: String,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.wrong, self.right)
    }
}

/// Every problem of one file, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl core::error::Error for Problems {}

/// Something the operator should know about a configuration that is accepted all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where in the file.
    pub at: Position,
    /// The whole key.
    pub key: String,
    /// What to know.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.at, self.key, self.text)
    }
}
