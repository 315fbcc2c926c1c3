//! Bodies: packed ones, and how large they may be.

use std::io::Write;

use appproxy_tests::http::{Answer, Request};
use appproxy_tests::plain::{NO_PROBES, Plain};
use appproxy_tests::puppet::Puppet;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::PATIENCE;
use appproxy_tests::world::World;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

const LIMIT: usize = 64 * 1024;

fn packed(world: &World, coding: &str, body: Vec<u8>) -> Answer {
    let request = Request::post_json("/v1/chat/completions", "").bearer("sk-all").header("Content-Encoding", coding);
    world.send(&request.body(body))
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(plain).expect("memory");
    packer.finish().expect("memory")
}

pub(crate) fn w1_packed_bodies_are_understood_before_the_model_is_read(shell: Shell) {
    let (world, puppet) = shell.setup().server("max_body_size: \"64KiB\"").start_with_puppet();
    let body = br#"{"model":"puppet","messages":[{"role":"user","content":"hi"}]}"#;
    let (mut zlib, mut raw) =
        (ZlibEncoder::new(Vec::new(), Compression::default()), DeflateEncoder::new(Vec::new(), Compression::default()));
    zlib.write_all(body).unwrap();
    raw.write_all(body).unwrap();
    for (coding, bytes) in [
        ("gzip", gzip(body)),
        ("GZIP", gzip(body)),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
    ] {
        let request = Request::post_json("/v1/chat/completions", "").bearer("sk-all");
        let mut client = request.header("Content-Encoding", coding).body(bytes).open(world.data()).unwrap();
        let visit = puppet.visit();
        // Plain bytes with their length, and no word of a coding.
        assert_eq!((visit.body(), visit.header("content-encoding")), (&body[..], None), "{coding}");
        assert_eq!(visit.header("content-length"), Some(body.len().to_string()));
        visit.answer("{}");
        assert_eq!(client.answer().unwrap().status(), 200);
    }
    let unknown = packed(&world, "zz", gzip(body));
    assert!(unknown.status() == 415 && unknown.text().contains("unsupported_encoding"), "{}", unknown.text());
    let broken = packed(&world, "gzip", body.to_vec());
    assert_eq!(broken.status(), 400, "{}", broken.text());
    // A kilobyte that unpacks to more than a thousand times as much.
    let bomb = gzip(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < LIMIT);
    let refused = packed(&world, "gzip", bomb);
    assert!(refused.status() == 413 && refused.text().contains("body_too_large"), "{}", refused.text());
    assert!(!puppet.was_visited(), "nothing of this is a replica's business");
}

/// A JSON body of exactly this many bytes.
fn sized(length: usize) -> String {
    let begin = r#"{"model":"chat","max_tokens":1,"input":"x","messages":[],"x":""#;
    format!("{begin}{}\"}}", "y".repeat(length - begin.len() - 2))
}

/// A form of exactly this many bytes.
fn form(length: usize) -> Vec<u8> {
    let head = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat\r\n--B\r\n\
                Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let tail = "\r\n--B--\r\n";
    format!("{head}{}{tail}", "z".repeat(length - head.len() - tail.len())).into_bytes()
}

