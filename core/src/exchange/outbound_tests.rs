use super::*;
use crate::exchange::Admitted;
use crate::exchange::choosing::Tries;
use crate::exchange::load::{Loads, Ticket};
use crate::exchange::selection::Pick;
use crate::exchange::testing::{World, assert_head, chat, header, request};
use http::request::Parts;
use std::sync::Arc;

/// Asks a backend that serves `served` and is otherwise what `change` makes of a vLLM one.
fn built(
    world: &mut World,
    parts: Parts,
    body: &str,
    served: &[&str],
    change: impl FnOnce(&mut Backend),
) -> Request<Payload> {
    let admitted = world.admit(parts, body).unwrap();
    let pool = world.view.model("m1").unwrap();
    let mut backend = (*pool.candidates().next().unwrap().backend).clone();
    backend.served_names = served.iter().map(|name| Arc::from(*name)).collect();
    change(&mut backend);
    built_for(admitted, &backend, world).unwrap()
}

fn built_for(admitted: Admitted, backend: &Backend, world: &World) -> Option<Request<Payload>> {
    let ticket = Ticket::take(&Loads::new().of(&backend.name));
    let pick = Pick { backend: Arc::new(backend.clone()), ticket, target: backend.target().map(Arc::new) };
    let attempt = Tries::begun(admitted).attempt(pick, false, world.node()).ok()?;
    let request = attempt.request();
    assert_head(&attempt, &request);
    Some(request)
}

fn text(request: Request<Payload>) -> String {
    assert_eq!(header(request.headers(), "content-length"), request.body().len().to_string());
    let frames = request.into_body().into_frames();
    String::from_utf8(frames.concat()).unwrap()
}

#[test]
fn a_body_goes_on_byte_for_byte_unless_the_name_must_change() {
    let body = " {\"a\": 1.0e+2, \"model\" :\"m1\",\n\"b\":\"\\u00e9\"} ";
    let renamed = " {\"a\": 1.0e+2, \"model\" :\"srv\\\"d/1\",\n\"b\":\"\\u00e9\"} ";
    for (served, wanted) in [
        (&[][..], body),
        (&["m1"], body),
        (&["other", "m1"], body),
        (&["srv\"d/1"], renamed),
        (&["srv\"d/1", "other"], renamed),
    ] {
        let mut world = World::new();
        assert_eq!(text(built(&mut world, chat("all"), body, served, |_| ())), wanted, "{served:?}");
        world.rules.rewrite_model = RewriteModel::Never;
        assert_eq!(text(built(&mut world, chat("all"), body, served, |_| ())), body, "{served:?}");
    }
}

#[test]
fn an_untouched_body_is_not_copied() {
    let mut world = World::new();
    let body = Bytes::from_static(b"{\"model\":\"m1\",\"x\":1}");
    let mut admit = || world.pass(chat("all")).unwrap().route(body.clone(), world.node()).unwrap();
    let (first, second) = (admit(), admit());
    let mut backend = (*world.view.model("m1").unwrap().candidates().next().unwrap().backend).clone();
    let whole = built_for(first, &backend, &world).unwrap().into_body().into_frames();
    assert_eq!(whole[0].as_ptr(), body.as_ptr());
    backend.served_names = Arc::from([Arc::from("s")]);
    let [before, name, after] = built_for(second, &backend, &world).unwrap().into_body().into_frames();
    assert_eq!((before.as_ptr(), after.as_ptr()), (body.as_ptr(), body[13..].as_ptr()));
    assert_eq!(&name[..], b"\"s\"");
}

#[test]
fn a_multipart_name_is_rewritten_as_it_is() {
    let form = "--X\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm1\r\n--X\r\n\r\n\0\r\n--X--\r\n";
    let lines = ["x-api-key: all", "content-type: multipart/form-data; boundary=X"];
    let head = request("POST", "/v1/audio/transcriptions", &lines);
    let sent = text(built(&mut World::new(), head, form, &["srv\"d"], |_| ()));
    assert_eq!(sent, form.replace("m1", "srv\"d"));
}

