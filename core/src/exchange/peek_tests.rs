use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn code(body: impl AsRef<[u8]>) -> Code {
    json(body.as_ref()).unwrap_err().code
}

fn found(body: &str) -> Peek<'_> {
    json(body.as_bytes()).unwrap()
}

#[test]
fn w3_every_bad_body_gets_its_code() {
    for body in [
        "",
        " ",
        "[]",
        "[\"m1\"]",
        "\"m1\"",
        "null",
        "42",
        "{",
        "{\"model\":\"m1\",",
        "{\"model\":\"m1\"",
        "{\"model\":\"m1",
        "{\"model\":\"m1\"} x",
        "{\"model\":\"m1\"}{}",
        "{\"model\":\"m1\",}",
        "{model:\"m1\"}",
        "{'model':'m1'}",
        "\u{feff}{\"model\":\"m1\"}",
        "{\"model\":\"m1\",\"a\":nul}",
        "{\"model\":\"\\ud800\"}",
        "{\"model\":\"m\n1\"}",
        "{\"model\":\"m1\",\"model\":\"m2\"}",
        "{\"model\":\"m1\",\"model\":\"m1\"}",
        "{\"model\":null,\"model\":\"m1\"}",
        "{\"stream\":true,\"stream\":true,\"model\":\"m1\"}",
        "{\"mod\\u0065l\":\"m1\",\"model\":\"m2\"}",
        "{\"model\":\"m1\",\"stre\\u0061m\":1,\"stream\":true}",
        "{\"a\":[}],\"model\":\"m1\"}",
        "{\"model\":\"m\\x\"}",
    ] {
        assert_eq!(code(body), Code::InvalidJson, "{body}");
    }
    for body in [&b"{\"model\":\"m\xff\"}"[..], b"\xff\xfe{\x00", b"{\"a\":\"\xc3\",\"model\":\"m\"}"] {
        assert_eq!(code(body), Code::InvalidJson);
    }
    for body in ["{}", " {\"a\":1}", "{\"Model\":\"m1\"}", "{\"messages\":[{\"model\":\"m1\"}]}", "{\" model\":\"m1\"}"]
    {
        assert_eq!(code(body), Code::MissingModel, "{body}");
    }
    for value in ["null", "42", "[\"m1\"]", "\"\"", "true", "{\"model\":\"m1\"}", "-0.1e9"] {
        assert_eq!(code(format!("{{\"model\":{value}}}")), Code::InvalidModel, "{value}");
    }
}

#[test]
fn k4_messages_hold_nothing_of_the_body() {
    for body in ["{\"model\":\"m1\",\"password\":hunter2}", "{\"hunter2", "hunter2", "{\"model\":[\"hunter2\"]}"] {
        assert!(!json(body.as_bytes()).unwrap_err().message.contains("hunter"), "{body}");
    }
}

#[test]
fn the_place_of_the_name_is_found_whatever_stands_around_it() {
    for (body, model, value) in [
        ("{\"model\":\"m1\"}", "m1", "\"m1\""),
        (" \r\n\t{ \"model\" : \"m1\" , \"a\":{\"model\":\"x\"}} \n", "m1", "\"m1\""),
        ("{\"a\":[{\"model\":1},\"model\"],\"model\":\"org/m\"}", "org/m", "\"org/m\""),
        ("{\"mod\\u0065l\":\"m1\"}", "m1", "\"m1\""),
        ("{\"model\":\"m\\u0031\\/x\"}", "m1/x", "\"m\\u0031\\/x\""),
        ("{\"model\":\" b\"}", " b", "\" b\""),
        ("{\"a\":\"你\\ud83d\",\"model\":\"你\"}", "你", "\"你\""),
    ] {
        let peek = found(body);
        assert_eq!(&*peek.model, model, "{body}");
        assert_eq!(&body[peek.span], value, "{body}");
    }
}

