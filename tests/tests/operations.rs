//! What operators copy from the repository is true: the dashboard and the alerts ask for metrics that are exported, the
//! manifests are whole and their configuration passes `check`, the images and units call commands that exist.

use std::collections::BTreeSet;
use std::fs;

use appproxy_core::config;
use appproxy_core::serving::Health;
use appproxy_core::telemetry::{Row, TABLE};
use appproxy_tests::repository;
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(repository::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Vec<Value> {
    let parse = |text: &str| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    read(path).split("\n---\n").map(parse).collect()
}

/// The series names that a metric has.
fn series(row: &Row) -> impl Iterator<Item = String> {
    let endings: &[&str] = match row.kind {
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_sum", "_count"],
        "info" => &["_info"],
        "gauge" => &[""],
        other => panic!("the kind {other} of {}", row.name),
    };
    endings.iter().map(|ending| format!("{}{ending}", row.name))
}

/// Every series name that `/metrics` can hold.
fn exported() -> BTreeSet<String> {
    TABLE.iter().flat_map(series).collect()
}

/// The `appproxy_…` names that an expression asks for.
fn asked_for(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("appproxy_"))
}

fn every_expression(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                match inner.as_str() {
                    Some(text) if key == "expr" || key == "query" => found.push(text.to_owned()),
                    _ => every_expression(inner, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| every_expression(item, found)),
        _ => {}
    }
}

fn all_are_exported(file: &str, value: &Value) -> BTreeSet<String> {
    let mut expressions = Vec::new();
    every_expression(value, &mut expressions);
    let asked: BTreeSet<String> = expressions.iter().flat_map(|text| asked_for(text)).map(str::to_owned).collect();
    let unknown: Vec<_> = asked.difference(&exported()).cloned().collect();
    assert!(unknown.is_empty(), "{file} asks for series that nobody exports: {unknown:?}");
    asked
}

#[test]
fn the_dashboard_shows_what_is_exported() {
    let dashboard: Value = serde_json::from_str(&read("fixtures/operations/dashboard.json")).expect("JSON");
    let shown = all_are_exported("dashboard.json", &dashboard);
    let unseen = |row: &&Row| !series(row).any(|name| shown.contains(&name));
    let hidden: Vec<_> = TABLE.iter().filter(unseen).map(|row| row.name).collect();
    assert!(hidden.is_empty(), "the dashboard shows nothing of {hidden:?}");

    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels share an id");
}

#[test]
fn the_alerts_ask_for_what_is_exported() {
    let alerts = yaml("fixtures/operations/alerts.yaml").remove(0);
    all_are_exported("alerts.yaml", &alerts);
    let rules = alerts["groups"][0]["rules"].as_array().expect("rules");
    let names: BTreeSet<_> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    assert_eq!(names.len(), rules.len(), "two alerts share a name, or one has none");
    for rule in rules {
        assert!(rule["annotations"]["description"].is_string(), "{rule} does not say what to do");
    }

    // A label value that no backend can have would make a silent alert.
    let labels: BTreeSet<_> = Health::ALL.iter().map(|health| health.label()).collect();
    let text = read("fixtures/operations/alerts.yaml");
    let (_, rest) = text.split_once("health=~\"").expect("an alert looks at health");
    let (alternatives, _) = rest.split_once('"').expect("a closed quote");
    assert!(alternatives.split('|').all(|label| labels.contains(label)), "{alternatives} is not of {labels:?}");
}

#[test]
fn the_manifests_are_whole_and_their_configuration_passes_check() {
    let documents = yaml("fixtures/operations/kubernetes.yaml");
    let kinds: Vec<_> = documents.iter().filter_map(|document| document["kind"].as_str()).collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment", "Service", "PodDisruptionBudget"]);

    let [config, deployment, service, budget] = documents.as_slice() else { panic!("four documents") };
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let given: BTreeSet<_> =
        container["env"].as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str()).collect();
    let text = config["data"]["config.yaml"].as_str().expect("a configuration");
    let loaded = config::load(text, &|name| given.contains(name).then(|| "x".repeat(32)));
    let loaded = loaded.unwrap_or_else(|problems| panic!("the ConfigMap does not pass check: {problems:?}"));
    let settings = loaded.config;

    // What the manifest promises must agree with what the worker does.
    let grace = pod["terminationGracePeriodSeconds"].as_u64().expect("seconds");
    let needed = settings.server.drain_notice.as_secs() + settings.server.shutdown_timeout.as_secs();
    assert!(grace > needed + 5, "the Pod is killed after {grace} s, leaving takes {needed} s and the preStop 5 s");
    let labels = &deployment["spec"]["selector"]["matchLabels"];
    assert_eq!(labels, &service["spec"]["selector"]);
    assert_eq!(labels, &budget["spec"]["selector"]["matchLabels"]);
    assert_eq!(labels, &deployment["spec"]["template"]["metadata"]["labels"]);
    assert!(budget["spec"]["minAvailable"].as_u64() < deployment["spec"]["replicas"].as_u64());
    let ports: BTreeSet<_> =
        container["ports"].as_array().into_iter().flatten().filter_map(|port| port["name"].as_str()).collect();
    for used in [
        &service["spec"]["ports"][0]["targetPort"],
        &container["readinessProbe"]["httpGet"]["port"],
        &container["livenessProbe"]["httpGet"]["port"],
    ] {
        assert!(ports.contains(used.as_str().expect("a name")), "{used} is no port of the container");
    }
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
}

