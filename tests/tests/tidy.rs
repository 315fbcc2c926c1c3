//! Rules of this repository that no compiler checks. Each failure names every place that breaks the rule.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use appproxy_tests::repository::{self, Which};

const MOST_LINES: usize = 500;

/// Names which say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["common", "helper", "helpers", "manager", "managers", "misc", "util", "utils", "utilities"];

/// Where what is released stands.
const PRODUCT: [&str; 4] = ["core/src", "core/driver/src", "shell-tokio/src", "shell-smol/src"];

/// What the top level holds, and nothing else.
const TOP_LEVEL: [&str; 18] = [
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "clippy.toml",
    "core",
    "deny.toml",
    "fixtures",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "shell-smol",
    "shell-tokio",
    "tests",
];

/// What the top level may hold as well.
const TOP_LEVEL_TOO: [&str; 8] = [
    ".config",
    ".dockerignore",
    ".gitattributes",
    "Dockerfile",
    "config.example.legacy.yaml",
    "config.example.plain.yaml",
    "config.example.router.yaml",
    "fuzz",
];

/// Hosts a build may be pointed at on one machine only: never part of the project.
const REGISTRY_HOSTS: [&str; 6] =
    ["crates.io", "pypi.org", "pythonhosted.org", "npmjs.org", "proxy.golang.org", "rubygems.org"];

const LOCK_SOURCE: &str = concat!("registry+https://github.com/rust-lang/", "crates.io", "-index");

#[track_caller]
fn none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}\n  {}", broken.join("\n  "));
}

fn at(file: &Path, line: usize, text: &str) -> String {
    format!("{}:{line}: {}", file.display(), text.trim())
}

/// All lines of `files` that `breaks` dislikes.
fn lines_that(files: &[(PathBuf, String)], breaks: impl Fn(&Path, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files {
        let bad = text.lines().enumerate().filter(|(_, line)| breaks(file, line));
        found.extend(bad.map(|(number, line)| at(file, number + 1, line)));
    }
    found
}

#[test]
fn no_rust_file_is_longer_than_a_reader_can_hold() {
    let mut long = Vec::new();
    for (file, text) in repository::rust().unwrap() {
        let lines = text.lines().count();
        if lines > MOST_LINES {
            long.push(format!("{}: {lines} lines", file.display()));
        }
    }
    none("A .rs file has at most 500 lines, its tests included: split it by what it does.", &long);
}

#[test]
fn every_name_says_what_is_inside() {
    let files = repository::files(Which::TrackedOrNew).unwrap();
    let empty = |file: &&PathBuf| {
        file.iter().any(|part| {
            let stem = Path::new(part).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            EMPTY_NAMES.contains(&stem.to_lowercase().as_str())
        })
    };
    let found: Vec<String> = files.iter().filter(empty).map(|file| file.display().to_string()).collect();
    none("No file or folder is called utils, helpers, misc, common or manager: name what it holds.", &found);
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not break its own rule.
    let calls = [concat!("to", "do!("), concat!("unimple", "mented!(")];
    let marks = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];
    let found = lines_that(&repository::rust().unwrap(), |_, line| {
        calls.iter().any(|call| line.contains(call)) || marks.iter().any(|mark| repository::has_word(line, mark))
    });
    none("Finished or not there: no placeholder and no note to oneself in the code.", &found);
}

#[test]
fn an_ignored_test_says_why() {
    let bare = concat!("#[ig", "nore]");
    let found = lines_that(&repository::rust().unwrap(), |_, line| line.contains(bare));
    none("An ignored test gives its reason in its ignore attribute.", &found);
}

#[test]
fn nothing_points_into_one_machine() {
    let roots = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let found = lines_that(&repository::texts().unwrap(), |_, line| {
        roots.iter().any(|root| {
            line.match_indices(root).any(|(at, _)| {
                let before = line.get(..at).and_then(|rest| rest.chars().next_back());
                let after = line.get(at + root.len()..).and_then(|rest| rest.chars().next());
                // Inside of a longer path or of a URL it is no path of a machine.
                let starts = !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}$".contains(c));
                starts && after.is_some_and(|c| c.is_alphanumeric() || c == '.')
            })
        })
    });
    none("No absolute path of somebody's machine.", &found);
}