pub(crate) fn w2_one_configured_body_limit_to_the_byte_on_every_route(shell: Shell) {
    let world = shell.setup().server("max_body_size: \"64KiB\"").start();
    let mut refused = 0.0;
    for (length, over) in [(LIMIT - 1, false), (LIMIT, false), (LIMIT + 1, true)] {
        for path in ["/v1/chat/completions", "/v1/embeddings", "/v1/messages", "/v1/responses", "/v1/rerank"] {
            let body = sized(length);
            let plain = Request::post_json(path, &body).bearer("sk-all");
            let chunked = Request::post_json(path, &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
                .bearer("sk-all")
                .header("Transfer-Encoding", "chunked");
            for request in [plain, chunked] {
                let answer = world.send(&request);
                assert_eq!(answer.status() == 413, over, "{path} {length}: {} {}", answer.status(), answer.text());
                assert!(!over || answer.text().contains("too large") || answer.text().contains("too_large"));
                refused += f64::from(u8::from(over));
            }
        }
        let request = Request::new("POST", "/v1/audio/transcriptions").bearer("sk-all").body(form(length));
        let answer = world.send(&request.header("Content-Type", "multipart/form-data; boundary=B"));
        assert_eq!(answer.status() == 413, over, "form of {length}: {} {}", answer.status(), answer.text());
        refused += f64::from(u8::from(over));
    }
    assert_eq!(world.metric("appproxy_refusals_total{reason=\"body_too_large\"}"), refused);

    // Three megabytes of picture are nothing special where nobody set a limit.
    let world = shell.setup().start();
    let picture = format!("data:image/png;base64,{}", "A".repeat(3 << 20));
    let body = serde_json::json!({"model": "chat", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": picture}}]}]});
    let answer = world.send(&Request::post_json("/v1/chat/completions", &body.to_string()).bearer("sk-all"));
    assert_eq!(answer.status(), 200, "{}", answer.text().get(..300).unwrap_or_default());
}

/// `model` stands in the path there, so that nothing needs the body but the replica; its limit is the same.
pub(crate) fn w2_the_gemini_path_has_the_same_limit(shell: Shell) {
    let puppet = Puppet::start();
    let port = puppet.port();
    let backend =
        format!("  - {{name: vendor, type: gemini, url: \"http://127.0.0.1:{port}/v1beta\", models: [chat]}}\n");
    // `Plain` begins with a server section of its own.
    let limit = [("APPPROXY__SERVER__MAX_BODY_SIZE", "64KiB")];
    let mut world = Plain::start_given(shell, &[], &backend, NO_PROBES, &limit);
    let mut refused = 0.0;
    let verbs = ["generateContent", "streamGenerateContent?alt=sse", "countTokens", "embedContent"];
    for (verb, chunked) in verbs.into_iter().flat_map(|verb| [(verb, false), (verb, true)]) {
        let path = format!("/v1beta/models/chat:{verb}");
        for (length, packed) in
            [(LIMIT - 1, false), (LIMIT, false), (LIMIT + 1, false), (LIMIT, true), (LIMIT + 1, true)]
        {
            let over = length > LIMIT;
            let plain = sized(length).replace("\"model\":\"chat\"", "\"other\":\"chat\"");
            let body = if packed { gzip(plain.as_bytes()) } else { plain.clone().into_bytes() };
            let request = Request::new("POST", &path).header("Content-Type", "application/json");
            let request = if packed { request.header("Content-Encoding", "gzip") } else { request };
            let request = if chunked {
                let framed = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
                request.header("Transfer-Encoding", "chunked").body(framed)
            } else {
                request.body(body)
            };
            let mut client = request.open(world.data()).unwrap();
            if !over {
                let visit = puppet.visit();
                assert!(visit.body() == plain.as_bytes(), "{path} {length}: {} bytes came", visit.body().len());
                visit.answer("{}");
            }
            let answer = client.answer().unwrap();
            assert_eq!(answer.status(), if over { 413 } else { 200 }, "{path} {length} {packed}: {}", answer.text());
            if over {
                let told: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
                assert_eq!(
                    (&told["error"]["code"], &told["error"]["status"]),
                    (&413.into(), &"INVALID_ARGUMENT".into())
                );
                refused += 1.0;
            }
        }
    }
    assert!(!puppet.was_visited(), "what is too large is no replica's business");
    assert_eq!(world.metric("appproxy_refusals_total{reason=\"body_too_large\"}"), refused);
    let line = world.worker().log().wait_for("status=413", PATIENCE);
    assert!(line.contains("path=\"/v1beta/models/chat:generateContent\""), "{line}");
}
