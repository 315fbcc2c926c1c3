//! Another configuration under a running worker (data-plane 8; traps C1, C2, H4).

use appproxy_tests::http::Request;
use appproxy_tests::puppet::Puppet;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{World, chat, streamed_chat};
use serde_json::json;

/// Writes the worker's file anew, its text changed by `change`.
fn rewrite(world: &mut World, change: impl Fn(String) -> String) {
    let text = change(world.config());
    let path = world.worker().config().to_owned();
    std::fs::write(path, text).expect("the configuration can be written");
}

fn hang_up(world: &mut World) {
    world.program().signal("HUP").expect("a running worker");
}

fn reloads(world: &World, outcome: &str) -> f64 {
    world.metric(&format!("appproxy_config_reloads_total{{outcome=\"{outcome}\"}}"))
}

fn large() -> Request {
    let body = json!({"model": "chat", "messages": [], "x": "y".repeat(2000)}).to_string();
    Request::post_json("/v1/chat/completions", &body).bearer("sk-all")
}

pub(crate) fn c2_a_reload_counts_at_once_and_names_what_needs_a_restart(shell: Shell) {
    let (mut world, puppet) = shell.setup().start_with_puppet();
    let mut stream = streamed_chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.begin_events();
    assert_eq!(stream.head().unwrap().status, 200);
    assert_eq!(world.send(&large()).status(), 200);
    rewrite(&mut world, |text| {
        text.replace("server:\n", "server:\n  max_body_size: \"1KiB\"\n  socket_mode: \"0600\"\n")
            .replace("hostname: \"router.test\"", "hostname: \"other.test\"")
    });
    hang_up(&mut world);
    let line = world.worker().log().wait_for("counts after a restart", PATIENCE);
    assert!(line.contains("in force: server.max_body_size"), "{line}");
    assert!(line.contains("after a restart: appproxy_router, server.socket_mode"), "{line}");
    assert_eq!(world.send(&large()).status(), 413);
    // What was pulled is still in force, and requests under way never noticed.
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    visit.chunk("data: still here\n\n");
    assert_eq!(stream.event().unwrap().unwrap().data, "still here");
    assert_eq!((reloads(&world, "applied"), reloads(&world, "refused")), (1.0, 0.0));
    hang_up(&mut world);
    wait::until("it to be read again", PATIENCE, || reloads(&world, "applied") == 2.0);
    assert_eq!(world.send(&large()).status(), 413);
}

pub(crate) fn c1_a_bad_file_changes_nothing_and_is_forgotten_once_it_is_mended(shell: Shell) {
    let mut world = shell.setup().start();
    for bad in ["selection_strategy: no_such\nserver: {max_body_size: 1KiB}\n", "server: {\n"] {
        let before = reloads(&world, "refused");
        rewrite(&mut world, |_| bad.to_owned());
        wait::until("the bad file to be refused", PATIENCE, || reloads(&world, "refused") == before + 1.0);
        assert_eq!(world.metric("appproxy_config_accepted"), 0.0);
        assert_eq!(world.send(&large()).status(), 200, "nothing of it counts");
    }
    let log = world.worker().log().wait_for("selection_strategy: \"no_such\"", PATIENCE);
    assert!(log.contains("line 1, column"), "{log}");
    // Exactly as it was.
    rewrite(&mut world, |text| text);
    wait::until("the good file to be accepted", PATIENCE, || world.metric("appproxy_config_accepted") == 1.0);
    assert_eq!(reloads(&world, "unchanged"), 1.0);
    // Put in place by a rename, and by a link that is changed over.
    let file = world.worker().config().to_owned();
    let folder = file.parent().unwrap().to_owned();
    let limited = world.config().replace("server:\n", "server:\n  max_body_size: \"1KiB\"\n");
    std::fs::write(folder.join("renamed"), &limited).unwrap();
    std::fs::rename(folder.join("renamed"), &file).unwrap();
    wait::until("the renamed file to count", PATIENCE, || world.send(&large()).status() == 413);
    std::fs::write(folder.join("linked"), world.config()).unwrap();
    std::os::unix::fs::symlink(folder.join("linked"), folder.join("link")).unwrap();
    std::fs::rename(folder.join("link"), &file).unwrap();
    wait::until("the linked file to count", PATIENCE, || world.send(&large()).status() == 200);
}

