//! Replays the committed fuzz corpus through the checks of the fuzz targets (see `fuzz/README.md`).
#![cfg(feature = "appproxy-router")]
#![expect(clippy::disallowed_methods, reason = "the core reads no files; this test of it reads the corpus")]

#[path = "../../fuzz/src/checks/mod.rs"]
#[allow(missing_docs, unreachable_pub)]
mod checks;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use appproxy_core::exchange::peek;
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::envelope::decode;
use appproxy_core::wire::event::Decoded;
use appproxy_core::wire::snapshot::parse_snapshot;

fn corpus(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(path)
}

#[test]
fn every_file_of_the_corpus_passes() {
    for (target, check) in checks::TARGETS.iter().copied() {
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
    for name in ["chat", "chat_stream_proxy", "v6_proxy", "alias_operator", "form", "hop_by_hop"] {
        assert!(checks::sent_to(&read(&format!("request_head/{name}"))).is_some(), "{name} is sent to a replica");
    }
    assert!(peek::json(&read("model_peek/plain.json")).is_ok());
    for (name, whole) in [("lengths", 3), ("chunks", 2), ("trailers", 2), ("extensions", 1), ("half_chunk", 1)] {
        assert_eq!(checks::requests(&read(&format!("request_framing/{name}"))), whole, "{name}");
    }
    for name in ["length", "chunks", "until_close", "interim", "switch", "bare_lf", "sse"] {
        assert!(checks::answered(&read(&format!("replica_answer/{name}"))), "{name}");
    }
    #[cfg(feature = "appproxy-legacy")]
    for (name, good) in [("good", true), ("leeway", true), ("fraction", true), ("ended", false), ("no_end", false)] {
        assert_eq!(checks::good(&read(&format!("access_token/{name}"))), good, "{name}");
    }
    for (name, output) in [
        ("join", r#""added":["appproxy-"#),
        ("join", r#""generation":1"#),
        ("acks_before_apply", r#"{"command":{"send_ack":"#),
        ("key_notice", r#"about":"key k1""#),
        ("ack_fails", "ack_retry"),
        ("forgotten", "row_lost"),
        ("leave", r#""method":"DELETE""#),
        ("leave", r#""stop""#),
    ] {
        let outputs = checks::driven(&read(&format!("control_plane/{name}")));
        assert!(outputs.iter().any(|line| line.contains(output)), "{name}: no {output} in {outputs:#?}");
    }
}
