//! What operators ask: the admin listener and `explain`, `check --schema` and `--reference`, values from the environment
//! (data-plane 1, 2, 7, 8).

use std::process::Output;

use appproxy_fixtures::http_message::percent_encoded;
use appproxy_tests::http::{Answer, Request};
use appproxy_tests::repository;
use appproxy_tests::scratch::Scratch;
use appproxy_tests::setup::Setup;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{World, chat, hash};
use serde_json::{Value, json};

const TOKEN: &str = "MARKED-admin-token";

fn guarded(shell: Shell) -> Setup {
    shell.setup().admin(&format!("token: \"{TOKEN}\""))
}

/// Asks the admin listener, showing the token.
fn admin(world: &World, request: &Request) -> Answer {
    request.clone().bearer(TOKEN).send(world.admin()).expect("the admin listener answers")
}

fn state(world: &World) -> Value {
    let answer = admin(world, &Request::get("/admin/state"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// The replicas behind the model of this name, as the state shows them.
fn replicas(world: &World, model: &str) -> Vec<Value> {
    let state = state(world);
    let models = state["models"].as_array().expect("models");
    let named = |shown: &&Value| shown["names"].as_array().is_some_and(|names| names.contains(&json!(model)));
    let shown = models.iter().find(named).unwrap_or_else(|| panic!("{model} is not shown: {state:#}"));
    let endpoints = shown["pool"]["endpoints"].as_array().expect("endpoints");
    let groups = endpoints.iter().flat_map(|endpoint| endpoint["groups"].as_array().expect("groups"));
    groups.flat_map(|group| group["replicas"].as_array().expect("replicas").clone()).collect()
}

fn explain(shell: Shell, admin: &str, token: Option<&str>, question: &[&str]) -> (Option<i32>, String, String) {
    let address = format!("http://{admin}");
    let mut command = shell.command(["explain", "--admin", &address]).expect("the program is built");
    command.args(question);
    if let Some(token) = token {
        command.env("APPPROXY_ADMIN_TOKEN", token);
    }
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    (status.code(), String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"))
}

pub(crate) fn explain_says_beforehand_what_a_request_meets(shell: Shell) {
    let world = guarded(shell).start();
    assert_eq!(world.key("twice", "sk-twice", json!({"rate_limit": 2})), "acked");
    assert_eq!(world.key("narrow", "sk-narrow", json!({"allowed_models": ["other"]})), "acked");
    let told = |question: &[&str]| {
        let (code, text, problems) = explain(shell, world.admin(), Some(TOKEN), question);
        assert_eq!((code, problems.as_str()), (Some(0), ""), "{question:?}");
        text
    };
    let text = told(&["--model", "talk", "--key-id", "all"]);
    assert!(text.starts_with("talk: served\n") && text.contains("<- next") && text.contains("publication"), "{text}");
    let text = told(&["--model", "chat"]);
    assert!(text.starts_with("chat: refused with 401 missing_api_key") && text.contains("--key-id"), "{text}");

    // Each refusal is the one that the request itself gets; asking counts for nothing.
    for (id, key, model) in
        [("narrow", "sk-narrow", "chat"), ("all", "sk-all", "nowhere"), ("twice", "sk-twice", "chat")]
    {
        if id == "twice" {
            for _ in 0..2 {
                let text = told(&["--model", model, "--key-id", id]);
                assert!(text.starts_with("chat: served\n") && text.contains("of 2 requests a minute"), "{text}");
                assert_eq!(world.chat(key, model).status(), 200);
            }
        }
        let text = told(&["--model", model, "--key-id", id, "--json"]);
        let shown: Value = serde_json::from_str(&text).expect("JSON");
        let answer = world.chat(key, model);
        let said: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!((shown["served"].as_bool(), &shown["refusal"]["status"]), (Some(false), &json!(answer.status())));
        assert_eq!(shown["refusal"]["code"], said["error"]["code"], "{text}");
        let last = shown["steps"].as_array().and_then(|steps| steps.last()).expect("steps");
        assert!(last["passes"] == false && last["to_change"].is_string(), "{text}");
    }

    // What cannot be asked is said in words that help.
    for (token, words) in [(None, "APPPROXY_ADMIN_TOKEN"), (Some("another"), "401")] {
        let (code, text, problems) = explain(shell, world.admin(), token, &["--model", "chat"]);
        assert!((code, text.as_str()) == (Some(1), "") && problems.contains(words), "{code:?} {text} {problems}");
    }
    let nobody = format!("127.0.0.1:{}", wait::free_port().unwrap());
    let (code, _, problems) = explain(shell, &nobody, None, &["--model", "chat"]);
    assert!(code == Some(1) && problems.contains("is the worker running"), "{code:?} {problems}");
    let (code, _, problems) = explain(shell, world.admin(), Some(TOKEN), &["--model", "chat", "--client-ip", "here"]);
    assert!(code == Some(1) && problems.contains("192.0.2.7"), "{code:?} {problems}");
}

pub(crate) fn a_drained_backend_gets_no_request_until_it_is_undrained(shell: Shell) {
    let mut world = guarded(shell).prepare();
    let ports = [world.replica("r1", &[]), world.replica("r2", &[])];
    world.circuit(1, &ports);
    world.publish("chat", &[], &[(1, 1.0)]);
    world.key("all", "sk-all", json!({}));
    world.start_worker();
    let shown = replicas(&world, "chat");
    assert_eq!(shown.len(), 2);
    let name_at = |port: u16| {
        let place = format!("127.0.0.1:{port}");
        let found = shown.iter().find(|replica| replica["address"] == json!(place));
        found.and_then(|replica| replica["backend"].as_str()).expect("the replica is shown").to_owned()
    };
    let names = ports.map(name_at);
    let tell = |name: &str, verb: &str, status: u16| {
        let path = format!("/admin/backends/{}/{verb}", percent_encoded(name));
        let answer = admin(&world, &Request::new("POST", &path));
        assert_eq!(answer.status(), status, "{}", answer.text());
    };
    let until_drained = |name: &str, drained: bool| {
        wait::until(&format!("{name} to be drained: {drained}"), PATIENCE, || {
            let shown = replicas(&world, "chat");
            let one = shown.iter().find(|replica| replica["backend"] == json!(name)).expect("it stays in the state");
            (one["health"] == "drained") == drained
        });
    };

    tell(&names[0], "drain", 200);
    until_drained(&names[0], true);
    let chats = |number: usize| -> Vec<String> {
        let served_by = |_| {
            let answer = world.chat("sk-all", "chat");
            assert_eq!(answer.status(), 200, "{}", answer.text());
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            body["served_by"].as_str().expect("a name").to_owned()
        };
        (0..number).map(served_by).collect()
    };
    assert!(chats(12).iter().all(|replica| replica == "r2"));
    let (_, text, _) = explain(shell, world.admin(), Some(TOKEN), &["--model", "chat", "--key-id", "all"]);
    assert!(text.contains("drained"), "{text}");
    assert_eq!(world.chat("sk-all", "chat").status(), 200);

    // With both of them out, nobody serves; and what the coordinator says of keys and models does not bring them back.
    tell(&names[1], "drain", 200);
    until_drained(&names[1], true);
    world.wait_chat("sk-all", "chat", 503, PATIENCE);
    assert_eq!(world.key("more", "sk-more", json!({})), "acked");
    assert_eq!(world.publish("chat", &["talk"], &[(1, 1.0)]), "acked");
    assert_eq!(world.chat("sk-all", "chat").status(), 503);

    names.iter().for_each(|name| tell(name, "undrain", 200));
    names.iter().for_each(|name| until_drained(name, false));
    world.wait_chat("sk-all", "chat", 200, PATIENCE);
    let served = chats(24);
    assert!(["r1", "r2"].iter().all(|one| served.iter().any(|replica| replica == one)), "{served:?}");
    tell("no-such-backend", "drain", 404);
    let path = format!("/admin/backends/{}/drain", percent_encoded(&names[0]));
    assert_eq!(admin(&world, &Request::get(&path)).status(), 405);
}

pub(crate) fn the_admin_listener_asks_for_its_token_and_without_one_changes_nothing(shell: Shell) {
    let world = guarded(shell).start();
    let name = replicas(&world, "chat").remove(0)["backend"].as_str().expect("a name").to_owned();
    let drain = format!("/admin/backends/{}/drain", percent_encoded(&name));
    let asked = [
        Request::get("/metrics"),
        Request::get("/admin/state"),
        Request::get("/admin/explain?model=chat"),
        Request::get("/elsewhere"),
        Request::new("POST", &drain),
    ];
    for request in &asked {
        for shown in [None, Some("Bearer another"), Some("Bearer sk-all"), Some("Bearer "), Some(TOKEN)] {
            let request = match shown {
                Some(shown) => request.clone().header("Authorization", shown),
                None => request.clone(),
            };
            let answer = request.send(world.admin()).unwrap();
            assert_eq!(answer.status(), 401, "{request:?} {shown:?}: {}", answer.text());
            assert_eq!(answer.head.header("www-authenticate"), Some("Bearer"));
            assert!(!answer.text().contains(&name) && !answer.text().contains("appproxy_"), "{}", answer.text());
        }
    }
    // The page holds nothing, so that a browser may ask for the token.
    let page = Request::get("/admin/").send(world.admin()).unwrap();
    assert!(page.status() == 200 && !page.text().contains(&name), "{}", page.status());
    assert!(page.head.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'")));
    // It is found without its last slash too.
    let there = Request::get("/admin").send(world.admin()).unwrap();
    assert_eq!((there.status(), there.head.header("location")), (308, Some("/admin/")));
    let counts = [200, 200, 200, 404];
    for (request, status) in asked.iter().zip(counts) {
        assert_eq!(admin(&world, request).status(), status, "{request:?}");
    }
    assert!(replicas(&world, "chat").iter().all(|replica| replica["health"] != "drained"));

    // Without a token everything can be read, and nothing changed.
    let open = shell.setup().start();
    let state = Request::get("/admin/state").send(open.admin()).unwrap();
    assert_eq!(state.status(), 200);
    let shown: Value = serde_json::from_slice(&state.body).expect("JSON");
    let backend = &shown["models"][0]["pool"]["endpoints"][0]["groups"][0]["replicas"][0]["backend"];
    let drain = format!("/admin/backends/{}/drain", percent_encoded(backend.as_str().expect("a name")));
    let refused = Request::new("POST", &drain).send(open.admin()).unwrap();
    assert!(refused.status() == 403 && refused.text().contains("admin.token"), "{}", refused.text());
    assert_eq!(open.chat("sk-all", "chat").status(), 200);
}

pub(crate) fn the_state_shows_everything_but_secrets(shell: Shell) {
    let marks = ["MARKED-api-secret", "MARKED-redis", "MARKED-backend-key", "sk-MARKED-operator", "sk-MARKED-client"];
    let [secret, password, backend_key, operator, client] = marks;
    let setup = guarded(shell)
        .api_secret(secret)
        .redis_password(password)
        .variable("OPERATOR_KEY", operator)
        .variable("BACKEND_KEY", backend_key)
        .sections(
            "api_keys:\n  mode: blocking\n  keys:\n    - id: ops\n      key: \"${OPERATOR_KEY}\"\nbackends:\n  \
             - name: static\n    url: \"http://127.0.0.1:9/v1\"\n    api_key: \"${BACKEND_KEY}\"\n    \
             models: [\"static-model\"]\n",
        );
    let world = setup.start();
    assert_eq!(world.key("client", client, json!({"allowed_models": ["chat"]})), "acked");
    assert_eq!(world.chat(client, "chat").status(), 200);
    let shown = state(&world);
    let text = shown.to_string();
    assert!(shown["kind"] == "ROUTER worker" && shown["ready"] == true, "{text}");
    let key = |id: &str| shown["keys"].as_array().is_some_and(|keys| keys.iter().any(|key| key["id"] == id));
    assert!(key("client") && key("all"), "{text}");
    assert_eq!((replicas(&world, "chat").len(), replicas(&world, "static-model").len()), (1, 1));
    assert!(shown["notices"].as_array().is_some_and(|notices| !notices.is_empty()), "{text}");
    let told = admin(&world, &Request::get("/admin/explain?model=static-model&key_id=ops&format=json")).text();
    let page = admin(&world, &Request::get("/admin/")).text();
    for mark in marks.into_iter().chain([TOKEN]) {
        for text in [&text, &told, &page] {
            assert!(!text.contains(mark) && !text.contains(&hash(mark)), "{mark} shows in {text}");
        }
    }
}

pub(crate) fn a_key_is_shown_with_when_it_was_last_seen(shell: Shell) {
    let world = guarded(shell).start();
    assert_eq!(world.key("seen", "sk-seen", json!({"allowed_models": ["none"]})), "acked");
    let last_seen = |id: &str| {
        let state = state(&world);
        let keys = state["keys"].as_array().expect("keys").clone();
        let key = keys.into_iter().find(|key| key["id"] == id);
        key.unwrap_or_else(|| panic!("{id} is not shown: {state}"))["last_seen_seconds_ago"].clone()
    };
    assert_eq!((last_seen("seen"), last_seen("all")), (Value::Null, Value::Null));
    // A refusal is a sight of it as well; a key that is none is no sight of any.
    assert_eq!(world.chat("sk-seen", "chat").status(), 403);
    assert_eq!(world.chat("sk-nobody", "chat").status(), 401);
    wait::until("the key to have been seen", PATIENCE, || last_seen("seen").is_u64());
    assert_eq!(last_seen("all"), Value::Null);
}

pub(crate) fn check_prints_the_schema_and_the_reference_of_every_key(shell: Shell) {
    let print = |what: &[&str]| {
        let Output { status, stdout, stderr } = shell.command(["check"]).unwrap().args(what).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    let (code, reference, problems) = print(&["--reference"]);
    assert_eq!((code, problems.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(repository::root().join("core/docs/configuration.md")).unwrap();
    assert!(reference == page, "core/docs/configuration.md is not what check --reference prints");
    let (code, schema, problems) = print(&["--schema"]);
    assert_eq!((code, problems.as_str()), (Some(0), ""));
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    // Every key of the reference is in the schema.
    let mut keys = 0;
    for key in page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()) {
        let path = key.replace("[].", ".items.");
        let pointer = path.split('.').map(|name| match name {
            "items" => "/items".to_owned(),
            name => format!("/properties/{name}"),
        });
        assert!(schema.pointer(&pointer.collect::<String>()).is_some(), "{key} is not in the schema");
        keys += 1;
    }
    assert!(keys > 50, "only {keys} keys were found: does this scenario still read the page rightly?");
    assert_eq!(schema["additionalProperties"], false);
    let (code, text, problems) = print(&[]);
    assert!((code, text.as_str()) == (Some(2), "") && problems.contains("--config"), "{code:?} {text} {problems}");
}

pub(crate) fn a_variable_takes_the_place_of_a_key_of_the_file(shell: Shell) {
    // A running worker, with a value that has its form and a list of sections that grows by one.
    let world = shell
        .setup()
        .variable("APPPROXY__SERVER__MAX_BODY_SIZE", "1KiB")
        .variable("APPPROXY__ADMIN__TOKEN", TOKEN)
        .start();
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    let body = json!({"model": "chat", "messages": [], "x": "y".repeat(2000)}).to_string();
    let large = Request::post_json("/v1/chat/completions", &body).bearer("sk-all");
    assert_eq!(world.send(&large).status(), 413);
    assert_eq!(Request::get("/metrics").send(world.admin()).unwrap().status(), 401);
    assert_eq!(admin(&world, &Request::get("/metrics")).status(), 200);
    assert_eq!(world.send(&chat("chat")).status(), 401);

    // `check` shows what is in effect, and what is wrong in a variable by its name.
    let scratch = Scratch::new("overrides").unwrap();
    let file = scratch.write("config.yaml", "server:\n  bind_address: \"127.0.0.1:1\"\n").unwrap();
    let check = |name: &str, value: &str| {
        let mut command = shell.command(["check", "--config"]).unwrap();
        let Output { status, stdout, stderr } = command.arg(&file).env(name, value).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    let (code, shown, problems) = check("APPPROXY__SERVER__BIND_ADDRESS", "127.0.0.1:2,127.0.0.1:3");
    assert_eq!(code, Some(0), "{problems}");
    assert!(
        shown.contains("127.0.0.1:2") && shown.contains("127.0.0.1:3") && !shown.contains("127.0.0.1:1"),
        "{shown}"
    );
    let (code, shown, _) = check("APPPROXY__ADMIN__TOKEN", TOKEN);
    assert!(code == Some(0) && shown.contains("token: \"***\"") && !shown.contains(TOKEN), "{shown}");
    for (name, value, words) in [
        ("APPPROXY__SERVER__MAX_BODY_SIZE", "much", "max_body_size"),
        ("APPPROXY__SERVER__BIND_ADRESS", "127.0.0.1:2", "bind_address"),
    ] {
        let (code, shown, problems) = check(name, value);
        assert_eq!((code, shown.as_str()), (Some(2), ""), "{name}={value}");
        assert!(problems.contains("environment") && problems.contains(words), "{problems}");
    }
}