pub(crate) fn c1_a_refused_file_is_told_everywhere_and_its_mistakes_to_operators_alone(shell: Shell) {
    let mut world = shell.setup().start();
    let page = |world: &World, path: &str| world.page(path);
    let refusal = |world: &World| {
        let state = Request::get("/admin/state").send(world.admin()).unwrap();
        serde_json::from_slice::<serde_json::Value>(&state.body).unwrap()
    };
    assert_eq!(page(&world, "/health")["status"], "healthy");
    assert_eq!(
        (&page(&world, "/status")["config_accepted"], &refusal(&world)["config_refusal"]),
        (&json!(true), &json!(null))
    );
    rewrite(&mut world, |text| format!("{text}api_keys: {{keys: [{{id: x, key: sk-MARKED-in-the-file, nope: 1}}]}}\n"));
    hang_up(&mut world);
    wait::until("the file to be refused", PATIENCE, || reloads(&world, "refused") >= 1.0);
    let health = page(&world, "/health");
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["reasons"], json!(["the configuration file was refused, and the one before it is in force"]));
    assert_eq!(page(&world, "/status")["config_accepted"], false);
    assert_eq!(world.send(&Request::get("/readyz")).status(), 200, "it serves as before");
    let state = refusal(&world);
    let told = state["config_refusal"]["problems"].as_str().unwrap_or_default();
    assert!(told.contains("nope") && told.contains("line "), "{state}");
    assert_eq!(state["health"], health);
    assert!(state["notices"].as_array().unwrap().iter().any(|notice| notice["code"] == "config_refused"), "{state}");
    assert!(!state.to_string().contains("MARKED"), "{state}");
    // It is mended.
    rewrite(&mut world, |text| text);
    hang_up(&mut world);
    wait::until("the good file to be accepted", PATIENCE, || page(&world, "/health")["status"] == "healthy");
    assert_eq!(
        (&page(&world, "/status")["config_accepted"], &refusal(&world)["config_refusal"]),
        (&json!(true), &json!(null))
    );
}

pub(crate) fn static_backends_come_and_go_and_what_goes_drains(shell: Shell) {
    let puppet = Puppet::start();
    let backends = format!(
        "health_checks: {{enabled: false}}\napi_keys: {{keys: [{{id: op, key: sk-op}}]}}\n\
         backends: [{{name: own, url: \"http://127.0.0.1:{}\", models: [own]}}]\n",
        puppet.port()
    );
    let mut world = shell.setup().sections("").start();
    let ask = |world: &World| world.send(&chat("own").bearer("sk-op")).status();
    assert_eq!(ask(&world), 401);
    let with = backends;
    rewrite(&mut world, move |text| format!("{text}{with}"));
    hang_up(&mut world);
    wait::until("the backend and its key to be in force", PATIENCE, || reloads(&world, "applied") == 1.0);
    let mut stream = streamed_chat("own").bearer("sk-op").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.begin_events();
    assert_eq!(stream.head().unwrap().status, 200);
    // Both go: new requests are refused, the running one ends in its own time.
    rewrite(&mut world, |text| text);
    hang_up(&mut world);
    wait::until("both to be gone", PATIENCE, || reloads(&world, "applied") == 2.0);
    assert_eq!(ask(&world), 401);
    visit.chunk("data: to the end\n\n");
    assert_eq!(stream.event().unwrap().unwrap().data, "to the end");
    visit.say("0\r\n\r\n");
    assert!(stream.event().unwrap().is_none(), "a whole answer");
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
}

pub(crate) fn a_backend_has_retries_of_its_own(shell: Shell) {
    let puppet = Puppet::start();
    let sections = format!(
        "health_checks: {{enabled: false}}\npassive: {{failures: 100}}\napi_keys: {{keys: [{{id: op, key: sk-op}}]}}\n\
         backends: [{{name: own, url: \"http://127.0.0.1:{}\", models: [own], \
         retry_override: {{max_attempts: 5, base_delay: 10ms, exponential_backoff: false, jitter: false}}}}]\n",
        puppet.port()
    );
    let world = shell.setup().sections(&sections).start();
    let mut client = chat("own").bearer("sk-op").open(world.data()).unwrap();
    for _ in 0..4 {
        puppet.visit().say("HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    }
    puppet.visit().answer("{}");
    assert_eq!(client.answer().unwrap().status(), 200);
}
