//! The program's commands in an operator's hand: `check`, `run` without a coordinator, `demo`.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use appproxy_tests::http::Request;
use appproxy_tests::process::Program;
use appproxy_tests::puppet::Puppet;
use appproxy_tests::repository;
use appproxy_tests::scratch::Scratch;
use appproxy_tests::shell::{Shell, choose_defect};
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::worker::Worker;
use appproxy_tests::world::{chat, hash};
use serde_json::Value;

fn check(shell: Shell, file: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = shell.command(["check", "--config"]).expect("the program is built");
    let Output { status, stdout, stderr } =
        command.arg(file).envs(variables.iter().copied()).output().expect("it starts");
    (status.code(), String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"))
}

pub(crate) fn check_names_every_mistake_with_key_line_and_what_would_be_right(shell: Shell) {
    let scratch = Scratch::new("check").unwrap();
    let file = scratch
        .write(
            "three.yaml",
            "server:\n  bind_adress: \"0.0.0.0:8080\"\n  shutdown_timeout: 30\nappproxy_router:\n  enabled: true\n  \
             coordinator_url: \"http://127.0.0.1:10200\"\n  api_secret: \"${NOT_SET_ANYWHERE}\"\n  \
             redis_url: \"redis://127.0.0.1:6379/4\"\n  authority: \"a\"\n  hostname: \"h\"\n",
        )
        .unwrap();
    let (code, output, problems) = check(shell, &file, &[]);
    assert_eq!((code, output.as_str()), (Some(2), ""), "{problems}");
    for (line, key, right) in [
        (2, "server.bind_adress", "bind_address"),
        (3, "server.shutdown_timeout", "\"10s\""),
        (7, "appproxy_router.api_secret", "NOT_SET_ANYWHERE"),
    ] {
        let said = problems.lines().find(|problem| problem.contains(key)).unwrap_or_default();
        let place = format!("line {line}");
        assert!(said.contains(&place) && said.contains(right), "{key}: {place}, {right}:\n{problems}");
    }
    assert_eq!(problems.lines().count(), 3, "{problems}");

    for (text, words) in [("a: [", "line"), ("appproxy: {enabled: true}\nappproxy_router: {enabled: true}\n", "both")] {
        let file = scratch.write("broken.yaml", text).unwrap();
        let (code, _, problems) = check(shell, &file, &[]);
        assert!(code == Some(2) && problems.contains(words), "{code:?} {words}: {problems}");
    }
    let (code, _, problems) = check(shell, &scratch.path().join("nowhere.yaml"), &[]);
    assert!(code == Some(2) && problems.contains("nowhere.yaml"), "{code:?} {problems}");
    files_that_cannot_be_had(shell, &scratch);
    // What `check` refuses, `run` refuses in the same words.
    let mut worker = shell.start("server:\n  bind_adress: x\n", &[]).unwrap();
    assert_eq!(worker.program().wait_exit(PATIENCE).code(), Some(2));
    worker.log().wait_for("server.bind_adress", PATIENCE);
    let usage = shell.command(["runn"]).unwrap().output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}

/// `run` refuses them in the same words.
fn files_that_cannot_be_had(shell: Shell, scratch: &Scratch) {
    let notes = scratch.write("notes", "what somebody wrote down\n").unwrap();
    let text = format!(
        "server:\n  bind_address: \"127.0.0.1:8443\"\n  tls:\n    cert_file: /nowhere/cert.pem\n    key_file: {0}\njournal:\n  \
         file: {0}\nappproxy_router:\n  enabled: true\n  coordinator_url: \"http://127.0.0.1:1\"\n  api_secret: s\n  \
         authority: a\n  hostname: h\n  events_enabled: false\n  ca_file: /nowhere/ca.pem\n",
        notes.display()
    );
    let (code, output, problems) = check(shell, &scratch.write("files.yaml", &text).unwrap(), &[]);
    assert_eq!((code, output.as_str(), problems.lines().count()), (Some(2), "", 4), "{problems}");
    let mut worker = shell.start(&text, &[]).unwrap();
    assert_eq!(worker.program().wait_exit(PATIENCE).code(), Some(2));
    for (line, key, file, right) in [
        (4, "server.tls.cert_file", "/nowhere/cert.pem", "a readable PEM file"),
        (5, "server.tls.key_file", "notes", "a private key in PEM form"),
        (15, "appproxy_router.ca_file", "/nowhere/ca.pem", "a readable PEM file"),
        (7, "journal.file", "notes", "a path of the journal's own"),
    ] {
        let said = problems.lines().find(|problem| problem.contains(key)).unwrap_or_default();
        assert!(said.contains(&format!("line {line}")) && said.contains(file) && said.contains(right), "{problems}");
        let words = said.split_once(": ").map_or("", |(_, words)| words);
        worker.log().wait_for(words, PATIENCE);
    }
    let kept = std::fs::read_to_string(&notes).unwrap();
    assert_eq!(kept, "what somebody wrote down\n");
}

pub(crate) fn check_accepts_the_examples_and_shows_them_without_their_secrets(shell: Shell) {
    let root = repository::root();
    let router = check(shell, &root.join("config.example.router.yaml"), &[("APPPROXY_API_SECRET", "MARKED-1")]);
    let plain =
        check(shell, &root.join("config.example.plain.yaml"), &[("VLLM_KEY", "MARKED-2"), ("CLIENT_KEY", "MARKED-3")]);
    let secrets = [("APPPROXY_API_SECRET", "MARKED-4"), ("APPPROXY_JWT_SECRET", "MARKED-5")];
    let legacy = check(shell, &root.join("config.example.legacy.yaml"), &secrets);
    for (code, output, warnings) in [&router, &plain, &legacy] {
        assert_eq!(*code, Some(0), "{warnings}");
        assert!(!output.contains("MARKED") && !warnings.contains("MARKED"), "{output}{warnings}");
    }
    assert!(router.1.contains("authority: \"continuum-router-1\"") && router.1.contains("reconcile_interval: 15s"));
    assert!(plain.1.contains("name: \"vllm-1\"") && plain.1.contains("id: \"ci\""), "{}", plain.1);
    assert!(legacy.1.contains("wildcard_domain: \".models.example.com\""), "{}", legacy.1);
    // An unset variable is named with its key.
    let (code, _, problems) = check(shell, &root.join("config.example.router.yaml"), &[]);
    assert!(code == Some(2) && problems.contains("APPPROXY_API_SECRET"), "{problems}");
}

/// What tests break on purpose is in a program of its own, which nobody installs.
pub(crate) fn the_released_program_cannot_be_made_wrong(shell: Shell) {
    let program = std::fs::read(shell.binary().unwrap()).unwrap();
    let holds = |text: &str| program.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("appproxy_requests_in_flight"), "the search finds what is there");
    let variable = appproxy_core::defects::VARIABLE;
    assert!(!holds(variable), "{variable} is read by {}", shell.program);
    let name = appproxy_core::defects::Defect::FinishedAllTheSame.name();
    assert!(!holds(name), "{name} is in {}", shell.program);
    // And it obeys no such variable, not even with a name that is none.
    let config = "server: {bind_address: \"127.0.0.1:0\"}\nadmin: {bind_address: \"127.0.0.1:0\"}\n";
    let mut worker = shell.start(config, &[(variable, "no-such-defect")]).unwrap();
    let address = data_address(&worker);
    worker.wait_ready(&address, PATIENCE);
}

