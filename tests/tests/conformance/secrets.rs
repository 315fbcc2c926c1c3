//! A whole day in the life of a worker with marked secrets: none of them shows anywhere.

use appproxy_fixtures::coordinator::{Failure, Faults};
use appproxy_fixtures::wire::{Dialect, event};
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::scratch::Scratch;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::PATIENCE;
use appproxy_tests::world::{AUTHORITY, PASSWORD_VARIABLE, SECRET_VARIABLE, chat, endpoint, hash};
use serde_json::json;

const MARKS: [&str; 10] = [
    "MARKED-api-secret",
    "MARKED-redis-password",
    "MARKED-admin-token",
    "sk-MARKED-client",
    "sk-MARKED-wrong",
    "sk-MARKED-operator",
    "MARKED-backend-key",
    "MARKED-env-value",
    "MARKED-argument",
    "sk-MARKED-query",
];

pub(crate) fn no_secret_shows_in_logs_metrics_pages_or_answers(shell: Shell) {
    let [secret, password, token, client_key, wrong, operator, backend_key, env_value, argument, query_key] = MARKS;
    let scratch = Scratch::new("secrets").unwrap();
    let journal = scratch.path().join("journal").display().to_string();
    let setup = shell
        .setup()
        .api_secret(secret)
        .redis_password(password)
        .reconcile("300ms")
        .heartbeat("300ms")
        .admin(&format!("token: \"{token}\""))
        .variable("OPERATOR_KEY", operator)
        .variable("BACKEND_KEY", backend_key)
        .sections(&format!(
            "journal: {{file: \"{journal}\"}}\napi_keys:\n  mode: blocking\n  keys:\n    - id: ops\n      key: \"${{OPERATOR_KEY}}\"\nbackends:\n  \
             - name: static\n    url: \"http://127.0.0.1:9/v1\"\n    api_key: \"${{BACKEND_KEY}}\"\n    \
             models: [\"static-model\"]\nlogging:\n  level: trace\n  format: json\n",
        ));
    let mut world = setup.prepare();
    let port = world.replica("r1", &[]);
    world.circuit(1, &[port]);
    world.publish("chat", &[], &[(1, 1.0)]);
    world.key("client", client_key, json!({}));
    world.coordinator.set_faults(Faults::default());
    world.launch_worker();
    let data = world.data().to_owned();
    world.worker().wait_ready(&data, PATIENCE);

    let mut heard = String::new();
    let mut hear = |text: String| {
        heard.push_str(&text);
        heard.push('\n');
    };
    // Good and bad requests of every kind.
    for (key, model) in [(client_key, "chat"), (wrong, "chat"), (client_key, "none"), (operator, "static-model")] {
        let answer = world.chat(key, model);
        hear(format!("{:?} {}", answer.head, answer.text()));
    }
    let gemini = format!("/v1beta/models/chat:generateContent?key={query_key}");
    hear(world.send(&Request::post_json(&gemini, "{}")).text());
    hear(world.send(&chat("chat").header("x-api-key", wrong)).text());
    hear(world.send(&chat("chat").bearer(client_key).header("X-Forwarded-For", wrong)).text());
    let mut broken = Connection::open(&data, PATIENCE).unwrap();
    broken
        .send_raw(format!("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {wrong}\r\nbroken\r\n\r\n").as_bytes())
        .unwrap();
    hear(String::from_utf8_lossy(&broken.raw_to_end().unwrap()).into_owned());

    // A circuit with secrets in its environment, good and malformed; keys of every kind of wrongness.
    let circuit = |id: &str, port: u64| {
        json!({"id": id, "app": "", "protocol": "http", "worker": endpoint(6), "app_mode": "inference",
               "frontend_mode": "router", "envs": {"TOKEN": env_value}, "arguments": argument, "endpoint_id": endpoint(2),
               "route_info": [{"route_id": null, "session_id": endpoint(5), "kernel_host": "127.0.0.1", "kernel_port": port,
               "protocol": "http"}], "session_ids": []})
    };
    for (id, port) in [(endpoint(2), 0), (endpoint(3), 9), ("x".to_owned(), 9)] {
        let message = event::circuit_created(AUTHORITY, &[circuit(&id, port)]);
        world.redis().publish("events_all-appproxy", &message.bytes(Dialect::Both)).unwrap();
    }
    for value in [
        json!({"key_id": "bad", "token_hash": format!("{}zz", hash(client_key))}),
        json!({"key_id": 7, "token_hash": hash(wrong)}),
        json!({"key_id": "bad3", "token_hash": hash(wrong), "expires_at": "soon"}),
    ] {
        world.done("POST", "/dev/plant", &json!({"authority": AUTHORITY, "kind": "key", "value": value}));
    }
    assert_eq!(world.key("second", wrong, json!({})), "acked");
    assert_eq!(world.chat(wrong, "chat").status(), 200);

    // Outages of both, with answers that quote what they were sent.
    let echo = Failure { method: None, path: "/api/worker".into(), status: 401, body: None, times: None };
    world.coordinator.set_faults(Faults { failures: vec![echo], ..Faults::default() });
    world.worker().log().wait_for("api_secret rejected", PATIENCE);
    world.kill_coordinator();
    world.redis().kill();
    world.worker().log().wait_for("bus_lost", PATIENCE);
    for path in ["/health", "/readyz", "/status", "/livez", "/v1/models"] {
        hear(world.send(&Request::get(path).bearer(client_key)).text());
    }
    let admin = world.admin().to_owned();
    for request in [Request::get("/metrics"), Request::get("/metrics").bearer(wrong)] {
        let answer = request.send(&admin).unwrap();
        assert_eq!(answer.status(), 401);
        hear(answer.text());
    }
    let metrics = Request::get("/metrics").bearer(token).send(&admin).unwrap();
    assert_eq!(metrics.status(), 200);
    assert!(metrics.text().contains("appproxy_requests_total"));
    hear(metrics.text());
    // What operators ask the running worker, a file that was refused included.
    let text = format!("{}fallback: {{chains: \"{backend_key}\"}}\n", world.config());
    std::fs::write(world.worker().config(), text).unwrap();
    world.program().signal("HUP").unwrap();
    world.worker().log().wait_for("the configuration is refused", PATIENCE);
    for path in [
        "/admin/",
        "/admin/state",
        "/admin/state?find=ops&most=5",
        "/admin/explain?model=chat&key_id=client",
        "/admin/explain?model=static-model&key_id=ops&format=json",
    ] {
        let answer = Request::get(path).bearer(token).send(&admin).unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let told = answer.text();
        assert!(!path.starts_with("/admin/state") || (told.contains("chains") && told.contains("operator")), "{told}");
        hear(answer.text());
    }
    let drain = Request::new("POST", "/admin/backends/static/drain").bearer(token).send(&admin).unwrap();
    assert_eq!(drain.status(), 200);
    hear(drain.text());
    let at = format!("http://{admin}");
    let questions =
        [&["--model", "chat", "--key-id", "client"][..], &["--model", "static-model", "--key-id", wrong, "--json"]];
    for question in questions {
        let mut command = shell.command(["explain", "--admin", &at, "--token", token]).unwrap();
        let output = command.args(question).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        // What was asked is quoted; nobody has an id like that.
        hear(String::from_utf8_lossy(&output.stdout).replace(wrong, "the id asked for"));
        hear(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = world.config();
    std::fs::write(world.worker().config(), text).unwrap();
    world.redis().restart();
    world.revive_coordinator();
    assert_eq!(world.worker().terminate(PATIENCE).code(), Some(0));

    // The command which shows the configuration, and says what is wrong with one.
    let environment = [
        (SECRET_VARIABLE, secret),
        (PASSWORD_VARIABLE, password),
        ("OPERATOR_KEY", operator),
        ("BACKEND_KEY", backend_key),
    ];
    for (name, text) in
        [("good", world.config()), ("bad", world.config().replace("heartbeat_period", "heartbeat_perod"))]
    {
        let file = scratch.write(&format!("{name}.yaml"), &text).unwrap();
        let mut command = shell.command(["check", "--config"]).unwrap();
        let output = command.arg(file).envs(environment).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(if name == "good" { 0 } else { 2 }),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        hear(String::from_utf8_lossy(&output.stdout).into_owned());
        hear(String::from_utf8_lossy(&output.stderr).into_owned());
    }

    // The journal, and what is made of it.
    let written = std::fs::read_to_string(&journal).unwrap();
    assert!(written.lines().count() > 20 && written.contains("static"), "a whole journal: {written:.300}");
    hear(written);
    for view in [&[][..], &["--state"], &["--diff", "0", "20"]] {
        let output = shell.command(["replay", &journal]).unwrap().args(view).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        hear(String::from_utf8_lossy(&output.stdout).into_owned());
    }

    let log = world.worker().log().lines().join("\n");
    assert!(log.contains("\"target\":\"access\""), "the log is there, as JSON:\n{}", world.worker().log().tail(5));
    for mark in MARKS.iter().map(|mark| (*mark).to_owned()).chain(MARKS.iter().map(|mark| hash(mark))) {
        for (place, text) in [("the log", &log), ("an answer, page, metric or command", &heard)] {
            let line = text.lines().find(|line| line.contains(&mark));
            assert!(line.is_none(), "{mark} shows in {place}: {}", line.unwrap_or_default());
        }
    }
}
