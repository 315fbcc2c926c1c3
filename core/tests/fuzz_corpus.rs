//! Replays the committed fuzz corpus through the checks of the fuzz targets (see `fuzz/README.md`).
#![cfg(feature = "appproxy-common")]
#![expect(clippy::disallowed_methods, reason = "the core reads no files; this test of it reads the corpus")]

#[path = "../../fuzz/src/checks.rs"]
#[allow(missing_docs, unreachable_pub)]
mod checks;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::envelope::decode;
use appproxy_core::wire::event::Decoded;
use appproxy_core::wire::snapshot::parse_snapshot;

fn corpus(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(path)
}

#[test]
fn every_file_of_the_corpus_passes() {
    for (target, check) in checks::TARGETS {
        let mut files: Vec<_> =
            fs::read_dir(corpus(target)).expect(target).map(|entry| entry.expect(target).path()).collect();
        files.sort();
        assert!(files.len() >= 8, "{target} has only {} files", files.len());
        for file in files {
            let bytes = fs::read(&file).expect("a readable file");
            assert!(catch_unwind(|| check(&bytes)).is_ok(), "{target} fails on {}", file.display());
        }
    }
}

/// The corpus must reach the readers, not only their refusals.
#[test]
fn the_corpus_holds_good_input_too() {
    let read = |path: &str| fs::read(corpus(path)).expect("a readable file");
    for name in ["created_args", "created_payload", "routes_payload", "model_updated_text", "key_removed_args"] {
        let decoded = decode(&read(&format!("bus_envelope/{name}.json")), "worker01");
        assert!(matches!(&decoded, Decoded::Event(event) if event.malformed.is_empty()), "{name}: {decoded:?}");
    }
    let snapshot = parse_snapshot(&read("snapshot_body/example.json")).expect("good");
    assert_eq!((snapshot.models.good.len(), snapshot.keys.good.len()), (1, 1));
    let circuits = parse_circuits_answer(&read("circuits_body/two.json")).expect("good");
    assert_eq!((circuits.good.len(), circuits.malformed.len()), (2, 0));
}
