use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::wire::circuit::ReceivedCircuit;

const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const US: &str = "worker01";
const CREATED: &str = "appproxy_circuit_created_event";

/// An envelope in the args dialect, its array written by hand: `words` with the width that `str8` asks for.
fn args(name: &str, words: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0x90 | u8::try_from(words.len()).unwrap()];
    for word in words {
        bytes.push(0xda);
        bytes.extend(u16::try_from(word.len()).unwrap().to_be_bytes());
        bytes.extend(word.as_bytes());
    }
    args_of(name, &bytes)
}

fn args_of(name: &str, msgpack: &[u8]) -> Vec<u8> {
    json!({"name": name, "source": "c", "args": STANDARD.encode(msgpack), "metadata": null}).to_string().into_bytes()
}

fn payload(name: &str, payload: &str) -> Vec<u8> {
    json!({"name": name, "source": "c", "payload": payload, "metadata": "{}"}).to_string().into_bytes()
}

fn event(bytes: &[u8]) -> BusEvent {
    match decode(bytes, US) {
        Decoded::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

fn problem(bytes: &[u8]) -> (MalformedKind, String, String) {
    match decode(bytes, US) {
        Decoded::Malformed(report) => (report.kind, report.path, report.problem),
        other => panic!("{other:?}"),
    }
}

fn node() -> NodeId {
    NodeId(ID.parse().unwrap())
}

fn received(echo: &str) -> ReceivedCircuit {
    let bytes = args(CREATED, &[US, &format!("[{echo}]")]);
    match event(&bytes).kind {
        EventKind::CircuitsCreated(mut circuits) => circuits.remove(0),
        other => panic!("{other:?}"),
    }
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_golden_ack_is_written_to_the_byte() {
    let ack = |dialect| encode_ack(&Ack::Circuits(Vec::new()), US, node(), None, dialect);
    let head = r#"{"name":"appproxy_worker_circuit_added_event","source":"appproxy-worker","#;
    let args = r#""args":"kqh3b3JrZXIwMaJbXQ==","#;
    let payload = r#""payload":"{\"target_worker_authority\":\"worker01\",\"circuits\":[]}","#;
    let tail = r#""metadata":"{\"request_id\":null,\"user\":null}"}"#;
    assert_eq!(text(&ack(EventDialect::Both)), format!("{head}{args}{payload}{tail}"));
    assert_eq!(text(&ack(EventDialect::Args)), format!("{head}{args}{tail}"));
    assert_eq!(text(&ack(EventDialect::Payload)), format!("{head}{payload}{tail}"));
    assert_eq!(STANDARD.decode("kqh3b3JrZXIwMaJbXQ==").unwrap(), b"\x92\xa8worker01\xa2[]");
}

#[test]
fn acks_of_models_and_keys_name_node_kind_and_id() {
    let ack = encode_ack(&Ack::Model("lla\"ma".into()), US, node(), Some("r\"1"), EventDialect::Both);
    let outer: serde_json::Value = serde_json::from_slice(&ack).unwrap();
    assert_eq!(outer["name"], "appproxy_worker_router_config_applied_event");
    assert_eq!(outer["metadata"], r#"{"request_id":"r\"1","user":null}"#);
    let payload = format!(r#"{{"target_worker_authority":"worker01","node_id":"{ID}","kind":"model","id":"lla\"ma"}}"#);
    assert_eq!(outer["payload"], payload);
    let mut wanted = b"\x94\xa8worker01\xd9\x24".to_vec();
    wanted.extend(ID.as_bytes());
    wanted.extend(b"\xa5model\xa6lla\"ma");
    assert_eq!(STANDARD.decode(outer["args"].as_str().unwrap()).unwrap(), wanted);
    let ack = encode_ack(&Ack::Key("key-abc".into()), US, node(), None, EventDialect::Payload);
    assert!(text(&ack).contains(r#"\"kind\":\"key\",\"id\":\"key-abc\"}"#));
}

#[test]
fn circuits_come_back_to_the_byte_in_both_dialects() {
    let echo = format!(r#"{{ "id" : "{ID}","envs":{{"A":"é\u00e9 \"\\"}},"n":1.50e1,"new-key":[ ] ,"app":"한" }}"#);
    let list = format!("[ {echo} ,{{\"id\":\"11111111111141118111111111111111\"}}]");
    for bytes in [
        args(CREATED, &[US, &list]),
        payload(CREATED, &format!(r#"{{"circuits":{list},"target_worker_authority":"{US}"}}"#)),
    ] {
        let EventKind::CircuitsCreated(circuits) = event(&bytes).kind else { panic!("no circuits") };
        assert_eq!(circuits[0].echo.json(), echo);
        assert_eq!(circuits[1].circuit.id.to_string(), "11111111-1111-4111-8111-111111111111");
        let ack = encode_ack(&Ack::Circuits(circuits), US, node(), None, EventDialect::Both);
        let outer: serde_json::Value = serde_json::from_slice(&ack).unwrap();
        let circuits = format!(r#"[{echo},{{"id":"11111111111141118111111111111111"}}]"#);
        let payload = format!(r#"{{"target_worker_authority":"worker01","circuits":{circuits}}}"#);
        assert_eq!(outer["payload"], payload);
        let args = Args::read(outer["args"].as_str().unwrap()).unwrap();
        assert_eq!((args.text(0), args.text(1)), (Ok(US), Ok(circuits.as_str())));
    }
}

#[test]
fn every_event_is_read_in_every_spelling() {
    let model = r#"{"model":"m","aliases":["a"]}"#;
    let model_text = serde_json::to_string(model).unwrap();
    let to = |rest: &str| format!(r#"{{"target_worker_authority":"{US}",{rest}}}"#);
    let kebab = |rest: &str| format!(r#"{{"target-worker-authority":"{US}",{rest}}}"#);
    let short = |rest: &str| format!(r#"{{"authority":"{US}",{rest}}}"#);
    let circuits = format!(r#"[{{"id":"{ID}"}}]"#);
    let circuit = format!(r#"{{"id":"{ID}"}}"#);
    let routes = r#"[{"kernel_port":8000}]"#;
    let of = |name: &str| format!("appproxy_{name}_event");
    let both = format!(r#""circuit":{circuit},"routes":{routes}"#);
    for (name, args_parts, payloads, label) in [
        ("circuit_created", vec![&*circuits], vec![to(&format!("\"circuits\":{circuits}"))], "circuit_created"),
        ("circuit_removed", vec![&*circuits], vec![kebab(&format!("\"circuits\":{circuits}"))], "circuit_removed"),
        ("circuit_route_updated", vec![&*circuit, routes], vec![to(&both), short(&both)], "route_updated"),
        (
            "router_model_updated",
            vec![model],
            vec![
                to(&format!("\"model\":{model}")),
                short(&format!("\"model\":{model_text}")),
                kebab(&format!("\"model-json\":{model_text}")),
                to(&format!("\"model\":\"m\",\"model_json\":{model_text}")),
            ],
            "model_updated",
        ),
        (
            "router_model_removed",
            vec!["m"],
            vec![to("\"model_name\":\"m\""), short("\"model\":\"m\""), kebab("\"model-name\":\"m\"")],
            "model_removed",
        ),
        ("router_key_updated", vec!["k"], vec![to("\"key_id\":\"k\""), short("\"key-id\":\"k\"")], "key_updated"),
        ("router_key_removed", vec!["k"], vec![to("\"key_id\":\"k\"")], "key_removed"),
    ] {
        let mut parts = vec![US];
        parts.extend(args_parts);
        let of_args = event(&args(&of(name), &parts)).kind;
        assert_eq!(of_args.label(), label);
        parts.push("one more");
        assert_eq!(event(&args(&of(name), &parts)).kind, of_args, "a longer array");
        for body in payloads {
            assert_eq!(event(&payload(&of(name), &body)).kind, of_args, "{body}");
        }
    }
}

#[test]
fn a_route_update_takes_its_routes_from_beside_the_circuit() {
    let circuit = format!(r#"{{"id":"{ID}","route_info":[{{"kernel_port":1}},"junk"]}}"#);
    let bytes =
        args("appproxy_circuit_route_updated_event", &[US, &circuit, r#"[{"kernel_port":0},{"kernel_port":2}]"#]);
    let event = event(&bytes);
    let EventKind::RouteUpdated(circuit) = event.kind else { panic!("no route update") };
    assert_eq!(circuit.routes.iter().map(|route| (route.index, route.kernel_port)).collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(event.malformed.iter().map(|report| &*report.path).collect::<Vec<_>>(), ["routes[0].kernel_port"]);
}

#[test]
fn payload_wins_and_metadata_never_costs_an_event() {
    for (metadata, request_id) in [
        (json!(null), None),
        (json!("{\"request_id\":null,\"user\":null}"), None),
        (json!("{\"request_id\":\"r-1\",\"user\":\"u\",\"more\":1}"), Some("r-1")),
        (json!("{\"request_id\":7}"), None),
        (json!(""), None),
        (json!("[]"), None),
        (json!({"request_id": "r"}), None),
        (json!(5), None),
    ] {
        let outer = json!({"name": "appproxy_router_key_removed_event", "args": "broken", "extra": [1],
            "payload": format!(r#"{{"authority":"{US}","key_id":"k"}}"#), "metadata": metadata});
        let event = event(outer.to_string().as_bytes());
        assert_eq!(event.request_id.as_deref(), request_id, "{metadata}");
    }
}

#[test]
fn what_is_not_for_us_is_dropped_whatever_is_inside() {
    for bytes in [
        args(CREATED, &["worker02", "junk"]),
        args(CREATED, &["Worker01", "[]"]),
        payload(CREATED, r#"{"target_worker_authority":"worker02","circuits":7}"#),
        args("appproxy_worker_circuit_added_event", &[US, "[]"]),
        args("appproxy_worker_router_config_applied_event", &[US, ID, "key", "k"]),
        payload("some_other_event", "junk"),
        br#"{"name":"x"}"#.to_vec(),
        br#"{"name":"x","args":7,"payload":[]}"#.to_vec(),
    ] {
        assert_eq!(decode(&bytes, US), Decoded::NotForUs, "{}", text(&bytes));
    }
}

#[test]
fn broken_envelopes_and_bodies_are_malformed_and_say_why() {
    let name = r#""name":"appproxy_circuit_created_event""#;
    let one = |rest: &str| format!("{{{name},{rest}}}").into_bytes();
    let whole = |rest: &str| one(&format!("\"payload\":{}", serde_json::to_string(rest).unwrap()));
    use MalformedKind::{Envelope, EventBody};
    for (bytes, kind, path) in [
        (b"".to_vec(), Envelope, "message"),
        (b"\xff\xfe".to_vec(), Envelope, "message"),
        (b"[]".to_vec(), Envelope, "message"),
        (b"{\"name\":\"x\"".to_vec(), Envelope, "message"),
        (b"{\"args\":\"\"}".to_vec(), Envelope, "message.name"),
        (b"{\"name\":7}".to_vec(), Envelope, "message.name"),
        (one("\"args\":null"), EventBody, "args"),
        (one("\"args\":7"), EventBody, "args"),
        (one("\"payload\":{}"), EventBody, "payload"),
        (one("\"args\":\"kqh3b3JrZXIwMaJbXQ\""), EventBody, "args"),
        (one("\"args\":\"kqh3b3JrZXIwMaJbXQ==\\n\""), EventBody, "args"),
        (args_of(CREATED, b""), EventBody, "args"),
        (args_of(CREATED, b"\x92\xa8worker01\xa2[]\xc0"), EventBody, "args"),
        (args_of(CREATED, b"\x92\xa8worker01\xa2["), EventBody, "args"),
        (args_of(CREATED, b"\x81\xa8worker01\xa2[]"), EventBody, "args"),
        (args_of(CREATED, b"\xdd\xff\xff\xff\xff"), EventBody, "args"),
        (args_of(CREATED, &[0x91; 100_000]), EventBody, "args"),
        (args_of(CREATED, b"\x92\x07\xa2[]"), EventBody, "target_worker_authority"),
        (args_of(CREATED, b"\x92\xc4\x01\xff\xa2[]"), EventBody, "target_worker_authority"),
        (args_of(CREATED, b"\x90"), EventBody, "target_worker_authority"),
        (args(CREATED, &[US]), EventBody, "circuits"),
        (args(CREATED, &[US, "{}"]), EventBody, "circuits"),
        (args(CREATED, &[US, ""]), EventBody, "circuits"),
        (args_of(CREATED, b"\x92\xa8worker01\x90"), EventBody, "circuits"),
        (whole("[]"), EventBody, "payload"),
        (whole("{"), EventBody, "payload"),
        (whole("{}"), EventBody, "target_worker_authority"),
        (whole(r#"{"target_worker_authority":7}"#), EventBody, "target_worker_authority"),
        (whole(r#"{"authority":"worker01"}"#), EventBody, "circuits"),
        (whole(r#"{"authority":"worker01","circuits":null}"#), EventBody, "circuits"),
        (whole(r#"{"authority":"worker01","circuits":[NaN]}"#), EventBody, "payload"),
        (args("appproxy_router_key_removed_event", &[US, ""]), EventBody, "key_id"),
        (args("appproxy_router_model_removed_event", &[US, ""]), EventBody, "model_name"),
        (args("appproxy_circuit_route_updated_event", &[US, "{}"]), EventBody, "routes"),
        (args("appproxy_circuit_route_updated_event", &[US, "{}", "[]"]), MalformedKind::Circuit, "circuit.id"),
        (
            args("appproxy_router_model_updated_event", &[US, r#"{"model":1}"#]),
            MalformedKind::Publication,
            "model.model",
        ),
        (args("appproxy_router_model_updated_event", &[US, "junk"]), EventBody, "model"),
    ] {
        let found = problem(&bytes);
        assert_eq!((found.0, found.1.as_str()), (kind, path), "{} {}", text_of(&bytes), found.2);
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes)).into_owned()
}

#[test]
fn every_width_of_msgpack_is_read() {
    let long = format!(r#"[{{"id":"{ID}","app":"{}"}}]"#, "x".repeat(70_000));
    let wide = |len: usize| u32::try_from(len).unwrap().to_be_bytes();
    for array in [b"\x92".to_vec(), b"\xdc\x00\x02".to_vec(), b"\xdd\x00\x00\x00\x02".to_vec()] {
        for (str8, str32) in [(0xd9, 0xdb), (0xc4, 0xc6)] {
            let mut bytes = array.clone();
            bytes.extend([str8, 8]);
            bytes.extend(US.as_bytes());
            bytes.push(str32);
            bytes.extend(wide(long.len()));
            bytes.extend(long.as_bytes());
            assert_eq!(event(&args_of(CREATED, &bytes)).kind.label(), "circuit_created");
        }
    }
    let mut elements = vec![US, "[]"];
    elements.resize(limits::ENVELOPE_ARGS - 1, "");
    assert!(matches!(decode(&args(CREATED, &elements), US), Decoded::Event(_)));
    let array16 = |number: usize| {
        let mut bytes = vec![0xdc, 0, u8::try_from(number).unwrap()];
        bytes.extend(b"\xa8worker01\xa2[]");
        bytes.extend(core::iter::repeat_n(0xc0, number - 2));
        args_of(CREATED, &bytes)
    };
    assert!(matches!(decode(&array16(limits::ENVELOPE_ARGS), US), Decoded::Event(_)));
    assert_eq!(problem(&array16(limits::ENVELOPE_ARGS + 1)).1, "args");
}

#[test]
fn size_and_nesting_are_bounded() {
    let sized = |size: usize| {
        let mut bytes = br#"{"name":"x","padding":""#.to_vec();
        bytes.resize(size - 2, b'a');
        bytes.extend(b"\"}");
        bytes
    };
    assert_eq!(decode(&sized(limits::ENVELOPE_BYTES), US), Decoded::NotForUs);
    assert_eq!(problem(&sized(limits::ENVELOPE_BYTES + 1)).0, MalformedKind::Envelope);
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let created = |depth| format!(r#"[{{"id":"{ID}","envs":{}}}]"#, nested(depth));
    let bytes = |depth| payload(CREATED, &format!(r#"{{"authority":"{US}","circuits":{}}}"#, created(depth)));
    assert!(matches!(decode(&bytes(limits::NESTING - 3), US), Decoded::Event(_)));
    assert_eq!(problem(&bytes(limits::NESTING - 2)).0, MalformedKind::EventBody);
    assert_eq!(problem(&bytes(1_000_000)).0, MalformedKind::EventBody);
    assert!(matches!(decode(&args(CREATED, &[US, &created(limits::NESTING - 2)]), US), Decoded::Event(_)));
    assert_eq!(problem(&args(CREATED, &[US, &created(limits::NESTING - 1)])).1, "circuits");
    let deep = format!(r#"{{"name":"{CREATED}","x":{}}}"#, nested(1_000_000));
    assert_eq!(problem(deep.as_bytes()).0, MalformedKind::Envelope);
    assert_eq!(problem(nested(1_000_000).as_bytes()).0, MalformedKind::Envelope);
}

#[test]
fn good_circuits_of_a_batch_count_and_the_others_are_reported() {
    let other = "11111111-1111-4111-8111-111111111111";
    let list = format!(
        r#"[{{"id":"{ID}"}},{{"id":"{other}","route_info":[{{"kernel_port":0}}]}},{{"id":"x"}},{{"id":"22222222-2222-4222-8222-222222222222","app":1}}]"#
    );
    let event = event(&args(CREATED, &[US, &list]));
    let EventKind::CircuitsCreated(circuits) = event.kind else { panic!("no circuits") };
    assert_eq!(circuits.iter().map(|one| one.circuit.id.to_string()).collect::<Vec<_>>(), [ID, other]);
    let reports: Vec<_> = event.malformed.iter().map(|report| (report.kind, &*report.path)).collect();
    let circuit = MalformedKind::Circuit;
    let route = (MalformedKind::Route, "circuits[1].route_info[0].kernel_port");
    assert_eq!(reports, [route, (circuit, "circuits[2].id"), (circuit, "circuits[3].app")]);
    // For a removal only the id matters.
    let event = self::event(&args("appproxy_circuit_removed_event", &[US, &list]));
    assert_eq!(
        (event.malformed.len(), matches!(event.kind, EventKind::CircuitsRemoved(ids) if ids.len() == 3)),
        (1, true)
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes, US);
        let _ = decode(&args_of(CREATED, &bytes), US);
        let mut array = b"\x93\xa8worker01".to_vec();
        array.extend(&bytes);
        let _ = decode(&args_of("appproxy_circuit_route_updated_event", &array), US);
        let _ = decode(&payload(CREATED, &String::from_utf8_lossy(&bytes)), US);
    }

    #[test]
    fn a_damaged_message_never_panics_and_is_never_another_event(at in 0usize..200, byte in any::<u8>()) {
        let mut bytes = args(CREATED, &[US, &format!(r#"[{{"id":"{ID}"}}]"#)]);
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Decoded::Event(event) = decode(&bytes, US) {
            prop_assert_eq!(event.kind.label(), "circuit_created");
        }
    }

    #[test]
    fn what_is_encoded_reads_back_the_same(authority in any::<String>(), id in any::<String>(), request in any::<Option<String>>(), env in any::<String>()) {
        let echo = json!({"id": ID, "envs": {"x": env}, "unknown": [1.5, null]}).to_string();
        let acks = [
            (Ack::Circuits(vec![received(&echo)]), "appproxy_worker_circuit_added_event"),
            (Ack::Model(id.as_str().into()), "appproxy_worker_router_config_applied_event"),
            (Ack::Key(id.as_str().into()), "appproxy_worker_router_config_applied_event"),
        ];
        for (ack, name) in acks {
            let bytes = encode_ack(&ack, &authority, node(), request.as_deref(), EventDialect::Both);
            prop_assert_eq!(decode(&bytes, &authority), Decoded::NotForUs);
            let outer: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(outer["name"].as_str(), Some(name));
            let metadata: serde_json::Value = serde_json::from_str(outer["metadata"].as_str().unwrap()).unwrap();
            prop_assert_eq!(metadata, json!({"request_id": request, "user": null}));
            let inner: serde_json::Value = serde_json::from_str(outer["payload"].as_str().unwrap()).unwrap();
            prop_assert_eq!(inner["target_worker_authority"].as_str(), Some(authority.as_str()));
            let args = Args::read(outer["args"].as_str().unwrap()).unwrap();
            prop_assert_eq!(args.text(0), Ok(authority.as_str()));
            match &ack {
                // The coordinator's own event with our circuits gives the same circuits again.
                Ack::Circuits(circuits) => {
                    prop_assert_eq!(args.text(1).unwrap(), format!("[{echo}]"));
                    let again = String::from_utf8(bytes).unwrap().replace(name, CREATED);
                    let Decoded::Event(event) = decode(again.as_bytes(), &authority) else { panic!("{again}") };
                    prop_assert_eq!(event.request_id, request.clone());
                    prop_assert_eq!(event.kind, EventKind::CircuitsCreated(circuits.clone()));
                }
                Ack::Model(_) | Ack::Key(_) => {
                    prop_assert_eq!(inner["id"].as_str(), Some(id.as_str()));
                    prop_assert_eq!(args.text(3), Ok(id.as_str()));
                    prop_assert_eq!(args.text(1).unwrap(), inner["node_id"].as_str().unwrap());
                    prop_assert_eq!(args.text(2).unwrap(), inner["kind"].as_str().unwrap());
                }
            }
        }
    }
}