#[test]
fn the_name_in_a_gemini_path_is_rewritten() {
    let mut world = World::new();
    let path = "/v1beta/models/gemini:streamGenerateContent?alt=sse&key=root";
    let asked = |world: &mut World, served: &[&str]| {
        let admitted = world.admit(request("POST", path, &[]), "{\"a\":1}").unwrap();
        let mut backend = (**world.view.backend("gemini").unwrap()).clone();
        backend.base_path = Arc::from("");
        backend.served_names = served.iter().map(|name| Arc::from(*name)).collect();
        built_for(admitted, &backend, world).unwrap()
    };
    let same = asked(&mut world, &["gemini"]);
    assert_eq!(same.uri(), "https://gemini.example.com:443/v1beta/models/gemini:streamGenerateContent?alt=sse");
    let renamed = asked(&mut world, &["org/g 2"]);
    assert_eq!(renamed.uri(), "https://gemini.example.com:443/v1beta/models/org%2Fg%202:streamGenerateContent?alt=sse");
    assert_eq!(text(renamed), "{\"a\":1}");
}

#[test]
fn the_address_host_and_method_are_the_replicas() {
    let mut world = World::new();
    let parts = request("POST", "/v1/completions?x=%20y", &["x-api-key: all", "host: models.example.com"]);
    let sent =
        built(&mut world, parts.clone(), "{\"model\":\"m1\"}", &[], |backend| backend.host = Arc::from("2001:db8::5"));
    assert_eq!(sent.uri(), "http://[2001:db8::5]:9000/v1/completions?x=%20y");
    assert_eq!(header(sent.headers(), "host"), "[2001:db8::5]:9000");
    assert_eq!(header(sent.headers(), "x-forwarded-host"), "models.example.com");
    assert_eq!(header(sent.headers(), "x-forwarded-for"), "192.0.2.1");
    assert_eq!(sent.method(), "POST");
    let broken = world.admit(parts, "{\"model\":\"m1\"}").unwrap();
    let mut backend = (*world.view.model("m1").unwrap().candidates().next().unwrap().backend).clone();
    backend.host = Arc::from("no host");
    assert!(built_for(broken, &backend, &world).is_none());
}

#[test]
fn a_configured_credential_takes_the_place_of_the_clients() {
    let body = "{\"model\":\"m1\"}";
    let lines = ["authorization: Bearer all", "x-api-key: clients", "x-goog-api-key: clients"];
    for (kind, name, value) in [
        (BackendKind::OpenAi, "authorization", "Bearer ours"),
        (BackendKind::Generic, "authorization", "Bearer ours"),
        (BackendKind::Vllm, "authorization", "Bearer ours"),
        (BackendKind::Anthropic, "x-api-key", "ours"),
        (BackendKind::Gemini, "x-goog-api-key", "ours"),
    ] {
        for forward in [false, true] {
            let mut world = World::new();
            world.rules.forward_credentials = forward;
            let sent = built(&mut world, request("POST", "/v1/messages", &lines), body, &[], |backend| {
                backend.kind = kind;
                backend.credential = Some(crate::secret::Secret::new("ours"));
            });
            for place in ["authorization", "x-api-key", "x-goog-api-key"] {
                assert_eq!(header(sent.headers(), place), if place == name { value } else { "" }, "{kind:?}");
            }
            assert!(!format!("{sent:?}").contains("ours"));
        }
    }
    for (forward, wanted) in [(false, ""), (true, "Bearer all")] {
        let mut world = World::new();
        world.rules.forward_credentials = forward;
        let sent = built(&mut world, request("POST", "/v1/messages", &lines), body, &[], |_| ());
        assert_eq!(header(sent.headers(), "authorization"), wanted);
    }
}

#[test]
fn what_each_kind_speaks() {
    use Surface::{Anthropic, Gemini, OpenAi, Rerank};
    for (kind, spoken) in [
        (BackendKind::Vllm, &[OpenAi, Rerank, Anthropic][..]),
        (BackendKind::Generic, &[OpenAi, Rerank, Anthropic]),
        (BackendKind::OpenAi, &[OpenAi]),
        (BackendKind::Anthropic, &[Anthropic]),
        (BackendKind::Gemini, &[Gemini]),
    ] {
        for surface in [OpenAi, Rerank, Anthropic, Gemini] {
            assert_eq!(speaks(kind, surface), spoken.contains(&surface), "{kind} {surface:?}");
        }
    }
}
