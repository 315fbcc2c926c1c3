//! Configuration files.

use appproxy_core::config::{describe, load};
use appproxy_core::limits;

/// What every variable holds; longer than what a message may quote of a value.
const VARIABLE: &str = "what-a-variable-holds-is-never-quoted";

/// The bytes as a configuration file, with every variable set and with none.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let set = |name: &str| (!name.is_empty()).then(|| VARIABLE.to_owned());
    let unset = |_: &str| None;
    for env in [&set as &dyn Fn(&str) -> Option<String>, &unset] {
        let found = load(&text, env);
        assert_eq!(found, load(&text, env), "the same file is the same configuration");
        match found {
            Ok(loaded) => {
                assert!(text.len() <= limits::CONFIG_BYTES, "a file of {} bytes", text.len());
                assert!(!describe(&loaded.config).is_empty());
                for warning in loaded.warnings.iter().chain(&loaded.not_in_effect) {
                    sound_line(&warning.to_string());
                }
            }
            Err(problems) => {
                assert!(!problems.0.is_empty(), "refused without a reason");
                problems.0.iter().for_each(|problem| sound_line(&problem.to_string()));
            }
        }
    }
}

fn sound_line(line: &str) {
    assert!(!line.trim().is_empty());
    assert!(!line.chars().any(|c| c.is_ascii_control()), "{line:?} is more than a line");
    assert!(!line.contains(VARIABLE), "{line} quotes a variable");
}
