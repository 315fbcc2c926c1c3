//! The lines of a scenario (`tests/scenarios/README.md`).

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::wire::envelope;
use appproxy_core::wire::event::Decoded;
use appproxy_core::worker::{Input, TransportFailure};
use appproxy_fixtures::wire::{Dialect, Envelope, Field, event};
use serde_json::json;

use crate::names::identity;
use crate::spelling;
use crate::stage::{AUTHORITY, Habits, Stage, legacy_mode, router_config};

/// The transcript of a scenario, or the number of its first line that cannot be played and why.
pub(crate) fn run(scenario: &str) -> Result<String, String> {
    let mut script = Script {
        config: router_config(),
        habits: Habits { applies: true, acks: true, heartbeats: false },
        dialect: Dialect::Payload,
        request_id: None,
        remarks: Vec::new(),
        stage: None,
    };
    for (number, line) in scenario.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with('#') {
            script.remarks.push(line.to_owned());
            continue;
        }
        script.line(line).map_err(|wrong| format!("line {}: {wrong}", number + 1))?;
    }
    Ok(script.stage.map(Stage::transcript).unwrap_or_default())
}

struct Script {
    config: WorkerConfig,
    habits: Habits,
    dialect: Dialect,
    request_id: Option<String>,
    /// Read and not written down yet.
    remarks: Vec<String>,
    stage: Option<Stage>,
}

impl Script {
    fn stage(&mut self) -> &mut Stage {
        let (config, habits) = (&self.config, self.habits);
        self.stage.get_or_insert_with(|| Stage::new(config.clone(), habits))
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("at ") {
            let (time, command) = split(rest);
            let time = spelling::duration(time)?;
            self.stage().pass_until(time)?;
            return self.line(command);
        }
        let (command, rest) = split(line);
        if !["with", "pass", "await", "serving"].contains(&command) {
            self.remarks();
            self.stage().headline(&format!("> {line}"));
        }
        match command {
            "with" => return self.with(rest),
            "start" => self.stage().input(Input::Started),
            "bus" => self.bus(rest)?,
            "event" => self.event(rest)?,
            "answer" => self.answer(rest)?,
            "fail" => self.fail(rest)?,
            "await" => {
                self.remarks();
                self.stage().await_call(rest)?;
            }
            "pass" => {
                self.remarks();
                let time = spelling::duration(rest)?;
                self.stage().pass(time);
            }
            "wall" => {
                let (back, time) = rest.strip_prefix('-').map_or((false, rest), |time| (true, time));
                let millis = spelling::duration(time.trim_start_matches('+'))?.as_millis() as i64;
                self.stage().step_wall(if back { -millis } else { millis });
            }
            "applied" => self.stage().applied()?,
            "ack" if rest == "sent" || rest == "failed" => self.stage().ack(rest == "sent")?,
            "serving" => self.serving(rest)?,
            "tick" => self.stage().input(Input::Tick),
            "shutdown" => self.stage().input(Input::Shutdown),
            "drained" => self.stage().input(Input::Drained),
            _ => return Err(format!("there is no command `{line}`")),
        }
        Ok(())
    }

    /// The scenario's remarks stand in the transcript where they stand in it.
    fn remarks(&mut self) {
        for remark in core::mem::take(&mut self.remarks) {
            self.stage().remark(&remark);
        }
    }

    /// Settings; before the first command, but for `dialect` and `request-id`.
    fn with(&mut self, setting: &str) -> Result<(), String> {
        match split(setting) {
            ("request-id", id) => self.request_id = Some(id.to_owned()),
            ("dialect", "args") => self.dialect = Dialect::Args,
            ("dialect", "payload") => self.dialect = Dialect::Payload,
            ("dialect", "both") => self.dialect = Dialect::Both,
            _ if self.stage.is_some() => return Err("settings come before the first command".into()),
            ("events", "off") => (self.config.events_enabled, self.config.redis_url) = (false, None),
            ("mode", "legacy") => self.config.mode = legacy_mode(),
            ("applies", "by hand") => self.habits.applies = false,
            ("acks", "by hand") => self.habits.acks = false,
            ("heartbeats", "answered") => self.habits.heartbeats = true,
            ("heartbeat_period", time) => self.config.heartbeat_period = spelling::duration(time)?,
            ("reconcile_interval", time) => self.config.reconcile_interval = spelling::duration(time)?,
            ("max_staleness", time) => self.config.max_staleness = Some(spelling::duration(time)?),
            _ => return Err(format!("there is no setting `{setting}`")),
        }
        Ok(())
    }

    fn bus(&mut self, what: &str) -> Result<(), String> {
        let input = match split(what) {
            ("up", "") => Input::BusUp,
            ("lost", why) => Input::BusLost(if why.is_empty() { "connection reset".into() } else { why.to_owned() }),
            _ => return Err(format!("the bus is `up` or `lost WHY`, not `{what}`")),
        };
        self.stage().input(input);
        Ok(())
    }

