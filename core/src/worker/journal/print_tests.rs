use super::*;

use crate::seed::Seed;
use crate::serving::ServingSettings;
use crate::time::Now;
use crate::worker::journal::{Head, Recorder, VERSION};
use crate::worker::{Input, Output, Worker};

/// A journal of these inputs, from input 11 on.
fn journal(inputs: Vec<Input>) -> String {
    let text = "appproxy_router: {enabled: true, coordinator_url: \"http://127.0.0.1:1\", api_secret: s, \
                authority: a, hostname: h, redis_url: \"redis://127.0.0.1:1\"}";
    let config = crate::config::load(text, &|_| None).unwrap().config.worker.unwrap();
    let (serving, seed, now) = (ServingSettings::default(), Seed::from_number(1), Now::default());
    let mut worker = Worker::new(config.clone(), &serving, seed, now);
    let head =
        Head { journal: VERSION, program: "test".into(), seed, start: now, config, serving, after: 0, state: None };
    let (mut recorder, mut text) = Recorder::begin(&head.resumed(&worker, 10).unwrap()).unwrap();
    let last = 10 + inputs.len() as u64;
    for input in inputs {
        text = format!("{text}\n{}", recorder.line(&worker, &input, now).unwrap());
        worker.handle_input(input, now);
        while !matches!(worker.poll_output(), Output::Wait(_)) {}
    }
    assert_eq!(recorder.number(), last);
    text + "\n"
}

fn shown(text: &str, show: Show) -> Result<(String, Option<String>), String> {
    let mut out = Vec::new();
    let (last, cut) = print(text.as_bytes(), show, &mut out)?;
    Ok((String::from_utf8(out).unwrap() + &last, cut))
}

#[test]
fn outputs_end_where_they_are_told_to() {
    let text = journal(vec![Input::Started, Input::BusUp, Input::Tick]);
    let all = shown(&text, Show::Outputs(None)).unwrap();
    assert_eq!(all.1, None);
    let expected = "# input 11 at 1970-01-01T00:00:00Z: started\n{\"command\":\"subscribe\"}\n\
                    {\"wait\":{\"at\":2000,\"reason\":\"bus_wait\"}}\n# input 12 at 1970-01-01T00:00:00Z: bus up\n{\"command\":{\"call\":";
    assert!(all.0.starts_with(expected), "{}", all.0);
    assert!(all.0.ends_with("# 3 inputs replayed"), "{}", all.0);
    let some = shown(&text, Show::Outputs(Some(11))).unwrap().0;
    assert!(some.ends_with("# 1 inputs replayed") && !some.contains("# input 12"), "{some}");
}

#[test]
fn inputs_that_are_not_there_are_named() {
    let text = journal(vec![Input::Started]);
    let beyond = "there is no input 12: this journal holds inputs 11 to 11";
    for show in [Show::State(Some(12)), Show::Outputs(Some(12)), Show::Difference(10, 12), Show::Difference(12, 12)] {
        assert_eq!(shown(&text, show).unwrap_err(), beyond, "{show:?}");
    }
    let mut out = Vec::new();
    print(text.as_bytes(), Show::Outputs(Some(12)), &mut out).unwrap_err();
    assert!(out.starts_with(b"# input 11 "), "what there is was written");
    assert_eq!(
        shown(&journal(Vec::new()), Show::Outputs(Some(11))).unwrap_err(),
        "there is no input 11: this journal holds none after input 10"
    );
    let two = shown(&journal(vec![Input::Started, Input::BusUp]), Show::State(Some(13))).unwrap_err();
    assert!(two.ends_with("holds inputs 11 to 12"), "{two}");
    let older = "input 9 is in an older part; this one begins after input 10";
    assert_eq!(shown(&text, Show::State(Some(9))).unwrap_err(), older);
    assert_eq!(shown(&text, Show::Difference(9, 11)).unwrap_err(), older);
    assert!(shown(&text, Show::Difference(11, 11)).unwrap().0.contains("nothing differs"));
    assert!(shown(&text, Show::Difference(11, 10)).unwrap_err().contains("must not come after"));
    assert!(shown(&text, Show::State(Some(10))).unwrap().0.contains("\"lifecycle\": \"idle\""));
    assert!(shown(&text, Show::Difference(10, 11)).unwrap().0.contains("now \"awaiting_bus\""));
    assert_eq!(shown("", Show::State(None)).unwrap_err(), "an empty file is no journal");
}

#[test]
fn only_the_last_line_may_be_cut() {
    let text = journal(vec![Input::Started, Input::BusUp]);
    let (shown_text, cut) = shown(&text[..text.len() - 5], Show::Outputs(None)).unwrap();
    assert!(shown_text.ends_with("# 1 inputs replayed"), "{shown_text}");
    assert!(cut.unwrap().starts_with("line 3 is cut"));
    let beyond = shown(&text[..text.len() - 5], Show::State(Some(12))).unwrap_err();
    assert!(beyond.starts_with("there is no input 12") && beyond.contains("line 3 is cut"), "{beyond}");
    // Whole but for its line break.
    assert_eq!(shown(&text[..text.len() - 1], Show::State(None)).unwrap().1, None);
    let damaged = text.replace("\"started\"", "\"startled\"");
    assert!(shown(&damaged, Show::Outputs(None)).unwrap_err().starts_with("line 2: not an input"));
}
