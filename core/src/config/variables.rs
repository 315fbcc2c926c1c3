//! `${NAME}` in values: looked up once; the result is never looked at again (worker-protocol 8).

/// Why a value could not be completed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unset {
    /// This variable is not set.
    Variable(String),
    /// A `${` that does not begin a variable.
    Malformed,
}

/// `text` with its variables replaced, and whether there were any.
pub(super) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<(String, bool), Unset> {
    let mut done = String::new();
    let mut rest = text;
    let mut replaced = false;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after.split_once('}').ok_or(Unset::Malformed)?;
        if !is_name(name) {
            return Err(Unset::Malformed);
        }
        done.push_str(before);
        done.push_str(&env(name).ok_or_else(|| Unset::Variable(name.to_owned()))?);
        replaced = true;
        rest = behind;
    }
    done.push_str(rest);
    Ok((done, replaced))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "A" => Some("a".to_owned()),
            "NESTED" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn ok(text: &str) -> (String, bool) {
        expand(text, &env).expect("expands")
    }

    #[test]
    fn variables_are_replaced_once() {
        assert_eq!(ok("x${A}y${A}"), ("xaya".to_owned(), true));
        assert_eq!(ok("${NESTED}"), ("${A}".to_owned(), true));
        assert_eq!(ok("${EMPTY}"), (String::new(), true));
        assert_eq!(ok("$A $ $$ }"), ("$A $ $$ }".to_owned(), false));
    }

    #[test]
    fn what_is_not_set_or_not_a_name_is_refused() {
        assert_eq!(expand("${B}", &env), Err(Unset::Variable("B".to_owned())));
        for text in ["${", "${A", "${}", "${A:-x}", "${1A}", "${A B}"] {
            assert_eq!(expand(text, &env), Err(Unset::Malformed), "{text}");
        }
    }
}