    /// An event goes through the wire, as a message of the coordinator's.
    fn event(&mut self, what: &str) -> Result<(), String> {
        let (name, body) = split(what);
        let mut envelope = match name {
            "created" => event::circuit_created(AUTHORITY, spelled_list(body)?.as_slice()),
            "removed" => event::circuit_removed(AUTHORITY, spelled_list(body)?.as_slice()),
            "rerouted" => {
                let circuit = spelling::circuit(body)?;
                let fields = vec![
                    Field::text("target_worker_authority", AUTHORITY),
                    Field::json("circuit", &circuit),
                    Field::json("routes", &circuit["route_info"]),
                ];
                Envelope::from_coordinator(event::ROUTE_UPDATED, fields)
            }
            "model_updated" => {
                let publication = spelling::publication(body)?;
                let fields =
                    vec![Field::text("target_worker_authority", AUTHORITY), Field::json("model", &publication)];
                Envelope::from_coordinator(event::MODEL_UPDATED, fields)
            }
            "model_removed" => event::model_removed(AUTHORITY, body),
            "key_updated" => event::key_updated(AUTHORITY, body),
            "key_removed" => event::key_removed(AUTHORITY, body),
            "elsewhere" => event::key_removed("another-authority", body),
            "raw" => return self.message(body.as_bytes()),
            _ => return Err(format!("there is no event `{name}`")),
        };
        let id = self.request_id.take().map(|id| json!({"request_id": id, "user": null}).to_string());
        envelope.metadata = id.or(envelope.metadata);
        self.message(&envelope.bytes(self.dialect))
    }

    fn message(&mut self, bytes: &[u8]) -> Result<(), String> {
        match envelope::decode(bytes, AUTHORITY) {
            Decoded::Event(event) => self.stage().input(Input::Bus(event)),
            Decoded::Malformed(malformed) => self.stage().input(Input::BusMalformed(malformed)),
            // The shell drops it: the worker is told nothing.
            Decoded::NotForUs => {}
        }
        Ok(())
    }

    /// `answer [abandoned] CALL [STATUS] [BODY]`; `raw TEXT` is a body as it stands.
    fn answer(&mut self, what: &str) -> Result<(), String> {
        let (abandoned, what) = what.strip_prefix("abandoned ").map_or((false, what), |rest| (true, rest));
        let (name, rest) = split(what);
        let (status, body) = match split(rest) {
            (number, body) if number.len() == 3 && number.parse::<u16>().is_ok() => {
                (number.parse().unwrap_or_default(), body)
            }
            _ => (200, rest),
        };
        let body = match (name, status) {
            _ if body.starts_with("raw ") => body.trim_start_matches("raw ").to_owned(),
            ("register", 200) => registered(body)?,
            ("circuits", 200) => json!({"circuits": spelling::circuits(body)?}).to_string(),
            ("config", 200) => spelling::snapshot(body)?.to_string(),
            ("register" | "heartbeat" | "circuits" | "config" | "delete", 304) => String::new(),
            ("register" | "heartbeat" | "circuits" | "config" | "delete", _) => {
                json!({"title": if body.is_empty() { "no words" } else { body }}).to_string()
            }
            _ => return Err(format!("there is no call `{name}`")),
        };
        self.stage().answer(name, abandoned, status, &body)
    }

    fn fail(&mut self, what: &str) -> Result<(), String> {
        let (name, how) = split(what);
        let failure = match how {
            "refused" => TransportFailure::Refused,
            "unresolved" => TransportFailure::Unresolved,
            "reset" => TransportFailure::Reset,
            "timed-out" => TransportFailure::TimedOut,
            "not-http" => TransportFailure::NotHttp,
            "too-large" => TransportFailure::TooLarge,
            "tls" => TransportFailure::Tls("unknown issuer".into()),
            _ => return Err(format!("a call does not fail `{how}`")),
        };
        self.stage().fail(name, failure)
    }

    /// `serving [CIRCUITS] SNAPSHOT`: the whole start, without a line for each step of it.
    fn serving(&mut self, what: &str) -> Result<(), String> {
        let (circuits, snapshot) = what.split_once(']').ok_or("serving [CIRCUITS] SNAPSHOT")?;
        let snapshot = snapshot.trim();
        let events = self.config.events_enabled;
        self.remarks();
        let stage = self.stage();
        stage.headline(&format!("> serving {what}"));
        stage.terse = true;
        stage.input(Input::Started);
        if events {
            stage.input(Input::BusUp);
        }
        self.answer("register w1")?;
        if !self.habits.heartbeats {
            self.answer("heartbeat 200")?;
        }
        self.answer(&format!("circuits {circuits}]"))?;
        if !snapshot.is_empty() {
            self.answer(&format!("config {snapshot}"))?;
        }
        self.stage().terse = false;
        self.stage().sum_up();
        Ok(())
    }
}

/// `w1`, or `w1 accepting interactive`.
fn registered(text: &str) -> Result<String, String> {
    let (name, traffics) = text.split_once(" accepting ").unwrap_or((text, "inference"));
    Ok(json!({"id": identity('w', name)?, "accepted_traffics": [traffics], "slots": []}).to_string())
}

fn spelled_list(text: &str) -> Result<Vec<serde_json::Value>, String> {
    Ok(spelling::circuits(text)?.as_array().cloned().unwrap_or_default())
}

/// The first word and the rest.
fn split(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    (first, rest.trim())
}
