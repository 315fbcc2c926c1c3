//! The core stays pure: nothing it is built from waits, asks a clock, rolls dice or touches the outside. The driver waits,
//! and knows no runtime.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use appproxy_tests::repository;

/// Packages, and beginnings of their names (with a star), that have no place below the core.
const IMPURE: [(&str, &str); 38] = [
    ("actix*", "a runtime"),
    ("async-*", "a runtime"),
    ("blocking", "a runtime"),
    ("crossbeam*", "threads"),
    ("futures-executor", "a runtime"),
    ("futures-util", "async"),
    ("pollster", "a runtime"),
    ("rayon*", "threads"),
    ("smol", "a runtime"),
    ("smol-*", "a runtime"),
    ("tokio", "a runtime"),
    ("tokio-*", "a runtime"),
    ("axum*", "an HTTP server"),
    ("curl*", "an HTTP client"),
    ("h2", "an HTTP stack"),
    ("hyper", "an HTTP stack"),
    ("hyper-*", "an HTTP stack"),
    ("isahc", "an HTTP client"),
    ("reqwest*", "an HTTP client"),
    ("surf", "an HTTP client"),
    ("ureq", "an HTTP client"),
    ("mio", "sockets"),
    ("native-tls", "TLS"),
    ("polling", "sockets"),
    ("redis", "a Redis client"),
    ("fred", "a Redis client"),
    ("rustls*", "TLS"),
    ("socket2", "sockets"),
    ("chrono", "a clock"),
    ("time", "a clock"),
    ("quanta", "a clock"),
    ("web-time", "a clock"),
    ("iana-time-zone", "the machine's settings"),
    ("fastrand", "randomness"),
    ("getrandom", "randomness"),
    ("rand", "randomness"),
    ("rand_*", "randomness"),
    ("tempfile", "files"),
];

/// What core's product code does not name, with the reason.
const FORBIDDEN: [(&str, &str); 16] = [
    ("std::time::Instant", "time comes in as `Now`"),
    ("SystemTime", "time comes in as `Now`"),
    ("Timestamp::now", "time comes in as `Now`"),
    ("std::net", "addresses come from core::net; sockets belong to a shell"),
    ("std::thread", "no threads in the core"),
    ("thread_local", "no hidden state in the core"),
    ("std::env", "settings come in as values"),
    ("std::fs", "bytes come in as values"),
    ("std::process", "the core starts and ends nothing"),
    ("std::io::stdin", "bytes come in as values"),
    ("HashMap", "its order differs from run to run: BTreeMap, or a persistent map with a fixed hasher"),
    ("HashSet", "its order differs from run to run: BTreeSet, or a persistent set with a fixed hasher"),
    ("RandomState", "seeded by the machine: take a fixed hasher"),
    ("new_v4", "ids are made from the seed"),
    ("async", "the core waits for nothing"),
    ("await", "the core waits for nothing"),
];

/// What `cargo tree` lists with `arguments`, a package or a feature a line.
fn cargo_tree(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listed = Command::new(cargo)
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p}"])
        .args(arguments)
        .current_dir(repository::root())
        .stdin(Stdio::null())
        .output()
        .expect("cargo can be run");
    assert!(listed.status.success(), "cargo tree: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

/// The names of all packages `cargo tree` lists with `arguments`.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let names: BTreeSet<String> =
        cargo_tree(arguments).lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.len() > 3, "cargo tree listed next to nothing: {names:?}");
    names
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

fn impure(names: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        found.extend(
            IMPURE.iter().filter(|(pattern, _)| matches(pattern, name)).map(|(_, what)| format!("{name}: {what}")),
        );
    }
    found
}

#[test]
fn the_core_is_built_from_nothing_that_waits_or_rolls_dice() {
    let names = tree(&["-p", "appproxy-core", "-e", "normal", "--all-features", "--target", "all"]);
    assert!(names.contains("serde"), "{names:?}");
    assert_eq!(impure(&names), Vec::<String>::new(), "below appproxy-core stands what has no place there");
}

