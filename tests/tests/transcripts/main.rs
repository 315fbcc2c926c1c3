//! One worker, told what happens line by line, and everything it answers, as a person reads it.
//!
//! Each `tests/scenarios/*.txt` is one case; `tests/scenarios/README.md` describes its form. What the worker answered
//! is the snapshot of the same name in `tests/scenarios/transcripts/`.

mod names;
mod script;
mod spelling;
mod stage;
mod telling;

/// So many at the least: the lifecycle, every row of the failure table, every rule of 3.3.
const LEAST: usize = 25;

#[test]
fn every_scenario_gives_its_transcript() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../scenarios/transcripts");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let (mut cases, mut unplayable) = (0, Vec::new());
    settings.bind(|| {
        insta::glob!("../../scenarios", "*.txt", |path| {
            let text = std::fs::read_to_string(path).unwrap();
            cases += 1;
            match script::run(&text) {
                Ok(transcript) => insta::assert_snapshot!("scenario", transcript),
                Err(wrong) => unplayable.push(format!("{}: {wrong}", path.display())),
            }
        });
    });
    assert!(unplayable.is_empty(), "{unplayable:#?}");
    assert!(cases >= LEAST, "only {cases} scenarios were found");
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_with_its_number() {
    for (line, says) in [
        ("sing", "there is no command `sing`"),
        ("answer circuits 200 [x1]", "`x1`"),
        ("answer circuits 200 []", "no call to circuits"),
        ("fail register sideways", "`sideways`"),
        ("pass soon", "`soon`"),
        ("event key_lost k", "there is no event `key_lost`"),
        ("with sugar", "there is no setting `sugar`"),
    ] {
        let wrong = script::run(&format!("# first\n{line}\n")).unwrap_err();
        assert!(wrong.starts_with("line 2: ") && wrong.contains(says), "{line}: {wrong}");
    }
}
