//! Writes lines.

use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

use super::super::Worker;
use super::super::answers::{kept, mask, mask_all, mask_report};
use super::super::call::{CallEnded, CallOutcome, CallResponse, TransportFailure};
use super::super::calls::Purpose;
use super::super::input::Input;
use super::changed::{Gone, Listed};
use super::line::{Ended, Head, Line};
use crate::time::Now;
use crate::wire::circuit::{Echo, ReceivedCircuit};
use crate::wire::event::{BusEvent, EventKind};
use crate::wire::register::error_text;

/// Writes one journal, line by line. Lines come without their line break.
#[derive(Debug, Default)]
pub struct Recorder {
    number: u64,
    /// Of every kind of answer, the last one that could be read.
    written: BTreeMap<Purpose, Written>,
}

#[derive(Debug)]
struct Written {
    /// Of its body as it came.
    hash: [u8; 32],
    /// The input that brought it.
    number: u64,
    listed: Listed,
}

impl Recorder {
    /// A journal, and its first line.
    ///
    /// # Errors
    /// When the head cannot be written as JSON.
    pub fn begin(head: &Head) -> serde_json::Result<(Self, String)> {
        Ok((Self { number: head.after, written: BTreeMap::new() }, serde_json::to_string(head)?))
    }

    /// How many inputs were recorded, those of earlier parts included.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The line for `input`, which `worker` is about to be given at `now`.
    ///
    /// # Errors
    /// When the input cannot be written as JSON.
    pub fn line(&mut self, worker: &Worker, input: &Input, now: Now) -> serde_json::Result<String> {
        let n = self.number + 1;
        let line = match input {
            Input::CallEnded(ended) => Line { n, at: now, input: None, call: Some(self.ended(worker, ended, n)?) },
            other => Line { n, at: now, input: Some(replaced(other)?), call: None },
        };
        let line = serde_json::to_string(&line)?;
        self.number = n;
        Ok(line)
    }

    fn ended(&mut self, worker: &Worker, ended: &CallEnded, n: u64) -> serde_json::Result<Ended> {
        let purpose = worker.calls.purpose(ended.id);
        let mut line = Ended {
            id: ended.id,
            purpose,
            status: None,
            failed: None,
            read: None,
            since: None,
            gone: None,
            same_as: None,
        };
        match &ended.outcome {
            CallOutcome::Failed(failure) => line.failed = Some(without_hashes(failure)),
            CallOutcome::Answered(response) => {
                line.status = Some(response.status);
                if let Some(purpose) = purpose {
                    self.answer(worker, purpose, response, n, &mut line)?;
                }
            }
        }
        Ok(line)
    }

    fn answer(
        &mut self,
        worker: &Worker,
        purpose: Purpose,
        response: &CallResponse,
        n: u64,
        line: &mut Ended,
    ) -> serde_json::Result<()> {
        if response.status != 200 {
            line.read = Some(error_object(&response.body.0)?);
            return Ok(());
        }
        let hash: [u8; 32] = Sha256::digest(&response.body.0).into();
        if let Some(written) = self.written.get(&purpose).filter(|written| written.hash == hash) {
            line.same_as = Some(written.number);
            return Ok(());
        }
        match kept(purpose, &response.body, &worker.config.authority) {
            None => {}
            Some(Err(malformed)) => line.read = Some(to_raw_value(&Err::<(), _>(malformed))?),
            Some(Ok(mut answer)) => {
                let mut before = self.written.remove(&purpose);
                line.since = before.as_ref().map(|before| before.number).filter(|_| purpose != Purpose::Register);
                let mut listed = before.as_mut().map(|before| core::mem::take(&mut before.listed)).unwrap_or_default();
                line.gone = Some(listed.reduce(&mut answer)?).filter(|gone| *gone != Gone::default());
                line.read = Some(to_raw_value(&Ok::<_, ()>(answer))?);
                self.written.insert(purpose, Written { hash, number: n, listed });
            }
        }
        Ok(())
    }
}

/// An error answer that says to an operator what this one says.
fn error_object(body: &[u8]) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&BTreeMap::from([("title", mask(&error_text(body)))]))
}

fn without_hashes(failure: &TransportFailure) -> TransportFailure {
    match failure {
        TransportFailure::Tls(text) => TransportFailure::Tls(mask(text)),
        TransportFailure::Other(text) => TransportFailure::Other(mask(text)),
        other => other.clone(),
    }
}

/// The input without secrets.
fn replaced(input: &Input) -> serde_json::Result<Input> {
    Ok(match input {
        Input::BusLost(why) => Input::BusLost(mask(why)),
        Input::BusMalformed(malformed) => {
            let mut malformed = malformed.clone();
            mask_report(&mut malformed);
            Input::BusMalformed(malformed)
        }
        Input::Bus(event) => Input::Bus(without_echo(event.clone())?),
        other => other.clone(),
    })
}

fn without_echo(mut event: BusEvent) -> serde_json::Result<BusEvent> {
    mask_all(&mut event.malformed);
    if let EventKind::CircuitsCreated(circuits) = &mut event.kind {
        drop_echoes(circuits)?;
    }
    Ok(event)
}

/// Replaces what came with what may be kept of it.
pub(super) fn drop_echoes(circuits: &mut [ReceivedCircuit]) -> serde_json::Result<()> {
    for received in circuits {
        received.echo = Echo::new(to_raw_value(&BTreeMap::from([("id", received.circuit.id)]))?);
    }
    Ok(())
}