#[test]
fn an_impure_package_would_be_found() {
    let names = ["serde", "tokio", "tokio-util", "timer", "rand_core", "time"].map(str::to_owned).into();
    assert_eq!(impure(&names), ["rand_core: randomness", "time: a clock", "tokio: a runtime", "tokio-util: a runtime"]);
}

#[test]
fn the_common_protocol_carries_nothing_of_the_legacy_worker() {
    let common = ["-p", "appproxy-core", "-e", "normal", "--no-default-features", "--features"];
    let names = tree(&[&common[..], &["appproxy-common"]].concat());
    assert!(!names.contains("hmac"), "appproxy-common alone brings hmac, which only access tokens need");
    let names = tree(&[&common[..], &["appproxy-router"]].concat());
    assert!(!names.contains("hmac"), "appproxy-router alone brings hmac, which only access tokens need");
    let names = tree(&[&common[..], &["appproxy-legacy"]].concat());
    assert!(names.contains("hmac"), "appproxy-legacy is looked at wrongly: it does need hmac");
}

#[test]
fn the_shells_bring_one_tls_and_no_foreign_code_for_it() {
    for shell in ["appproxy-shell-tokio", "appproxy-shell-smol"] {
        let names = tree(&["-p", shell, "-e", "normal,build", "--all-features", "--target", "all"]);
        let foreign = ["aws-lc-rs", "aws-lc-sys", "aws-lc-fips-sys", "openssl", "openssl-sys", "native-tls"];
        let found: Vec<_> = foreign.iter().filter(|name| names.contains(**name)).collect();
        assert!(found.is_empty(), "{shell} brings {found:?}; rustls with ring is all there is");
    }
}

/// What carries tokio's types in the tree of the smol shell, with the reason. None of it starts a runtime.
const CARRIES_TOKIO: [(&str, &str); 11] = [
    ("tokio feature \"default\"", "it is empty"),
    ("tokio feature \"sync\"", "hyper hands requests over in its channels, which need no runtime"),
    ("tokio feature \"time\"", "deadpool, below surf, names its timers; we keep no connections, so no pool runs"),
    ("tokio-util feature \"default\"", "it is empty"),
    ("tokio-util feature \"codec\"", "the codec of the redis crate, over whatever stream it is given"),
    ("tokio-util feature \"io\"", "the same"),
    ("tokio-util feature \"libc\"", "the same"),
    ("combine feature \"tokio\"", "the parser of the redis crate reads from that codec"),
    ("combine feature \"tokio-dep\"", "the same"),
    ("combine feature \"tokio-util\"", "the same"),
    ("redis feature \"tokio-util\"", "the same"),
];

/// What has no place below the driver: a runtime, its sockets, its TLS.
const RUNTIMES: [&str; 16] = [
    "async-executor",
    "async-global-executor",
    "async-io",
    "async-net",
    "async-std",
    "axum",
    "blocking",
    "futures-executor",
    "futures-rustls",
    "hyper-util",
    "mio",
    "polling",
    "smol",
    "surf",
    "tokio-rustls",
    "tokio-macros",
];

#[test]
fn the_driver_is_built_from_no_runtime() {
    let names = tree(&["-p", "appproxy-driver", "-e", "normal,build", "--all-features"]);
    assert!(names.contains("hyper") && names.contains("redis"), "{names:?}");
    let found: Vec<_> = RUNTIMES.iter().filter(|name| names.contains(**name)).collect();
    assert!(found.is_empty(), "{found:?} below appproxy-driver: whoever implements `Runtime` brings it");
    let found = features_of_tokio("appproxy-driver");
    let known = CARRIES_TOKIO.iter().filter(|(_, why)| !why.contains("surf")).map(|(feature, _)| (*feature).to_owned());
    assert_eq!(
        found,
        known.collect(),
        "a feature of tokio is on below the driver; only what is listed may carry its types"
    );
}