#[test]
fn a_stream_is_one_only_when_it_says_true() {
    for (value, stream) in [("true", true), ("false", false), ("null", false), ("1", false), ("\"true\"", false)] {
        assert_eq!(found(&format!("{{\"stream\":{value},\"model\":\"m\"}}")).stream, stream);
    }
    assert!(!found("{\"model\":\"m\"}").stream);
}

#[test]
fn deep_nesting_is_nothing_special() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(&*found(&format!("{{\"a\":{deep},\"model\":\"m\"}}")).model, "m");
        assert_eq!(code(format!("{{\"model\":{deep}}}")), Code::InvalidModel);
        assert_eq!(code(&deep), if open == "[" { Code::InvalidJson } else { Code::MissingModel });
    }
    assert_eq!(code("{\"a\":".repeat(100_000)), Code::InvalidJson);
}

#[test]
fn a_new_name_is_written_as_its_place_needs_it() {
    assert_eq!(Spelling::Json.write("a\"b\\\n你"), "\"a\\\"b\\\\\\n你\"");
    assert_eq!(Spelling::Plain.write("a\"b"), "a\"b");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(Value::from("")),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..4).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("model".to_owned()), Just("stream".to_owned()), Just("Model".to_owned()), ".{0,6}"]
}

proptest! {
    /// On documents without repeated keys the answer is that of the whole document, and the splice puts the new name
    /// where the old one was and nowhere else.
    #[test]
    fn agrees_with_the_whole_document(doc in value(), pretty in any::<bool>(), name in ".{1,8}") {
        let body = if pretty { serde_json::to_string_pretty(&doc).unwrap() } else { doc.to_string() };
        let wanted = match &doc {
            Value::Object(fields) => match fields.get("model") {
                None => Err(Code::MissingModel),
                Some(Value::String(model)) if !model.is_empty() => Ok(model.clone()),
                Some(_) => Err(Code::InvalidModel),
            },
            _ => Err(Code::InvalidJson),
        };
        let peek = json(body.as_bytes());
        prop_assert_eq!(peek.as_ref().map(|peek| peek.model.to_string()).map_err(|denial| denial.code), wanted);
        if let Ok(peek) = peek {
            prop_assert_eq!(peek.stream, doc["stream"] == Value::Bool(true));
            let spliced = format!("{}{}{}", &body[..peek.span.start], peek.spelling.write(&name), &body[peek.span.end..]);
            let mut renamed = doc;
            renamed["model"] = name.into();
            prop_assert_eq!(serde_json::from_str::<Value>(&spliced).unwrap(), renamed);
        }
    }

    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json(&body);
    }

    /// Cut or broken anywhere, a body is refused as broken unless it happens to be whole again.
    #[test]
    fn broken_bodies_are_never_let_through(cut in 0usize..60, byte in any::<u8>()) {
        let body = br#"{"stream":true,"a":["x",{"b":1.5e3}],"model":"m1","z":null}"#;
        if cut < body.len() {
            prop_assert_eq!(json(&body[..cut]).unwrap_err().code, Code::InvalidJson);
            let mut broken = body.to_vec();
            broken[cut] = byte;
            let whole = serde_json::from_slice::<Value>(&broken).is_ok();
            if let Ok(peek) = json(&broken) {
                prop_assert!(whole);
                let doc: Value = serde_json::from_slice(&broken).unwrap();
                prop_assert_eq!(Some(&*peek.model), doc["model"].as_str());
            }
        }
    }

    /// The pass of our own and serde_json come to the same, whatever document is made of these pieces and then broken.
    #[test]
    fn both_walks_agree(doc in value(), pretty in any::<bool>(), breaks in prop::collection::vec(a_break(), 0..4)) {
        let body = if pretty { serde_json::to_string_pretty(&doc).unwrap() } else { doc.to_string() };
        let mut body = body.into_bytes();
        agree(&body, true)?;
        for (at, piece, cut) in breaks {
            let at = at.index(body.len() + 1);
            let end = body.len().min(at + cut);
            body.splice(at..end, piece.iter().copied());
            agree(&body, false)?;
        }
    }

    #[test]
    fn both_walks_agree_on_anything(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40), object in any::<bool>()) {
        let body = pieces.concat();
        agree(&if object { [b"{\"model\":\"m\",\"a\":", &*body, b"}"].concat() } else { body }, false)?;
    }

    #[test]
    fn both_walks_agree_on_bytes(body in prop::collection::vec(any::<u8>(), 0..64)) {
        agree(&[b"{\"a\":\"", &*body, b"\",\"model\":\"m\"}"].concat(), false)?;
        agree(&body, false)?;
    }
}