#[test]
fn no_package_registry_is_named_and_the_lock_file_knows_one_source() {
    let found = lines_that(&repository::texts().unwrap(), |file, line| {
        let own = file == Path::new("tests/tests/tidy.rs");
        if file.file_name().is_some_and(|name| name == "Cargo.lock") {
            return line.starts_with("source = ") && line != format!("source = \"{LOCK_SOURCE}\"");
        }
        !own && REGISTRY_HOSTS.iter().any(|host| line.contains(host))
    });
    none("Where packages come from is the builder's own setting; Cargo.lock names the standard registry.", &found);
}

#[test]
fn the_top_level_is_what_the_architecture_says() {
    let files = repository::files(Which::Tracked).unwrap();
    let present: BTreeSet<String> =
        files.iter().filter_map(|file| file.iter().next()).map(|part| part.to_string_lossy().into_owned()).collect();
    let mut wrong = Vec::new();
    for name in &present {
        if !TOP_LEVEL.contains(&name.as_str()) && !TOP_LEVEL_TOO.contains(&name.as_str()) {
            wrong.push(format!("{name} does not belong there"));
        }
    }
    for name in TOP_LEVEL {
        if !present.contains(name) {
            wrong.push(format!("{name} is missing"));
        }
    }
    none("The top level is fixed (ARCHITECTURE.md).", &wrong);
}

#[test]
fn surf_is_kept_in_its_one_file() {
    let path = concat!("su", "rf::");
    let found = lines_that(&repository::rust().unwrap(), |file, line| {
        file != Path::new("shell-smol/src/coordinator.rs") && line.contains(path)
    });
    none("surf is used in shell-smol/src/coordinator.rs only, where its faults are fenced in.", &found);
}

#[test]
fn every_limit_is_kept_and_tested() {
    let limits = fs::read_to_string(repository::root().join("core/src/limits.rs")).unwrap();
    let names: Vec<&str> = limits
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ").and_then(|rest| rest.split(':').next()))
        .map(str::trim)
        .collect();
    assert!(!names.is_empty(), "no limit found in core/src/limits.rs: has its form changed?");

    let (mut product, mut tests) = (String::new(), String::new());
    for (file, text) in repository::rust().unwrap() {
        if file == Path::new("core/src/limits.rs") {
            continue;
        }
        let kept_there = PRODUCT.iter().any(|place| file.starts_with(place));
        if kept_there && !repository::is_test_file(&file) {
            let (code, of_tests) = repository::split_tests(&text);
            product.extend(code.iter().flat_map(|(_, line)| [line, "\n"]));
            tests.extend(of_tests.iter().flat_map(|(_, line)| [line, "\n"]));
        } else if repository::is_test_file(&file) {
            tests.push_str(&text);
        }
    }
    let mut wrong = Vec::new();
    for name in names {
        if !repository::has_word(&product, name) {
            wrong.push(format!("{name} is used nowhere in core, driver or a shell"));
        }
        if !repository::has_word(&tests, name) {
            wrong.push(format!("{name} is named in no test: test at the limit and one past it"));
        }
    }
    none("Every limit of core/src/limits.rs is kept by core, driver or the shells and tested by its name.", &wrong);
}

#[test]
fn no_secret_can_be_printed() {
    let mut found = Vec::new();
    for (file, text) in repository::rust().unwrap() {
        if !["core/src", "core/driver", "shell-tokio", "shell-smol"].iter().any(|place| file.starts_with(place)) {
            continue;
        }
        found.extend(printable_secrets(&text).into_iter().map(|(number, line)| at(&file, number, line)));
    }
    none("A secret in a type with a derived Debug is a `Secret`, not a text.", &found);

    let secret = fs::read_to_string(repository::root().join("core/src/secret.rs")).unwrap();
    let (mut derived, mut structs) = (String::new(), 0);
    for line in secret.lines() {
        if line.starts_with("#[derive(") {
            line.clone_into(&mut derived);
        } else if line.contains("struct ") && !line.trim_start().starts_with("//") {
            structs += 1;
            for shows in ["Debug", "Display", "Serialize"] {
                assert!(!repository::has_word(&derived, shows), "core/src/secret.rs derives {shows}: {line}");
            }
            derived.clear();
        }
    }
    assert!(structs > 0, "core/src/secret.rs holds no type: where have the secrets gone?");
}

