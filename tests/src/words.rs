//! What the command lines of this package's programs share.

use crate::shell::Shell;

/// The value of `word`, a number above 0.
///
/// # Errors
/// What is wrong with it.
pub fn positive(word: &str, value: &str) -> Result<u32, String> {
    let number = value.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{word}: {value:?} is no number above 0"))
}

/// The shell of this name.
///
/// # Errors
/// That there is none.
pub fn shell(name: &str) -> Result<Shell, String> {
    Shell::named(name).ok_or_else(|| format!("there is no shell {name:?}"))
}