fn data_address(worker: &Worker) -> String {
    worker.log().wait_for("admin listening", PATIENCE);
    let line = worker.log().wait_for("listening", PATIENCE);
    line.split("address=").nth(1).expect("an address").trim().to_owned()
}

pub(crate) fn a_plain_router_serves_its_backends_to_its_own_keys(shell: Shell) {
    let (one, two) = (Puppet::start(), Puppet::start());
    let config = format!(
        "server:\n  bind_address: \"127.0.0.1:0\"\n  drain_notice: \"0s\"\nhealth_checks: {{enabled: false}}\nadmin:\n  bind_address: \"127.0.0.1:0\"\n\
         backends:\n  - name: one\n    type: vllm\n    url: \"http://127.0.0.1:{}\"\n    api_key: \"${{BACKEND_KEY}}\"\n    \
         models: [\"org/real-name\"]\n    model_configs:\n      - id: \"org/real-name\"\n        aliases: [\"short\"]\n  \
         - name: two\n    url: \"http://127.0.0.1:{}/v1\"\n    models: [\"other\"]\n\
         api_keys:\n  mode: blocking\n  keys:\n    - id: ci\n      key: \"${{CI_KEY}}\"\n      allowed_models: [\"short\"]\n    \
         - id: hashed\n      key_hash: \"{}\"\n      rate_limit: 2\n",
        one.port(),
        two.port(),
        hash("sk-hashed")
    );
    let mut worker = shell.start(&config, &[("BACKEND_KEY", "sk-backend"), ("CI_KEY", "sk-ci")]).unwrap();
    let address = data_address(&worker);
    worker.wait_ready(&address, PATIENCE);

    // An alias is rewritten to the name the backend knows, in place; nothing else of the body is touched. The client's
    // key stays here, the backend's own goes there.
    let body = r#"{"messages" : [ ], "model" :"short","n":1}"#;
    let mut client = Request::post_json("/v1/chat/completions", body).bearer("sk-ci").open(&address).unwrap();
    let visit = one.visit();
    assert_eq!(String::from_utf8_lossy(visit.body()), body.replace("\"short\"", "\"org/real-name\""));
    assert_eq!(visit.headers("authorization"), ["Bearer sk-backend"]);
    assert_eq!(visit.header("content-length"), Some(visit.body().len().to_string()));
    visit.answer("{}");
    let answer = client.answer().unwrap();
    assert_eq!((answer.status(), answer.head.header("x-appproxy-model")), (200, Some("short")));
    assert_eq!(answer.head.header("x-appproxy-backend"), Some("one"));

    let mut client = chat("other").bearer("sk-hashed").open(&address).unwrap();
    let visit = two.visit();
    assert_eq!(visit.line(), "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(visit.headers("authorization"), Vec::<String>::new());
    visit.answer("{}");
    assert_eq!(client.answer().unwrap().status(), 200);

    let status = |request: Request| request.send(&address).unwrap().status();
    assert_eq!(status(chat("short")), 401);
    assert_eq!(status(chat("short").bearer("sk-nope")), 401);
    assert_eq!(status(chat("other").bearer("sk-ci")), 403);
    assert_eq!(status(chat("nothing").bearer("sk-hashed")), 404);
    assert_eq!(status(chat("other").bearer("sk-hashed")), 429);
    let list = Request::get("/v1/models").bearer("sk-hashed").send(&address).unwrap();
    let list: Value = serde_json::from_slice(&list.body).unwrap();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(ids, ["org/real-name", "other", "short"]);

    // A backend that refuses our own credential is our fault, not the client's.
    let mut client = chat("short").bearer("sk-ci").open(&address).unwrap();
    let mut visit = one.visit();
    visit.say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().unwrap().status(), 502);
    assert_eq!(worker.terminate(PATIENCE).code(), Some(0));
}

