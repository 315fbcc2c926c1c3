//! Our wire code against recorded traffic of released coordinators, the oldest and the newest dialect
//! (worker-protocol 1, 1.1, 3.1; 4.4). What was recorded is told in `fixtures/recorded/README.md`.

mod acks;
mod bus;
mod rest;
mod tokens;

use appproxy_fixtures::wire::Dialect;
use serde_json::Value;

/// One release whose traffic was recorded.
struct Release {
    version: &'static str,
    /// What its coordinator writes, and how it reads acks.
    dialect: Dialect,
}

const RELEASES: [Release; 2] =
    [Release { version: "26.4.16", dialect: Dialect::Args }, Release { version: "26.9.6", dialect: Dialect::Payload }];

impl Release {
    #[track_caller]
    fn text(&self, file: &str) -> String {
        let path = appproxy_tests::repository::root().join("fixtures/recorded").join(self.version).join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[track_caller]
    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.text(file)).unwrap_or_else(|error| panic!("{} {file}: {error}", self.version))
    }

    /// The rows of a file that holds a list.
    #[track_caller]
    fn rows(&self, file: &str) -> Vec<Value> {
        let Value::Array(rows) = self.json(file) else { panic!("{file} is no list") };
        assert!(!rows.is_empty(), "{file} is empty");
        rows
    }

    /// The messages of the channel, in order.
    fn bus(&self) -> Vec<String> {
        let lines: Vec<String> = self.text("bus.jsonl").lines().map(str::to_owned).collect();
        assert!(lines.len() > 30, "{} messages", lines.len());
        lines
    }
}

#[track_caller]
fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name} of {row}"))
}

#[test]
fn nothing_recorded_names_a_machine() {
    for release in RELEASES {
        for file in ["bus.jsonl", "acks.json", "rest.json", "tokens.json"] {
            let text = release.text(file);
            for place in ["home", "work", "tmp", "root", "usr"].map(|folder| format!("/{folder}/")) {
                assert!(!text.contains(&place), "{} {file}: {place}", release.version);
            }
        }
    }
}
