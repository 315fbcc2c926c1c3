use super::super::describe;
use super::super::keys::{KEYS, Kind, names_in};
use super::config;

#[test]
fn every_key_is_documented() {
    for doc in KEYS {
        assert!(!doc.meaning.is_empty() && !doc.default.is_empty(), "{}", doc.key);
        if let Kind::Choice(words) = doc.kind {
            assert!(!words.is_empty() && !words.contains(&""), "{}", doc.key);
        }
    }
    assert!(names_in("server.cors").contains("allowed_origins"));
    assert!(names_in("api_keys.keys[]").contains("rate_limit"));
}

/// What `describe` says of a configuration without settings is what the table says, section by section.
#[test]
fn the_defaults_of_the_table_are_those_in_force() {
    let described = describe(&config(""));
    let mut path: Vec<&str> = Vec::new();
    let mut compared = 0;
    for line in described.lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let (name, value) = line.trim_start().split_once(':').expect("key: value");
        path.truncate(depth);
        path.push(name);
        let key = path.join(".");
        let Some(doc) = KEYS.iter().find(|doc| doc.key == key) else { continue };
        let value = value.trim().trim_matches('"');
        let expected = match key.as_str() {
            "server.bind_address" => "[\"0.0.0.0:8080\"]",
            "server.cors.allowed_origins" => "[]",
            "api_keys.mode" => {
                doc.default.strip_suffix(" without the section, blocking with it").expect("both are said")
            }
            _ => doc.default,
        };
        assert_eq!(value, expected, "{key}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn the_reference_in_the_repository_is_that_of_the_table() {
    let page = crate::config::reference();
    let written = include_str!("../../../docs/configuration.md");
    assert!(
        page == written,
        "core/docs/configuration.md is out of date: write it anew with `appproxy-worker check --reference`"
    );
    for doc in KEYS {
        assert_eq!(page.matches(&format!("| `{}` |", doc.key)).count(), 1, "{}", doc.key);
        assert!(!doc.meaning.contains('|') && !doc.default.contains('|'), "{} would break its table", doc.key);
    }
}

#[test]
fn the_schema_knows_every_key() {
    let schema: serde_json::Value = serde_json::from_str(&crate::config::schema()).expect("JSON");
    for doc in KEYS {
        let mut at = &schema;
        for name in doc.key.split('.') {
            let (name, listed) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
            at = &at["properties"][name];
            at = if listed { &at["items"] } else { at };
        }
        let meaning = at["description"].as_str().unwrap_or_else(|| panic!("{} is not in the schema", doc.key));
        assert!(meaning.starts_with(doc.meaning), "{}", doc.key);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["mcp"]["deprecated"], true);
    assert_eq!(schema["properties"]["appproxy_router"]["required"], serde_json::json!(["enabled"]));
}

#[test]
fn the_words_of_the_table_are_those_accepted() {
    for doc in KEYS.iter().filter(|doc| !doc.key.contains("[]") && !doc.key.starts_with("appproxy")) {
        let Kind::Choice(words) = doc.kind else { continue };
        for word in words {
            let mut text = String::new();
            for (depth, name) in doc.key.split('.').enumerate() {
                text += &format!("\n{}{name}: ", "  ".repeat(depth));
            }
            config(&format!("{text}{word}"));
        }
    }
}

#[cfg(all(feature = "appproxy-router", feature = "appproxy-legacy"))]
mod reader {
    use std::collections::BTreeSet;

    use super::super::super::keys::KEYS;
    use super::super::super::read;
    use super::super::super::reader::{Reader, Section};
    use super::super::super::tree::{self, Value};
    use super::super::{env, legacy, router};

    /// One entry in each list, so that the reader asks for what an entry may hold.
    const LISTS: &str = "backends: [{name: a, url: 'http://h', models: [m], model_configs: [{id: m}]}]\n\
                         api_keys: {keys: [{id: a, key: k}]}\n";

    fn asked(text: &str) -> BTreeSet<String> {
        let tree = tree::parse(text).unwrap_or_else(|problem| panic!("{problem}"));
        let Value::Map(entries) = &tree.value else { panic!("a mapping") };
        let mut reader = Reader::new(&env);
        read(&mut reader, &Section::root(entries, tree.at));
        assert_eq!(reader.problems, []);
        reader.asked
    }

    #[test]
    fn the_reader_asks_for_exactly_the_keys_of_the_table() {
        let mut read = asked(&router(LISTS));
        read.append(&mut asked(&legacy(LISTS)));
        let table: BTreeSet<_> = KEYS.iter().map(|doc| doc.key.to_owned()).collect();
        assert_eq!(read.difference(&table).collect::<Vec<_>>(), [""; 0], "read, but not in the table");
        assert_eq!(table.difference(&read).collect::<Vec<_>>(), [""; 0], "in the table, but not read");
        assert_eq!(table.len(), KEYS.len(), "no key twice");
    }
}