pub(crate) fn a_plain_router_without_keys_needs_none(shell: Shell) {
    let puppet = Puppet::start();
    let config = format!(
        "server:\n  bind_address: \"127.0.0.1:0\"\nadmin:\n  bind_address: \"127.0.0.1:0\"\nbackends:\n  - name: one\n    \
         url: \"http://127.0.0.1:{}\"\n    models: [\"m\"]\n",
        puppet.port()
    );
    let worker = shell.start(&config, &[]).unwrap();
    // Whoever meant to list keys hears of it.
    worker.log().wait_for("admitted without a key", PATIENCE);
    let address = data_address(&worker);
    let mut client = chat("m").open(&address).unwrap();
    puppet.visit().answer("{}");
    assert_eq!(client.answer().unwrap().status(), 200);
}

pub(crate) fn an_address_that_is_taken_is_named_and_ends_it_with_1(shell: Shell) {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (server, admin, key) in
        [(address.as_str(), "127.0.0.1:0", "server.bind_address"), ("127.0.0.1:0", &address, "admin.bind_address")]
    {
        let config = format!("server:\n  bind_address: \"{server}\"\nadmin:\n  bind_address: \"{admin}\"\n");
        let mut worker = shell.start(&config, &[]).unwrap();
        assert_eq!(worker.program().wait_exit(PATIENCE).code(), Some(1));
        worker.log().wait_for(&format!("{key}: cannot listen at {address}"), PATIENCE);
    }
}

