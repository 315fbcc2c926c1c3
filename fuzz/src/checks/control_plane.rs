//! The whole control plane.

use appproxy_core::desired::{Desired, Rules, reconcile};
use appproxy_core::limits;
use appproxy_core::serving::{Serving, ServingSettings};
use appproxy_core::worker::Worker;
use appproxy_core::worker::journal::Replay;

use super::drive::{AUTHORITY, Drive};

/// A worker driven by the bytes: every step keeps its promises, the view is what follows from the state at the end, and
/// the journal, replayed, gives the same outputs.
pub fn control_plane(bytes: &[u8]) {
    drop(driven(bytes));
}

/// The same; what the worker put out, one line each.
pub fn driven(bytes: &[u8]) -> Vec<String> {
    let mut drive = Drive::new(bytes);
    while drive.step() {
        let [calls, acks, notices, guards, probes] = drive.worker.held();
        assert!(calls <= 4, "{calls} calls at once");
        assert_eq!(probes, 0, "probes are off");
        assert!(acks <= limits::HELD_ACKS && notices <= limits::KEY_NOTICES && guards <= limits::GUARDS);
        let keys = drive.worker.desired().keys();
        for key in drive.removed() {
            assert!(!keys.contains_key(key), "{key} is served after its removal");
        }
    }
    sound_view(&drive.worker);
    replayed(&drive);
    drive.outputs
}

/// The view kept step by step is the one made whole.
fn sound_view(worker: &Worker) {
    let (desired, view) = (worker.desired(), worker.view());
    let whole = reconcile(desired, Rules::Router);
    assert!(view.backends().map(|backend| &**backend).eq(whole.backends.values()), "another set of backends");
    let mut fresh = Desired::new(AUTHORITY);
    fresh.replace_circuits(desired.circuits().clone());
    fresh.replace_publications(
        desired.publications().iter().map(|(name, one)| (name.clone(), (**one).clone())).collect(),
    );
    if desired.keys_loaded() {
        fresh.replace_keys(desired.keys().clone());
    }
    assert_eq!(fresh.digest(), view.digest(), "another digest");
    let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
    drop(serving.update(&fresh, &fresh.everything()));
    assert!(serving.view().published().eq(view.published()), "another set of names");
    assert_eq!(serving.view().counts(), view.counts());
    for key in desired.keys().values() {
        let held = view.keys_by_hash(&key.token_hash).iter().any(|record| *record.key_id() == key.key_id);
        assert!(held, "{} is not in the view", key.key_id);
    }
}

/// Same inputs, same outputs; and none of the journal is secret.
fn replayed(drive: &Drive<'_>) {
    let mut lines = drive.journal.lines();
    let mut replay = Replay::begin(lines.next().unwrap_or_default()).expect("a good head");
    let mut seen = drive.outputs.iter();
    for line in lines {
        let step = replay.feed(line).expect("a good line");
        for output in &step.outputs {
            assert_eq!(Some(output), seen.next(), "input {} is replayed differently", step.number);
        }
    }
    assert_eq!(seen.next(), None);
    assert_eq!(replay.worker().view().digest(), drive.worker.view().digest());
    for secret in ["marked-secret", &"01".repeat(32), &"02".repeat(32), &"03".repeat(32)] {
        assert!(!drive.journal.contains(secret), "{secret} is in the journal");
    }
}
