//! The coordinator's circuits, read (worker-protocol 2).
//!
//! Required is a circuit's `id`, a route's `kernel_port` and a replica group's `id`. Every other field may be absent
//! or null: `protocol` is then `http` and `app_mode` `inference` (what this worker registers for), `open_to_public`
//! false, ratios 1.0 when absent. A field that is read and has the wrong type makes its element malformed; fields that
//! are not read (`envs`, `worker`, `frontend_mode`, `port`, ...) can be anything.

use core::net::Ipv6Addr;
use serde_json::value::RawValue;

use super::circuit::{AppMode, Circuit, Echo, Protocol, ReceivedCircuit, ReplicaGroup, Route};
use super::elements::{Skipped, read_elements};
use super::forgive::read_body;
use super::ids::{CircuitId, EndpointId, GroupId, RouteId};
use super::json::{self, Fault, Object};
use super::malformed::{Elements, Malformed, MalformedKind};
use super::number::ratio;
use super::report::{At, Reports, malformed};

/// Reads the answer of `GET /api/worker/{id}/circuits`. An error is a failed pull: no JSON, or no list of circuits.
pub fn parse_circuits_answer(body: &[u8]) -> Result<Elements<Circuit>, Malformed> {
    let (mut elements, forgiven) = read_body(body, |text| {
        let object = Object::read(text, ["circuits"])?;
        let list = object.required("circuits", "the list of circuits", |raw| json::list(raw.get()))?;
        let mut reports = Reports::default();
        let elements = read_circuits(&list, At::Root("circuits"), &mut reports);
        Ok(Elements { malformed: reports.finish(), ..elements })
    })?;
    elements.malformed.splice(..0, forgiven);
    Ok(elements)
}

/// Reads one circuit by itself; what is malformed inside it is reported beside it.
pub fn parse_circuit(json: &RawValue) -> Result<(Circuit, Vec<Malformed>), Malformed> {
    let mut reports = Reports::default();
    let at = At::Root("circuit");
    match read_circuit(json, at, &mut reports) {
        Ok(circuit) => Ok((circuit, reports.finish())),
        Err(skipped) => Err(skipped_circuit(&skipped, at)),
    }
}

pub(super) fn skipped_circuit(skipped: &Skipped<CircuitId>, at: At<'_>) -> Malformed {
    let id = skipped.id.as_ref().map(|id| id as &dyn core::fmt::Display);
    malformed(MalformedKind::Circuit, at, id, &skipped.fault)
}

fn read_circuits(list: &[&RawValue], at: At<'_>, reports: &mut Reports) -> Elements<Circuit> {
    read_elements(list, at, MalformedKind::Circuit, reports, read_circuit, |circuit| circuit.id)
}

/// Circuits of a created event, each with its text for the ack.
pub(super) fn read_received(list: &[&RawValue], at: At<'_>, reports: &mut Reports) -> Elements<ReceivedCircuit> {
    read_elements(
        list,
        at,
        MalformedKind::Circuit,
        reports,
        |raw, at, reports| {
            let circuit = read_circuit(raw, at, reports)?;
            Ok(ReceivedCircuit { circuit, echo: Echo::new(raw.to_owned()) })
        },
        |received| received.circuit.id,
    )
}

/// Circuits of a removed event: only their ids matter, so nothing else in them can stop a removal.
pub(super) fn read_circuit_ids(list: &[&RawValue], at: At<'_>, reports: &mut Reports) -> Elements<CircuitId> {
    let read = |raw: &RawValue, _: At<'_>, _: &mut Reports| {
        let object = Object::read(raw.get(), ["id"])?;
        Ok(CircuitId(object.required("id", "the circuit's UUID", json::uuid)?))
    };
    read_elements(list, at, MalformedKind::Circuit, reports, read, |id| *id)
}

type CircuitFields<'a> = Object<'a, 12>;

