//! How much of the state is asked for: a page shows what fits a screen, whatever the size of the site.

use std::borrow::Cow;

use crate::exchange::decode;
use crate::limits;

/// What a query of `/admin/state` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Lower-case text that a model, circuit or key must hold; empty: all of them.
    pub(super) find: String,
    /// Models, circuits and keys at the most, of each.
    pub(super) most: usize,
    /// Only models and circuits that are not as they should be.
    pub(super) trouble: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { find: String::new(), most: usize::MAX, trouble: false }
    }
}

impl Wanted {
    /// Of `find=TEXT&most=N&trouble=true`, each of which may be absent. In words, what cannot be read.
    pub(super) fn of(query: &str) -> Result<Self, String> {
        let mut wanted = Self::default();
        for pair in pairs(query) {
            let (name, value) = pair?;
            match (name, &*value) {
                ("find", text) => wanted.find = text.trim().to_lowercase(),
                ("most", "") | ("trouble", "" | "false") => {}
                ("most", number) => {
                    wanted.most = number.parse().map_err(|_| format!("most is no number: {number:?}\n"))?;
                }
                ("trouble", "true") => wanted.trouble = true,
                ("trouble", _) => return Err("trouble is true or false\n".to_owned()),
                _ => return Err(format!("{name} is not known here; ask with find, most, trouble\n")),
            }
        }
        Ok(wanted)
    }

    /// Keys at the most.
    pub(super) fn keys(&self) -> usize {
        self.most.min(limits::KEYS_SHOWN)
    }

    /// Whether one of these texts holds what is looked for.
    pub(super) fn finds<'a>(&self, mut texts: impl Iterator<Item = Cow<'a, str>>) -> bool {
        self.find.is_empty() || texts.any(|text| holds(&text, &self.find))
    }
}

/// Whether `text` holds `wanted`, which is lower-case, in any case.
fn holds(text: &str, wanted: &str) -> bool {
    // Names are lower-case as a rule, and there may be a hundred thousand of them.
    text.contains(wanted) || (text.contains(|c: char| c.is_uppercase()) && text.to_lowercase().contains(wanted))
}

/// The fields of a query, decoded. In words, what cannot be.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = Result<(&str, String), String>> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match decode(&value.replace('+', " ")) {
            Some(value) => Ok((name, value.into_owned())),
            None => Err(format!("{name} is not percent-encoded UTF-8\n")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_everything() {
        assert_eq!(Wanted::of("").as_ref(), Ok(&Wanted::default()));
        assert_eq!(Wanted::of("find=&most=&trouble=").as_ref(), Ok(&Wanted::default()));
        assert_eq!(Wanted::default().keys(), limits::KEYS_SHOWN);
        let wanted = Wanted { find: "a b".to_owned(), most: 7, trouble: true };
        assert_eq!(Wanted::of("find=A%20b+&most=7&trouble=true").as_ref(), Ok(&wanted));
        assert_eq!(wanted.keys(), 7);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (query, words) in
            [("most=x", "no number"), ("most=-1", "no number"), ("trouble=1", "true or false"), ("a=1", "find, most")]
        {
            let said = Wanted::of(query).expect_err(query);
            assert!(said.contains(words) && said.ends_with('\n'), "{query}: {said}");
        }
    }

    #[test]
    fn a_text_is_found_in_any_case() {
        let wanted = Wanted { find: "qwen".to_owned(), ..Wanted::default() };
        let finds = |texts: &[&'static str]| wanted.finds(texts.iter().map(|text| Cow::Borrowed(*text)));
        assert!(finds(&["x", "org/Qwen3"]) && finds(&["qwen"]));
        assert!(!finds(&["llama"]) && !finds(&[]));
        assert!(Wanted::default().finds(core::iter::empty()));
    }
}
