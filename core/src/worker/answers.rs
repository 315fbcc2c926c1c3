//! What the coordinator answered, read: from its own bodies, or from the form in which a journal keeps them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::CallBody;
use super::calls::Purpose;
use crate::desired::pseudonymised;
use crate::wire::circuit::{Circuit, parse_circuits_answer};
use crate::wire::malformed::{Elements, Malformed, MalformedKind};
use crate::wire::register::{RegisterAnswer, parse_register_answer};
use crate::wire::snapshot::{Snapshot, parse_snapshot};

/// Which form the bodies of answers with status 200 have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The coordinator's.
    Coordinator,
    /// The journal's: what was read of the coordinator's, as [`kept`] wrote it.
    Journal,
}

impl Answers {
    pub(super) fn registration(self, body: &CallBody) -> Result<RegisterAnswer, Malformed> {
        self.read(body, parse_register_answer)
    }

    pub(super) fn circuits(self, body: &CallBody) -> Result<Elements<Circuit>, Malformed> {
        self.read(body, parse_circuits_answer)
    }

    pub(super) fn snapshot(self, body: &CallBody) -> Result<Snapshot, Malformed> {
        self.read(body, parse_snapshot)
    }

    fn read<T: DeserializeOwned>(
        self,
        body: &CallBody,
        parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        match self {
            Self::Coordinator => parse(&body.0),
            Self::Journal => read_kept(&body.0).unwrap_or_else(|error| {
                Err(Malformed::new(
                    MalformedKind::RestBody,
                    "journal",
                    format!("not an answer as a journal has it: {error}"),
                ))
            }),
        }
    }
}

fn read_kept<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<Result<T, Malformed>> {
    serde_json::from_slice(json)
}

/// An answer with status 200, as far as it is read. Its serialised form is that of what it holds.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Registration(RegisterAnswer),
    Circuits(Elements<Circuit>),
    Config(Box<Snapshot>),
}

/// What a journal keeps of an answer with status 200: all that is read of it and nothing else, hashes replaced by their
/// pseudonyms. `None` for an answer that is not read.
pub(super) fn kept(purpose: Purpose, body: &CallBody, authority: &str) -> Option<Result<Answer, Malformed>> {
    let answer = match purpose {
        Purpose::Register => parse_register_answer(&body.0).map(Answer::Registration),
        Purpose::Circuits => parse_circuits_answer(&body.0).map(|mut answer| {
            mask_all(&mut answer.malformed);
            Answer::Circuits(answer)
        }),
        Purpose::RouterConfig => parse_snapshot(&body.0).map(|mut snapshot| {
            hide_hashes(&mut snapshot, authority);
            Answer::Config(Box::new(snapshot))
        }),
        Purpose::Heartbeat | Purpose::Deregister => return None,
    };
    Some(answer.map_err(|mut malformed| {
        mask_report(&mut malformed);
        malformed
    }))
}

/// Reads what [`kept`] made, as a journal has it.
pub(super) fn read(purpose: Purpose, json: &[u8]) -> serde_json::Result<Option<Result<Answer, Malformed>>> {
    Ok(match purpose {
        Purpose::Register => Some(read_kept(json)?.map(Answer::Registration)),
        Purpose::Circuits => Some(read_kept(json)?.map(Answer::Circuits)),
        Purpose::RouterConfig => Some(read_kept(json)?.map(|snapshot| Answer::Config(Box::new(snapshot)))),
        Purpose::Heartbeat | Purpose::Deregister => None,
    })
}

/// Puts pseudonyms in the place of hashes.
pub(super) fn hide_hashes(snapshot: &mut Snapshot, authority: &str) {
    let Snapshot { models, keys, forgiven, .. } = snapshot;
    for reports in [&mut models.malformed, &mut keys.malformed, forgiven] {
        mask_all(reports);
    }
    for key in &mut keys.good {
        key.token_hash = pseudonymised(authority, &key.token_hash);
    }
}

/// Takes out of reports what might be a hash.
pub(super) fn mask_all(reports: &mut [Malformed]) {
    reports.iter_mut().for_each(mask_report);
}

pub(super) fn mask_report(report: &mut Malformed) {
    for text in [Some(&mut report.path), report.id.as_mut(), Some(&mut report.problem)].into_iter().flatten() {
        *text = mask(text);
    }
}

/// Free text without what might be (most of) a hash: runs of 32 hex digits and more. Masking twice is masking once.
pub(super) fn mask(text: &str) -> String {
    const RUN: usize = 32;
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if run >= RUN {
            masked.push_str("[hex]");
        } else {
            masked.push_str(rest.get(..run).unwrap_or_default());
        }
        rest = rest.get(run..).unwrap_or_default();
        let plain = rest.find(|c: char| c.is_ascii_hexdigit()).unwrap_or(rest.len());
        masked.push_str(rest.get(..plain).unwrap_or_default());
        rest = rest.get(plain..).unwrap_or_default();
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_hex_digits_are_masked_and_the_rest_is_not() {
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(mask(&format!("key {hash}: 한 {}", &hash[..31])), format!("key [hex]: 한 {}", &hash[..31]));
        assert_eq!(mask(&hash[..32]), "[hex]");
        assert_eq!(mask(""), "");
        assert_eq!(mask("0a0a0a0a-0000-4000-8000-000000000001"), "0a0a0a0a-0000-4000-8000-000000000001");
        assert_eq!(mask(&mask(&hash)), mask(&hash));
    }
}