/// Runs a line as it was printed, as somebody who pastes it into a shell.
fn paste(line: &str) -> String {
    let mut command = Command::new("bash");
    choose_defect(&mut command);
    let output = command.args(["-c", line]).output().expect("it starts");
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The line printed after `# what…`.
fn line_for(lines: &[String], what: &str) -> String {
    let at = lines.iter().position(|line| line.strip_prefix("# ").is_some_and(|rest| rest.starts_with(what)));
    let at = at.unwrap_or_else(|| panic!("no line for {what:?} in\n{}", lines.join("\n")));
    lines.get(at + 1).cloned().unwrap_or_default()
}

fn has_curl() -> bool {
    Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// With a redis-server on the path, and on a path that has none.
pub(crate) fn every_line_that_the_demo_prints_works_as_pasted(shell: Shell) {
    every_line_works(shell, "router", paste_everything);
    a_demo_that_is_killed_leaves_no_redis_behind(shell);
    a_demo_that_cannot_record_ends(shell);
}

fn a_demo_that_cannot_record_ends(shell: Shell) {
    let scratch = Scratch::new("no journal").unwrap();
    let notes = scratch.write("notes", "mine\n").unwrap();
    for (file, words) in [(notes.as_path(), "is no journal"), (Path::new("/nowhere/journal"), "can be written")] {
        let mut command = shell.command(["demo", "--port", "0", "--journal"]).unwrap();
        let Output { status, stderr, .. } = command.arg(file).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.code() == Some(2) && said.contains(words) && said.contains(file.to_str().unwrap()), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine\n");
}

/// The same of the legacy worker.
pub(crate) fn every_line_of_the_legacy_demo_works_as_pasted(shell: Shell) {
    every_line_works(shell, "legacy", paste_legacy);
}

fn every_line_works(shell: Shell, mode: &str, paste_all: fn(&[String])) {
    for with_bus in [true, false] {
        let scratch = Scratch::new("demo").unwrap();
        let journal = scratch.path().join("a journal");
        let mut command = shell.command(["demo", "--port", "0", "--mode", mode, "--journal"]).unwrap();
        // What a real site's file would be given is not the demo's.
        command.arg(&journal).env("APPPROXY__ADMIN__BIND_ADDRESS", "MARKED, no address");
        if !with_bus {
            command.env("PATH", "/nowhere");
        }
        let mut demo = Program::start(command).unwrap();
        demo.log().wait_for("Ctrl-C ends everything", Duration::from_secs(30));
        let lines = demo.log().lines();
        let unread = lines.iter().find(|line| line.contains("APPPROXY__ADMIN__BIND_ADDRESS")).expect("it is named");
        assert!(unread.contains("does not read") && !unread.contains("MARKED"), "{unread}");
        let row = |name: &str| {
            let line = lines.iter().find(|line| line.trim_start().starts_with(name));
            line.unwrap_or_else(|| panic!("no row {name}:\n{}", lines.join("\n"))).clone()
        };
        assert!(row("journal").contains(journal.to_str().unwrap()) && row("status page").contains("/admin/"));
        for name in ["worker", "admin", "status page", "coordinator", "replica 1", "replica 2"] {
            assert!(row(name).contains("http://127.0.0.1:"), "{}", row(name));
        }
        let bus =
            row("bus").split("redis://").nth(1).and_then(|rest| rest.split_whitespace().next().map(str::to_owned));
        assert_eq!(bus.is_some(), with_bus, "{}", row("bus"));
        assert_eq!(row("bus").contains("pull-only"), !with_bus, "{}", row("bus"));
        let worker = row("worker").split("http://").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();

        // Without curl the demo is looked at through our own client, a step less far.
        if has_curl() {
            paste_all(&lines);
            paste_what_operators_ask(&lines);
            a_second_node_joins(&lines, &scratch);
        } else {
            assert_eq!(Request::get("/readyz").send(&worker).unwrap().status(), 200);
        }

        demo.signal("INT").unwrap();
        assert_eq!(demo.wait_exit(Duration::from_secs(20)).code(), Some(0));
        assert!(Request::get("/livez").send(&worker).is_err(), "nobody listens any more");
        if let Some(address) = bus {
            wait::until("the demo's redis-server to be gone", PATIENCE, || {
                std::net::TcpStream::connect(&address).is_err()
            });
        }
    }
}

fn paste_what_operators_ask(lines: &[String]) {
    let run = |what: &str| paste(&line_for(lines, what));
    assert!(run("what the worker counted").contains("appproxy_requests_total{model=\"demo-"));
    assert!(run("what the status page shows, as JSON").contains("\"desired_state_digest\""));
    let out = || run("what the status page shows, as JSON").contains("\"health\":\"drained\"");
    assert!(run("drain replica 1").contains("takes no new requests") && run("undrain it").contains("takes requests"));
    run("drain replica 1");
    wait::until("replica 1 to be out", PATIENCE, out);
    run("undrain it");
    wait::until("replica 1 to be back", PATIENCE, || !out());
    wait::until("the journal to have all of it", PATIENCE, || {
        run("what the worker heard so far").contains(": started\n")
    });
    assert!(run("what it held after that").contains("\"registered\": true"));
}

/// By the demo's own lines, as a reader would do it: in a folder of theirs, in another terminal.
fn a_second_node_joins(lines: &[String], scratch: &Scratch) {
    let here = |line: &str| {
        let mut bash = Command::new("bash");
        choose_defect(&mut bash);
        bash.args(["-c", line]).current_dir(scratch.path());
        bash
    };
    let written = here(&line_for(lines, "a second node of this worker")).status().expect("it starts");
    assert!(written.success());
    let mut node = Program::start(here(&format!("exec {}", line_for(lines, "and run it, in another")))).unwrap();
    wait::until("both nodes to say the same", PATIENCE, || {
        let said = paste(&format!("{} || true", line_for(lines, "both nodes say the same digest")));
        let values =
            |name: &str| said.lines().filter(|line| line.contains(name)).map(str::to_owned).collect::<Vec<_>>();
        matches!(&values("desired_state_digest")[..], [one, two] if one == two)
            && matches!(&values("node_id")[..], [one, two] if one != two)
    });
    node.signal("INT").unwrap();
    assert_eq!(node.wait_exit(Duration::from_secs(20)).code(), Some(0));
}

fn paste_legacy(lines: &[String]) {
    let run = |what: &str| paste(&line_for(lines, what));
    assert!(run("a public circuit").contains("Hello from replica-1"), "{}", run("a public circuit"));
    assert!(run("the same by its name").contains("Hello from replica-1"));
    let stream = run("a streaming chat");
    assert!(stream.matches("data: ").count() > 3 && stream.trim_end().ends_with("data: [DONE]"), "{stream}");
    assert!(run("a private circuit without a token").contains("missing_token"));
    assert!(run("with its token").contains("Hello from replica-2"));
    assert!(run("with another circuit's token").contains("token_mismatch"));
    assert!(run("with a token nobody signed").contains("invalid_token"));
    assert!(run("a label that no circuit has").contains("endpoint_not_found"));
    let echoed = run("any path and method");
    assert!(echoed.contains("\"method\":\"PUT\"") && echoed.contains("/debug/echo?any=path"), "{echoed}");
    let models = run("the apex lists");
    assert!(models.contains("demo-open") && models.contains("demo-private"), "{models}");
    assert!(run("and routes by model name").contains("Hello from replica-2"));
    assert!(run("without the token the private").contains("missing_token"));
    assert!(run("create a circuit").contains("\"subdomain\":\"new\""));
    // Within a second where there is no bus; then the replica is asked for its models.
    wait::until("the new circuit", PATIENCE, || run("and use it").contains("Hello from replica-1"));
    run("move it to the other replica");
    wait::until("the new circuit's new replica", PATIENCE, || run("and use it").contains("Hello from replica-2"));
    run("remove it");
    wait::until("the new circuit to be gone", PATIENCE, || run("and use it").contains("endpoint_not_found"));
    assert!(run("mint another token").contains("\"token\":\"eyJ"));
    assert!(run("mint one and use it").contains("Hello from replica-2"));
    assert!(run("mint one that has ended").contains("expired_token"));
    assert!(run("why the private circuit refuses").contains("refused with 401 missing_token"));
    let served = run("and why it serves who shows a good one");
    assert!(served.contains("demo-private: served") && served.contains("a good access token of circuit"), "{served}");
}

fn a_demo_that_is_killed_leaves_no_redis_behind(shell: Shell) {
    let mut demo = Program::start(shell.command(["demo", "--port", "0"]).unwrap()).unwrap();
    demo.log().wait_for("Ctrl-C ends everything", Duration::from_secs(30));
    let line = demo.log().wait_for("redis://", PATIENCE);
    let address = line.split("redis://").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert!(std::net::TcpStream::connect(address).is_ok());
    demo.kill();
    wait::until("its redis-server to be gone", PATIENCE, || std::net::TcpStream::connect(address).is_err());
}

fn paste_everything(lines: &[String]) {
    let run = |what: &str| paste(&line_for(lines, what));
    assert!(run("chat").contains("Hello from replica-"), "{}", run("chat"));
    let stream = run("streaming chat");
    assert!(stream.matches("data: ").count() > 3 && stream.trim_end().ends_with("data: [DONE]"), "{stream}");
    let models = run("the models this key may use");
    assert!(models.contains("demo-chat") && !models.contains("another"), "{models}");
    run("publish another model");
    // Within a second where there is no bus.
    wait::until("the new model to be listed", PATIENCE, || run("the models this key may use").contains("another"));
    run("split it 7:3");
    wait::until("seven to three", PATIENCE, || {
        let counts = run("and count twenty requests of it by backend");
        let mut numbers: Vec<u32> =
            counts.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
        numbers.sort_unstable();
        matches!(numbers[..], [few, many] if few + many == 20 && few.abs_diff(6) <= 2)
    });
    run("unpublish it");
    wait::until("the model to be gone", PATIENCE, || !run("the models this key may use").contains("another"));
    assert!(run("ask for it all the same").contains("model_not_found"));
    assert!(run("why it is refused").contains("another: refused with 404 model_not_found"));
    let served = run("and why the first one is served");
    assert!(served.starts_with("demo-chat: served\n") && served.contains("50.0 %"), "{served}");
    run("kill a replica");
    for _ in 0..4 {
        assert!(run("chat").contains("Hello from replica-2"));
    }
    run("start it again");
    wait::until("the replica to serve again", PATIENCE, || run("chat").contains("Hello from replica-1"));
    run("revoke the key");
    wait::until("the key to be refused", PATIENCE, || run("chat").contains("invalid_api_key"));
    run("give it back");
    wait::until("the key to be taken", PATIENCE, || run("chat").contains("Hello from replica-"));
}
