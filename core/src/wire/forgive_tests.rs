use proptest::prelude::*;

use super::*;

/// A JSON value, with a leaf that JSON does not have.
#[derive(Debug, Clone)]
enum Tree {
    Word(&'static str),
    Plain(&'static str),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let text = prop_oneof![
        Just("NaN".to_owned()),
        Just("a \"NaN\" \\".to_owned()),
        Just("[-Infinity,{".to_owned()),
        Just("\\\"".to_owned()),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        prop_oneof![Just("NaN"), Just("Infinity"), Just("-Infinity")].prop_map(Tree::Word),
        prop_oneof![Just("0"), Just("-1.5e3"), Just("true"), Just("null"), Just("1e999")].prop_map(Tree::Plain),
        text.clone().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
            prop::collection::vec((prop_oneof![Just("ratio".to_owned()), text.clone()], inner), 0..4)
                .prop_map(Tree::Object),
        ]
    })
}

/// Renders `tree` with its words, or with 0 for each, and lists the paths of the words.
fn render(tree: &Tree, zero: bool, path: &str, out: &mut String, paths: &mut Vec<String>) {
    match tree {
        Tree::Word(word) => {
            paths.push(path.to_owned());
            out.push_str(if zero { "0" } else { word });
        }
        Tree::Plain(text) => out.push_str(text),
        Tree::Text(text) => out.push_str(&serde_json::to_string(text).unwrap()),
        Tree::List(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { " ,\n" } else { "" });
                render(element, zero, &format!("{path}[{index}]"), out, paths);
            }
            out.push(']');
        }
        Tree::Object(fields) => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&serde_json::to_string(key).unwrap());
                out.push_str(" : ");
                let plain = key.len() <= 40 && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                let shown = if plain { key.as_str() } else { "?" };
                let dot = if path.is_empty() { "" } else { "." };
                render(value, zero, &format!("{path}{dot}{shown}"), out, paths);
            }
            out.push('}');
        }
    }
}

proptest! {
    #[test]
    fn every_bare_word_becomes_0_and_is_reported_with_its_path(tree in tree()) {
        let (mut dirty, mut clean, mut paths) = (String::new(), String::new(), Vec::new());
        render(&tree, false, "", &mut dirty, &mut paths);
        render(&tree, true, "", &mut clean, &mut Vec::new());
        match forgive(&dirty) {
            None => prop_assert!(paths.is_empty()),
            Some((repaired, reports)) => {
                prop_assert_eq!(&repaired, &clean);
                prop_assert_eq!(reports.into_iter().map(|report| report.path).collect::<Vec<_>>(), paths);
            }
        }
    }

    #[test]
    fn valid_json_is_left_alone_and_nothing_panics(text in any::<String>(), value in "[\\[\\]{}\",:0-9a-zNI\\\\-]{0,40}") {
        for text in [text, value] {
            let forgiven = forgive(&text);
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert!(forgiven.is_none());
            }
        }
    }
}

#[test]
fn only_whole_words_as_values_are_forgiven() {
    for text in [r#"{"a":NaNs}"#, r#"{"a":+Infinity}"#, r#"{"a":nan}"#, r#"{"a":-NaN}"#, r#"{"NaN":"Infinity"}"#] {
        assert!(forgive(text).is_none(), "{text}");
    }
    // As a key it stays broken JSON.
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).map_err(|e| Fault::whole(e.to_string()));
    assert!(read_body(br#"{NaN:1}"#, read).is_err());
    assert!(read_body(br#"{"a":NaN,}"#, read).is_err());
    assert!(read_body(br#"{"a":NaN"#, read).is_err());
}

#[test]
fn paths_stop_at_environments_and_hide_odd_names() {
    let path = |text: &str| forgive(text).expect("something forgiven").1.remove(0).path;
    assert_eq!(path(r#"{"circuits":[{},{"envs":{"TOKEN":[NaN]}}]}"#), "circuits[1].envs");
    assert_eq!(path(r#"{"a b":{"c":NaN}}"#), "?.c");
    assert_eq!(path("NaN"), "");
    let deep = format!("{}NaN", "[".repeat(1_000_000));
    assert_eq!(path(&deep), "[0]".repeat(limits::NESTING));
}

#[test]
fn reports_of_forgiven_numbers_are_bounded() {
    let body = format!("[{}0]", "NaN,".repeat(1000));
    let (_, reports) = forgive(&body).expect("something forgiven");
    assert_eq!(reports.len(), limits::REPORTED_ELEMENTS + 1);
    assert_eq!(reports.iter().map(Malformed::count).sum::<u64>(), 1000);
}