pub(super) fn read_circuit(raw: &RawValue, at: At<'_>, reports: &mut Reports) -> Result<Circuit, Skipped<CircuitId>> {
    read_with(raw, at, reports, |fields, at, reports| read_routes(fields, "route_info", at, reports))
}

/// Reads a circuit whose routes stand elsewhere: its own `route_info` is not looked at.
pub(super) fn read_circuit_without_routes(
    raw: &RawValue,
    at: At<'_>,
    reports: &mut Reports,
) -> Result<Circuit, Skipped<CircuitId>> {
    read_with(raw, at, reports, |_, _, _| Ok(Vec::new()))
}

fn read_with(
    raw: &RawValue,
    at: At<'_>,
    reports: &mut Reports,
    routes: impl FnOnce(&CircuitFields<'_>, At<'_>, &mut Reports) -> Result<Vec<Route>, Fault>,
) -> Result<Circuit, Skipped<CircuitId>> {
    let fields: CircuitFields<'_> = Object::read(
        raw.get(),
        [
            "id",
            "app",
            "protocol",
            "app_mode",
            "open_to_public",
            "allowed_client_ips",
            "subdomain",
            "endpoint_id",
            "runtime_variant",
            "created_at",
            "route_info",
            "replica_groups",
        ],
    )?;
    let id = CircuitId(fields.required("id", "the circuit's UUID", json::uuid)?);
    let at = At::Of(&at, &id);
    let read = || -> Result<Circuit, Fault> {
        Ok(Circuit {
            id,
            app: owned(&fields, "app")?,
            protocol: protocol(&fields)?,
            app_mode: match fields.text("app_mode")?.as_deref() {
                None | Some("inference") => AppMode::Inference,
                Some("interactive") => AppMode::Interactive,
                Some(_) => AppMode::Other,
            },
            open_to_public: fields.flag("open_to_public")?.unwrap_or(false),
            allowed_client_ips: owned(&fields, "allowed_client_ips")?,
            subdomain: fields.text("subdomain")?.map(|text| text.to_lowercase()).filter(|text| !text.is_empty()),
            endpoint_id: fields.uuid("endpoint_id")?.map(EndpointId),
            runtime_variant: owned(&fields, "runtime_variant")?,
            created_at: fields.get("created_at").map(uninterpreted),
            routes: routes(&fields, at, reports)?,
            replica_groups: read_groups(&fields, at, reports),
        })
    };
    read().map_err(|fault| Skipped { id: Some(id), fault })
}

fn read_routes<const N: usize>(
    fields: &Object<'_, N>,
    name: &'static str,
    at: At<'_>,
    reports: &mut Reports,
) -> Result<Vec<Route>, Fault> {
    let list = fields.list(name)?.unwrap_or_default();
    Ok(read_route_list(&list, At::Field(&at, name), reports))
}

/// A route table. Malformed routes are reported and left out; the others keep their places in the list.
pub(super) fn read_route_list(list: &[&RawValue], at: At<'_>, reports: &mut Reports) -> Vec<Route> {
    let mut routes = Vec::with_capacity(list.len());
    for (index, raw) in list.iter().enumerate() {
        let at = At::Index(&at, index);
        match read_route(raw, index, at, reports) {
            Ok(route) => routes.push(route),
            Err(Skipped { id, fault }) => {
                let id = id.as_ref().map(|id: &RouteId| id as &dyn core::fmt::Display);
                reports.element(MalformedKind::Route, at, id, &fault);
            }
        }
    }
    routes
}