#[test]
fn the_driver_names_no_runtime() {
    let runtimes = ["tokio", "smol", "async_io", "async_executor", "async_std", "hyper_util", "axum", "futures_rustls"];
    let mut found = Vec::new();
    for (file, text) in repository::rust().unwrap() {
        if !file.starts_with("core/driver/src") || repository::is_test_file(&file) {
            continue;
        }
        // The journal has a thread of its own whatever the runtime is: a disk may stand still for long.
        let threads = (file != Path::new("core/driver/src/journal.rs")).then_some("std::thread");
        for (number, line) in repository::split_tests(&text).0 {
            let named = runtimes.iter().copied().chain(threads).filter(|name| repository::has_word(line, name));
            found.extend(named.map(|name| format!("{}:{number}: {name}", file.display())));
        }
    }
    assert!(found.is_empty(), "core/driver/src runs on whatever it is given\n  {}", found.join("\n  "));
}

/// The features of tokio, and of others for its sake, that are on below a package.
fn features_of_tokio(package: &str) -> BTreeSet<String> {
    let lines = cargo_tree(&["-p", package, "-e", "features,normal,build", "--all-features"]);
    let of_tokio = |line: &&str| line.contains(" feature \"") && line.contains("tokio");
    lines.lines().map(|line| line.trim_end_matches(" (*)")).filter(of_tokio).map(str::to_owned).collect()
}

#[test]
fn the_smol_shell_starts_no_tokio() {
    let found = features_of_tokio("appproxy-shell-smol");
    let known: BTreeSet<String> = CARRIES_TOKIO.iter().map(|(feature, _)| (*feature).to_owned()).collect();
    assert_eq!(found, known, "a feature of tokio is on below the smol shell; only what is listed may carry its types");
    let names = tree(&["-p", "appproxy-shell-smol", "-e", "normal,build", "--all-features"]);
    for (name, why) in
        [("hyper-util", "it brings tokio's sockets"), ("axum", "it runs on tokio"), ("mio", "tokio's sockets")]
    {
        assert!(!names.contains(name), "{name} is below the smol shell: {why}");
    }
    for (name, why) in [("surf", "an HTTP client of the smol shell"), ("async-io", "smol's sockets")] {
        let names = tree(&["-p", "appproxy-shell-tokio", "-e", "normal,build", "--all-features"]);
        assert!(!names.contains(name), "{name} is below the tokio shell: {why}");
    }
}

#[test]
fn the_core_names_nothing_outside_of_itself() {
    let mut found = Vec::new();
    for (file, text) in repository::rust().unwrap() {
        if !file.starts_with("core/src") || repository::is_test_file(&file) {
            continue;
        }
        for (number, line) in repository::split_tests(&text).0 {
            for (name, why) in forbidden(line) {
                found.push(format!("{}:{number}: {name}: {why}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "core/src\n  {}", found.join("\n  "));
}

fn forbidden(line: &str) -> Vec<(&'static str, &'static str)> {
    // `use std::{net, time::Instant}` names the same things in pieces.
    let (code, _comment) = line.split_once(" // ").unwrap_or((line, ""));
    let grouped = code.trim_start().strip_prefix("use std::{").unwrap_or_default();
    let named = |(name, _): &&(&str, &str)| {
        let last = name.rsplit("::").next().unwrap_or(name);
        let in_group = name.starts_with("std::") && repository::has_word(grouped, last);
        // Words within a text are no names.
        let bare = code.split('"').step_by(2).any(|part| repository::has_word(part, name));
        bare || in_group
    };
    FORBIDDEN.iter().filter(named).copied().collect()
}

#[test]
fn a_forbidden_name_would_be_found() {
    let names = |line| forbidden(line).iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(names("use std::net::TcpStream;"), ["std::net"]);
    assert_eq!(names("use std::{collections::BTreeMap, fs};"), ["std::fs"]);
    assert_eq!(names("let map: HashMap<u8, u8> = made();"), ["HashMap"]);
    assert_eq!(names("let text = \"await\"; // async"), Vec::<&str>::new());
    assert_eq!(names("use rpds::HashTrieMap;"), Vec::<&str>::new());
}