/// Fields of types with a derived Debug whose name speaks of a secret and whose type is a text.
fn printable_secrets(text: &str) -> Vec<(usize, &str)> {
    let (mut derives_debug, mut inside) = (false, false);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.trim();
        if code.starts_with("#[derive(") {
            derives_debug = repository::has_word(code, "Debug");
        } else if code.contains("struct ") || code.contains("enum ") {
            inside = std::mem::take(&mut derives_debug) && code.ends_with('{');
        } else if line == "}" {
            inside = false;
        } else if inside && let Some((name, kind)) = code.strip_suffix(',').and_then(|field| field.split_once(": ")) {
            let name = name.rsplit(' ').next().unwrap_or_default();
            let secret = ["secret", "password", "credential", "passphrase", "api_key"].iter().any(|s| name.contains(s));
            let a_text = repository::has_word(kind, "String") || repository::has_word(kind, "str");
            if secret && a_text {
                found.push((number + 1, line));
            }
        }
    }
    found
}

#[test]
fn a_printable_secret_would_be_found() {
    let leaky =
        "#[derive(Clone, Debug)]\npub struct A {\n    pub name: String,\n    pub api_secret: Option<String>,\n}\n";
    assert_eq!(printable_secrets(leaky), [(4, "    pub api_secret: Option<String>,")]);
    assert_eq!(printable_secrets(&leaky.replace("Option<String>", "Option<Secret>")), []);
    assert_eq!(printable_secrets(&leaky.replace(", Debug", "")), []);
}

/// Files that one shell has and the other does not, with the reason.
const ONE_SIDED: [(&str, &str); 5] = [
    ("shell-smol/src/alarm.rs", "timers that cost no system call, which tokio's are"),
    ("shell-smol/src/coordinator.rs", "the coordinator's REST by surf; on tokio it goes by the driver's own client"),
    ("shell-smol/src/socket.rs", "sockets that remember what the system said, which tokio's are"),
    ("shell-tokio/src/embedded.rs", "an axum application can hold the data plane; smol has no such framework"),
    (
        "shell-tokio/src/streams.rs",
        "tokio's traits of connections; smol's are those that the driver has an adapter for",
    ),
];

/// Lines of all of a shell's code, its tests included.
const MOST_LINES_OF_A_SHELL: usize = 1_000;

#[test]
fn both_shells_are_thin_and_have_the_same_files() {
    let folder = |shell: &str| -> BTreeSet<PathBuf> {
        let source = Path::new(shell).join("src");
        let one_sided = |file: &Path| ONE_SIDED.iter().any(|(name, _)| Path::new(name) == file);
        let (mut own, mut lines) = (BTreeSet::new(), 0);
        for (file, text) in repository::rust().unwrap() {
            let Ok(name) = file.strip_prefix(&source) else { continue };
            lines += text.lines().count();
            if !one_sided(&file) {
                own.insert(name.to_owned());
            }
            assert!(!text.contains("#[path"), "{}: what both shells need stands in core/driver", file.display());
        }
        assert!(lines <= MOST_LINES_OF_A_SHELL, "{shell}: {lines} lines: what any runtime needs stands in core/driver");
        own
    };
    let (tokio, smol) = (folder("shell-tokio"), folder("shell-smol"));
    assert!(tokio.contains(Path::new("executor.rs")), "{tokio:?}");
    assert_eq!(tokio, smol, "shell-tokio/src and shell-smol/src hold the same files, one for one");
    for (file, _) in ONE_SIDED {
        assert!(repository::root().join(file).is_file(), "{file} is gone: take it off the list");
    }
}

#[test]
fn every_package_follows_the_workspace() {
    let mut wrong = Vec::new();
    for package in ["core", "core/driver", "shell-tokio", "shell-smol", "fixtures", "tests"] {
        let manifest = fs::read_to_string(repository::root().join(package).join("Cargo.toml")).unwrap();
        if !manifest.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{package}/Cargo.toml does not take the workspace's lints"));
        }
        let mut section = "";
        for (number, line) in manifest.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            // A version of its own: `name = "1"` or `name = { version = "1" }`.
            let own = line.contains("version = ") || line.split_once(" = ").is_some_and(|(_, v)| v.starts_with('"'));
            if section.ends_with("dependencies]") && own {
                wrong.push(at(&Path::new(package).join("Cargo.toml"), number + 1, line));
            }
        }
    }
    none("Versions and lints are set in the workspace's Cargo.toml only.", &wrong);
}