fn read_route(raw: &RawValue, index: usize, at: At<'_>, reports: &mut Reports) -> Result<Route, Skipped<RouteId>> {
    let fields = Object::read(
        raw.get(),
        ["route_id", "session_id", "kernel_host", "kernel_port", "protocol", "traffic_ratio", "replica_group_id"],
    )?;
    let route_id = fields.uuid("route_id")?.map(RouteId);
    let mut read = || -> Result<Route, Fault> {
        Ok(Route {
            route_id,
            index: u32::try_from(index).unwrap_or(u32::MAX),
            session_id: fields.uuid("session_id")?,
            kernel_host: fields.optional("kernel_host", host)?,
            kernel_port: fields.required("kernel_port", "a port, 1 to 65535,", port)?,
            protocol: protocol(&fields)?,
            traffic_ratio: ratio(&fields, "traffic_ratio", 1.0, at, reports)?,
            replica_group_id: fields.uuid("replica_group_id")?.map(GroupId),
        })
    };
    read().map_err(|fault| Skipped { id: route_id, fault })
}

/// Replica groups are an extension: whatever is wrong with them costs a group, never the circuit.
fn read_groups<const N: usize>(fields: &Object<'_, N>, at: At<'_>, reports: &mut Reports) -> Vec<ReplicaGroup> {
    let list = match fields.list("replica_groups") {
        Ok(list) => list.unwrap_or_default(),
        Err(fault) => {
            reports.element(MalformedKind::ReplicaGroup, at, None, &fault);
            return Vec::new();
        }
    };
    let at = At::Field(&at, "replica_groups");
    read_elements(&list, at, MalformedKind::ReplicaGroup, reports, read_group, |group| group.id).good
}

fn read_group(raw: &RawValue, at: At<'_>, reports: &mut Reports) -> Result<ReplicaGroup, Skipped<GroupId>> {
    let fields = Object::read(raw.get(), ["id", "traffic_weight", "lifecycle"])?;
    let id = GroupId(fields.required("id", "the group's UUID", json::uuid)?);
    let mut read = || -> Result<ReplicaGroup, Fault> {
        // Absent, it weighs what the implicit group weighs (6.2).
        let traffic_weight = ratio(&fields, "traffic_weight", 100.0, At::Of(&at, &id), reports)?;
        Ok(ReplicaGroup { id, traffic_weight, lifecycle: fields.get("lifecycle").map(uninterpreted) })
    };
    read().map_err(|fault| Skipped { id: Some(id), fault })
}

fn protocol<const N: usize>(fields: &Object<'_, N>) -> Result<Protocol, Fault> {
    Ok(match fields.text("protocol")?.as_deref() {
        None | Some("http") => Protocol::Http,
        Some(_) => Protocol::Other,
    })
}

fn owned<const N: usize>(fields: &Object<'_, N>, name: &'static str) -> Result<Option<String>, Fault> {
    Ok(fields.text(name)?.map(Into::into))
}

/// A value that is shown or compared as text and nothing else: a string's content, or the JSON text of anything else.
fn uninterpreted(raw: &RawValue) -> String {
    json::text(raw).map_or_else(|_| raw.get().to_owned(), Into::into)
}

/// A host name or address, without brackets. It becomes part of an address, so nothing that could end a host may be
/// in it.
fn host(raw: &RawValue) -> Result<String, String> {
    let text = json::text(raw)?;
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && !"/\\?#@[]:%<>\"".contains(c);
    if bare.parse::<Ipv6Addr>().is_ok() || (bare == text && !bare.is_empty() && bare.chars().all(is_name)) {
        Ok(bare.to_owned())
    } else {
        Err(format!("{} is no host; a host name, an IP address or null should be here", json::quote(text)))
    }
}

fn port(raw: &RawValue) -> Result<u16, String> {
    raw.get().parse::<u16>().ok().filter(|port| *port > 0 && json::kind(raw.get()) == "a number").ok_or_else(|| {
        match json::kind(raw.get()) {
            "a number" => {
                format!("{} is no port; a whole number from 1 to 65535 should be here", json::quote(raw.get()))
            }
            kind => format!("{kind} where a port, a whole number from 1 to 65535, should be"),
        }
    })
}

#[cfg(test)]
#[path = "read_circuit_tests.rs"]
mod tests;