#[test]
fn the_compose_file_names_what_exists() {
    let compose = yaml("fixtures/operations/compose.yaml").remove(0);
    let services = compose["services"].as_object().expect("services");
    assert!(services.contains_key("valkey") && services.contains_key("worker") && services.contains_key("demo"));
    for service in services.values() {
        for volume in service["volumes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (from, _) = volume.split_once(':').expect("host:container");
            let file = repository::root().join("fixtures/operations").join(from);
            assert!(file.is_file(), "{from} is not in the repository");
        }
        if let Some(context) = service["build"]["context"].as_str() {
            let folder = repository::root().join("fixtures/operations").join(context);
            assert!(folder.join("Dockerfile").is_file(), "{context} has no Dockerfile");
        }
    }
}

#[test]
fn the_unit_and_the_image_call_commands_that_exist() {
    let commands = ["run", "check", "demo", "replay"];
    let unit = read("fixtures/operations/appproxy-worker.service");
    let calls: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("ExecStart")).collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    for call in calls {
        let word = call.split_whitespace().nth(1).expect("a command");
        assert!(commands.contains(&word), "{call}");
    }
    for hardened in ["NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes", "MemoryDenyWriteExecute=yes"] {
        assert!(unit.lines().any(|line| line == hardened), "the unit lacks {hardened}");
    }
    assert!(unit.contains("ExecReload=/bin/kill -HUP $MAINPID"));

    let image = read("Dockerfile");
    let user = image.lines().find_map(|line| line.strip_prefix("USER ")).expect("a user");
    assert!(!user.starts_with('0') && !user.starts_with("root"), "the image runs as {user}");
    assert!(image.contains("HEALTHCHECK") && image.contains("/readyz"));
    let call = image.lines().find_map(|line| line.strip_prefix("CMD [\"")).expect("a default command");
    assert!(commands.contains(&call.split('"').next().expect("a word")), "{call}");
}

/// Every notice that the core can give has its row in the troubleshooting chapter.
#[test]
fn every_notice_has_its_cause_and_cure() {
    let chapter = read("core/docs/troubleshooting.md");
    let mut found = 0;
    for (file, text) in repository::rust().expect("sources") {
        if !file.starts_with("core/src/worker") && !file.starts_with("core/src/desired")
            || repository::is_test_file(&file)
        {
            continue;
        }
        let calls = text.split("self.notice(").skip(1).filter_map(|call| call.split('"').nth(1));
        let codes = text.split("fn code(").skip(1).flat_map(|body| {
            let end = body.find("\n    }").unwrap_or(body.len());
            body.get(..end).unwrap_or_default().split('"').skip(1).step_by(2).collect::<Vec<_>>()
        });
        for code in calls.chain(codes).filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        {
            assert!(chapter.contains(&format!("`{code}`")), "core/docs/troubleshooting.md says nothing of {code}");
            found += 1;
        }
    }
    assert!(found >= 15, "only {found} codes were found: does this test still look in the right place?");
}

/// So has every line that driver or shell log without being asked for more, and every kind of malformed input.
#[test]
fn every_line_of_the_log_has_its_cause_and_cure() {
    let chapter = read("core/docs/troubleshooting.md").replace('`', "");
    let mut found = BTreeSet::new();
    for (file, text) in repository::rust().expect("sources") {
        let folders = ["core/driver/src", "shell-tokio/src", "shell-smol/src"];
        let logs = folders.iter().any(|folder| file.starts_with(folder));
        if !logs || repository::is_test_file(&file) {
            continue;
        }
        for level in ["info", "warn", "error"] {
            for call in text.split(&format!("tracing::{level}!(")).skip(1) {
                let call = call.split_once(");").map_or(call, |(call, _)| call).replace('`', "");
                // The message is the last text of the call, up to what is put into it.
                let message = call.rsplit('"').nth(1).unwrap_or_default();
                let said = message.split(['{', '\\', ';']).next().unwrap_or_default().trim_end_matches([':', ' ']);
                if said.contains(' ') || said.len() > 7 {
                    found.insert(said.to_owned());
                }
            }
        }
    }
    assert!(found.len() >= 20, "only {found:?} were found: does this test still look in the right place?");
    let missing: Vec<_> =
        found.iter().filter(|said| !chapter.contains(said.split(", ").next().unwrap_or(said))).collect();
    assert!(missing.is_empty(), "core/docs/troubleshooting.md says nothing of {missing:?}");
}
