use proptest::prelude::*;

use super::super::{Config, describe, load};
use super::{env, legacy, loaded, router};
#[cfg(feature = "appproxy-legacy")]
use crate::config::worker::Mode;

const MARKER: &str = "s3cr3t-marker-0123456789";

/// Every secret of every section is the marker, by value or by variable.
fn files() -> Vec<String> {
    let rest = "admin: {token: s3cr3t-marker-0123456789}\nbackends:\n- {name: a, url: 'http://h', models: [m], api_key: '${SECRET}'}\n\
                api_keys:\n  keys:\n  - {id: a, key: s3cr3t-marker-0123456789}\nlogging: {level: info}\n";
    let mut files = vec![rest.to_owned()];
    if cfg!(feature = "appproxy-router") {
        files.push(router(rest));
        files.push(router(rest).replace("api_secret: s3cr3t-marker-0123456789", "api_secret: ${SECRET}"));
    }
    if cfg!(feature = "appproxy-legacy") {
        files.push(legacy(rest));
    }
    files
}

/// Everything that may be shown of what `text` gives.
fn shown(text: &str) -> String {
    match load(text, &env) {
        Ok(loaded) => format!("{loaded:?}\n{}", describe(&loaded.config)),
        Err(problems) => format!("{problems:?}\n{problems}"),
    }
}

/// Whether the marker stands where names and addresses stand.
fn given_plainly(config: &Config) -> bool {
    let mut plain: Vec<&str> = Vec::new();
    for backend in &config.backends {
        plain.extend([&*backend.name, &*backend.url]);
        plain.extend(backend.models.iter().map(|name| &**name));
        plain.extend(backend.aliases.iter().flat_map(|(alias, own)| [&**alias, &**own]));
    }
    if let Some(worker) = &config.worker {
        plain.extend([&*worker.coordinator_url, &*worker.authority, &*worker.hostname]);
        #[cfg(feature = "appproxy-legacy")]
        if let Mode::Legacy(legacy) = &worker.mode {
            plain.push(&legacy.wildcard_domain);
        }
    }
    plain.iter().any(|text| text.contains(MARKER))
}

#[test]
fn no_secret_is_shown() {
    for file in files() {
        let shown = shown(&file);
        assert!(shown.contains("***"), "{shown}");
        assert!(!shown.contains(MARKER), "{shown}");
    }
}

#[test]
fn no_secret_is_shown_when_every_line_in_turn_is_broken() {
    for file in files() {
        for broken in [" x", ": y", "\"", "'", "[", "{", "*", "&", "!!int ", "- "] {
            for (index, _) in file.match_indices('\n').chain(file.match_indices(": ")).chain(file.match_indices(MARKER))
            {
                let (before, after) = file.split_at(index);
                let text = format!("{before}{broken}{after}");
                assert!(!shown(&text).contains(MARKER), "{text}\n{}", shown(&text));
            }
        }
    }
}

#[test]
fn a_secret_in_the_wrong_place_is_not_shown_when_it_came_from_a_variable() {
    for key in [
        "logging: {level: ",
        "server: {bind_address: ",
        "request: {max_retries: ",
        "admin: {bind_address: ",
        "selection_strategy: {x: ",
    ] {
        let text = format!("{key}'${{SECRET}}'}}");
        assert!(load(&text, &env).is_err());
        assert!(!shown(&text).contains(MARKER), "{}", shown(&text));
    }
}

#[test]
fn descriptions_are_equal_for_equal_configurations() {
    for file in files() {
        assert_eq!(describe(&loaded(&file).config), describe(&loaded(&file).config));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}", yaml in "[a-z:\\[\\]{}&*!|>'\"#,\\-? \n\t$0-9.]{0,200}") {
        let _ = load(&text, &env);
        let _ = load(&yaml, &env);
    }

    #[test]
    fn a_damaged_file_never_panics_and_shows_no_secret(
        file in 0..4usize, at in any::<prop::sample::Index>(), cut in 0..40usize, put in "[a-z:\\[\\]{}&*!|>'\"#,\\-? \n\t$]{0,6}",
    ) {
        let files = files();
        let file = &files[file % files.len()];
        let from = at.index(file.len());
        let to = (from + cut).min(file.len());
        let text = format!("{}{put}{}", file.get(..from).unwrap_or(""), file.get(to..).unwrap_or(""));
        // What became a name or an address is no secret any more: it is shown, and clients are told of models.
        prop_assume!(!load(&text, &env).is_ok_and(|loaded| given_plainly(&loaded.config)));
        prop_assert!(!shown(&text).contains(MARKER), "{}\n{}", text, shown(&text));
    }

    #[test]
    fn a_value_of_any_text_never_panics(value in "\\PC{0,40}", key in prop::sample::select(super::super::KEYS)) {
        let names: Vec<_> = key.key.split('.').collect();
        let mut text = String::new();
        for (depth, name) in names.iter().enumerate() {
            let name = name.trim_end_matches("[]");
            text += &format!("{}{name}:{}", " ".repeat(depth * 4), if depth + 1 == names.len() { " " } else { "\n" });
            if key.key.contains(&format!("{name}[]")) {
                text += &format!("{}-\n", " ".repeat(depth * 4 + 2));
            }
        }
        text += &format!("{value:?}\n");
        let _ = load(&text, &env);
        let _ = load(&text, &|_| Some(value.clone()));
    }
}
