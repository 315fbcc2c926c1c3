use super::*;
use proptest::prelude::*;

const TYPE: &str = "multipart/form-data; boundary=XX";

fn part(head: &str, content: &str) -> String {
    format!("--XX\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
}

fn body(parts: &[String]) -> Vec<u8> {
    format!("{}--XX--\r\n", parts.concat()).into_bytes()
}

fn code(body: &[u8]) -> Code {
    peek(body, "XX").unwrap_err().code
}

#[test]
fn the_boundary_is_read_from_the_content_type() {
    for (kind, wanted) in [
        (TYPE, Some("XX")),
        ("Multipart/Form-Data;charset=utf-8; Boundary=\"a b\"", Some("a b")),
        ("multipart/form-data; x=\"a;boundary=b\"; boundary=c ", Some("c")),
        ("multipart/form-data;boundary=\"a\\\"b\"", Some("a\"b")),
        ("application/json", None),
        ("multipart/mixed; boundary=XX", None),
        ("", None),
    ] {
        assert_eq!(boundary(kind.as_bytes()).unwrap().as_deref(), wanted, "{kind}");
    }
    let of_length = |bytes| format!("multipart/form-data; boundary={}", "x".repeat(bytes));
    assert!(boundary(of_length(MULTIPART_BOUNDARY_BYTES).as_bytes()).unwrap().is_some());
    let long = of_length(MULTIPART_BOUNDARY_BYTES + 1);
    for kind in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"x", &long] {
        assert_eq!(boundary(kind.as_bytes()).unwrap_err().code, Code::InvalidRequest, "{kind}");
    }
    assert_eq!(boundary(b"multipart/form-data; boundary=\xe9").unwrap_err().code, Code::InvalidRequest);
}

#[test]
fn the_model_part_is_found_among_others() {
    let file =
        part("name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav", "\0\r\n--X\r\nname=\"model\"\r\n\r\n");
    let others = [part("name=\"prompt\"", "model"), file];
    for head in
        ["name=\"model\"", "name=model", "NAME=\"model\"", "name=\"mo\\del\"", "x=\"; name=no\"; name=\"model\""]
    {
        for at in 0..=others.len() {
            let mut parts = others.to_vec();
            parts.insert(at, part(head, "whisper-1"));
            for (before, after) in [("", ""), ("preamble\r\n", "epilogue")] {
                let body = [before.as_bytes(), &body(&parts), after.as_bytes()].concat();
                let peek = peek(&body, "XX").unwrap();
                assert_eq!((&*peek.model, &body[peek.span]), ("whisper-1", &b"whisper-1"[..]), "{head} {at}");
                assert_eq!(peek.spelling, Spelling::Plain);
            }
        }
    }
}

#[test]
fn w3_missing_empty_and_odd_models() {
    assert_eq!(code(&body(&[part("name=\"prompt\"", "x")])), Code::MissingModel);
    assert_eq!(code(&body(&[part("name=\"Model\"", "x")])), Code::MissingModel);
    assert_eq!(code(&body(&[part("name=\"model\"", "")])), Code::InvalidModel);
    assert_eq!(code(&body(&[part("name=\"model\"; filename=\"x\"", "m")])), Code::InvalidModel);
    let latin: Vec<u8> =
        body(&[part("name=\"model\"", "m#")]).into_iter().map(|b| if b == b'#' { 0xe9 } else { b }).collect();
    assert_eq!(code(&latin), Code::InvalidModel);
}

#[test]
fn a_second_model_part_and_broken_bodies_are_refused() {
    let model = part("name=\"model\"", "m1");
    assert_eq!(code(&body(&[model.clone(), model.clone()])), Code::InvalidRequest);
    let twice = format!(
        "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n{model}"
    );
    assert_eq!(code(&body(&[twice])), Code::InvalidRequest);
    let whole = body(&[part("name=\"a\"", "1"), model]);
    for cut in 0..whole.len() - 4 {
        assert!(peek(&whole[..cut], "XX").is_err(), "{cut}");
    }
    for broken in ["", "--XX", "--XX--", "--YY\r\n", "--XX\n\nm1\n--XX--", "--XXjunk\r\n\r\nm\r\n--XX--"] {
        assert!(peek(broken.as_bytes(), "XX").is_err(), "{broken:?}");
    }
    // A delimiter among a part's headers: one reader sees a new part there, another does not.
    let hidden = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--XX--";
    assert_eq!(code(hidden.as_bytes()), Code::InvalidRequest);
}

#[test]
fn parts_are_bounded() {
    let many: Vec<String> =
        (0..MULTIPART_PARTS - 1).map(|_| part("name=\"a\"", "1")).chain([part("name=\"model\"", "m")]).collect();
    assert!(peek(&body(&many), "XX").is_ok());
    let more = [many, vec![part("name=\"a\"", "1")]].concat();
    assert_eq!(code(&body(&more)), Code::InvalidRequest);
}

proptest! {
    #[test]
    fn no_bytes_panic(body in prop::collection::vec(prop_oneof![Just(b'-'), Just(b'\r'), Just(b'\n'), Just(b'X'), any::<u8>()], 0..200)) {
        let _ = peek(&body, "XX");
        let _ = boundary(&body);
    }

    /// Whatever the content of other parts, the model's own content is what is found.
    #[test]
    fn contents_do_not_matter(content in prop::collection::vec(any::<u8>(), 0..60), model in "[a-z/.-]{1,12}") {
        let mut body = b"--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n".to_vec();
        body.extend_from_slice(&content);
        body.extend_from_slice(format!("\r\n{}--XX--\r\n", part("name=\"model\"", &model)).as_bytes());
        let peek = peek(&body, "XX").unwrap();
        prop_assert_eq!(&*peek.model, model.as_str());
        prop_assert_eq!(&body[peek.span], model.as_bytes());
    }
}