/// What JSON is made of, and what it must not hold.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\u",
    b"\\u00e9",
    b"\\ud800",
    b"\\udc00",
    b"\\x",
    b"\\n",
    b"\\/",
    b"0",
    b"1",
    b"-",
    b"+",
    b".",
    b"e",
    b"E9",
    b"-0",
    b"0.5",
    b"1e-7",
    b"12",
    b"true",
    b"false",
    b"null",
    b"nul",
    b" ",
    b"\n",
    b"\t",
    b"\r",
    b"\x0b",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\xc3\xa9",
    b"\xc3",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\"model\"",
    b"\"stream\"",
    b"\"mod\\u0065l\"",
    b"\"a\"",
    b"\"a\":",
    b"\"model\":",
    b"\"stream\":",
    b"\"sixteen and more of plain text\"",
    b"abc",
];

/// Where, what comes there, and how many bytes go for it.
fn a_break() -> impl Strategy<Value = (prop::sample::Index, &'static [u8], usize)> {
    (any::<prop::sample::Index>(), prop::sample::select(PIECES), 0..3_usize)
}

/// `plain`: no document that leaves a doubt to serde_json.
fn agree(body: &[u8], plain: bool) -> Result<(), TestCaseError> {
    let (ours, theirs) = (scan::members(body), slowly(body));
    match (ours, theirs) {
        (Some(ours), Ok(theirs)) => {
            prop_assert_eq!((&ours.model, &ours.stream), (&theirs.model, &theirs.stream));
            // No too often, never yes.
            prop_assert!(theirs.ascii || !ours.ascii);
        }
        (Some(ours), Err(denial)) => {
            prop_assert!(core::str::from_utf8(body).is_err() && !ours.ascii, "{}", denial.message);
        }
        (None, Ok(theirs)) => {
            let escapes = body.contains(&b'\\');
            prop_assert!(!plain || escapes, "{theirs:?} in {:?}", String::from_utf8_lossy(body));
            prop_assert!(escapes, "what is rare has an escape: {:?}", String::from_utf8_lossy(body));
        }
        (None, Err(_)) => {}
    }
    Ok(())
}

#[test]
fn what_is_rare_is_left_to_serde_json_and_nothing_else() {
    let deep = |levels: usize| format!("{{\"model\":\"m\",\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    for (body, ours) in [
        (deep(64), true),
        (deep(65), false),
        (deep(63).replace("[]", "[{}]"), true),
        ("{\"mod\\u0065l\":\"m\"}".to_owned(), false),
        ("{\"a\\n\":1,\"model\":\"m\"}".to_owned(), false),
        ("{\"a\":{\"b\\n\":\"\\ud800\"},\"model\":\"\\u006d\"}".to_owned(), true),
        (
            " \r\n\t{ \"a\" : [ ] , \"b\" : { } , \"model\" : \"m\" , \"c\" : [ { } , [ 1 , -0.5E+9 ] ] } \n"
                .to_owned(),
            true,
        ),
    ] {
        assert_eq!(scan::members(body.as_bytes()).is_some(), ours, "{body}");
        assert_eq!(&*found(&body).model, "m", "{body}");
    }
    assert!(scan::members(b"{}").is_some() && scan::members(b"{\"a\":1,\"a\":2}").is_some());
}
