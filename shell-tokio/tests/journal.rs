//! A live worker with a real redis-server writes a journal; replayed, it gives the outputs that were seen live.
#![cfg(feature = "appproxy-router")]
#![allow(missing_docs)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use appproxy_core::exchange::token_hash;
use appproxy_core::secret::Secret;
use appproxy_fixtures::coordinator::Settings;
use appproxy_fixtures::stage::{StageBus, StageCoordinator, StageReplica, ask_json};
use appproxy_shell_tokio::{BoundAddress, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const SECRET: &str = "marked-api-secret";
const KEY: &str = "sk-marked-key";
const MARK: &str = "marked-arguments";
const ENDPOINT: &str = "11111111-1111-4111-8111-111111111111";
const PATIENCE: Duration = Duration::from_secs(20);
const WORKER: &str = env!("CARGO_BIN_EXE_appproxy-worker");

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("log").clone()).expect("text")
    }

    /// The outputs of the core, as the control loop logs them at level trace.
    fn outputs(&self) -> Vec<String> {
        self.text()
            .lines()
            .filter_map(|line| line.split_once(" output "))
            .map(|(_, output)| output.to_owned())
            .collect()
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("appproxy-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

struct World {
    bus: StageBus,
    coordinator: StageCoordinator,
    replica: StageReplica,
}

impl World {
    async fn start() -> Option<Self> {
        let bus = StageBus::start().expect("redis-server")?;
        let coordinator = StageCoordinator::start(Settings::new(SECRET), 1, Some(&bus.url())).expect("coordinator");
        let replica = StageReplica::start("replica", &[]).expect("replica");
        Some(Self { bus, coordinator, replica })
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let url = format!("http://{}{path}", self.coordinator.address());
        let (status, answer) = ask_json(method, &url, SECRET, body).expect("an answer");
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    fn configuration(&self, journal: &Path) -> String {
        format!(
            "server: {{bind_address: \"127.0.0.1:0\", drain_notice: \"0s\", shutdown_timeout: \"2s\"}}\n\
             admin: {{bind_address: \"127.0.0.1:0\"}}\njournal: {{file: \"{}\"}}\n\
             appproxy_router: {{enabled: true, coordinator_url: \"http://{}\", api_secret: \"{SECRET}\", \
             authority: \"a1\", hostname: \"127.0.0.1\", api_port: 8080, redis_url: \"{}\", \
             reconcile_interval: \"300ms\", heartbeat_period: \"200ms\"}}\n",
            journal.display(),
            self.coordinator.address(),
            self.bus.url(),
        )
    }
}

fn replay(arguments: &[&str]) -> Output {
    Command::new(WORKER).arg("replay").args(arguments).output().expect("the program")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

async fn get(address: &BoundAddress, path: &str) -> String {
    let BoundAddress::Tcp(address) = address else { panic!("a TCP listener") };
    let mut stream = TcpStream::connect(address).await.expect("connect");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_journal_is_replayed_byte_for_byte_and_holds_no_secret() {
    let log = Log::default();
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log.clone());
    let level = tracing_subscriber::filter::Targets::new().with_target("appproxy_driver", tracing::Level::TRACE);
    tracing_subscriber::registry().with(tracing_subscriber::Layer::with_filter(lines, level)).init();
    let folder = Folder::new();
    let file = folder.file("journal");
    let world = World::start().await.expect("a redis-server on the path");

    let hash: String = token_hash(&Secret::new(KEY)).0.iter().map(|byte| format!("{byte:02x}")).collect();
    let loaded = appproxy_core::config::load(&world.configuration(&file), &|_| None).expect("configuration");
    assert_eq!(loaded.not_in_effect, []);
    let running = Running::start(loaded.config).await.expect("start");
    let limit = tokio::time::Instant::now() + PATIENCE;
    while !running.is_ready() {
        assert!(tokio::time::Instant::now() < limit, "not ready:\n{}", log.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let route = json!({"kernel_host": "127.0.0.1", "kernel_port": world.replica.address().port()});
    let circuit = json!({
        "authority": "a1", "endpoint_id": ENDPOINT, "runtime_variant": "vllm", "routes": [route],
        "arguments": MARK,
    });
    world.ask("POST", "/dev/circuits", &circuit).await;
    let publication = json!({"aliases": ["alias"], "mappings": [{"endpoint_id": ENDPOINT, "ratio": 1.0}]});
    world.ask("PUT", "/v2/routers/a1/models/m", &publication).await;
    let key = json!({"token_hash": hash, "display_hint": "sk", "allowed_models": []});
    world.ask("PUT", "/v2/routers/a1/api-keys/k", &key).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (status, metrics) = (get(&running.data()[0], "/status").await, get(running.admin(), "/metrics").await);
    world.ask("DELETE", "/v2/routers/a1/models/m", &Value::Null).await;
    running.stop().await;

    let text = std::fs::read_to_string(&file).expect("a journal");
    assert!(text.contains("circuits_created") && text.contains("\"token_hash\":\""), "{text}");
    for secret in [SECRET, KEY, MARK, &hash, &hash.to_uppercase()] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }

    let path = file.to_str().expect("a path");
    let all = printed(&replay(&[path]));
    assert_eq!(all, printed(&replay(&[path])), "twice the same");
    let replayed: Vec<&str> = all.lines().filter(|line| !line.starts_with('#')).collect();
    // Before the first input there is nothing but to wait.
    let live = log.outputs().split_off(1);
    for (number, (live, replayed)) in live.iter().zip(&replayed).enumerate() {
        assert_eq!(live, replayed, "output {number}");
    }
    // The loop ends at `stop`; the replay goes on to the wait after it.
    assert_eq!(live.last().map(String::as_str), Some(r#"{"command":"stop"}"#));
    assert_eq!(replayed.len(), live.len() + 1);

    // The digest with everything in force: in the status page, in the metrics, in the line of its apply, on replay.
    let digest = status.split("\"desired_state_digest\":\"").nth(1).and_then(|rest| rest.get(..32)).expect("a digest");
    assert!(metrics.contains(&format!("digest=\"{digest}\"")), "{metrics}");
    assert!(log.text().lines().any(|line| line.contains("applied") && line.contains(&format!("digest={digest}"))));
    let applied = all.lines().position(|line| line.contains(digest)).expect("an apply with this digest");
    let header = all.lines().take(applied).filter(|line| line.starts_with("# input ")).last().expect("its input");
    let number = header.trim_start_matches("# input ").split(' ').next().expect("a number");
    let state: Value = serde_json::from_str(&printed(&replay(&[path, "--state", "--until", number]))).expect("JSON");
    assert_eq!(state["digest"], digest);
    let held = (state["backends"].as_array().map(Vec::len), state["keys"][0]["key_id"].as_str());
    assert_eq!(held, (Some(1), Some("k")), "{state}");

    let last = text.lines().count() - 1;
    let difference = printed(&replay(&[path, "--diff", "0", &last.to_string()]));
    let backend = state["backends"][0]["name"].as_str().expect("a name");
    assert!(difference.contains(&format!("(event model_updated): + backend {backend}")), "{difference}");
    assert!(difference.contains(&format!("(event model_removed): - backend {backend}")), "{difference}");

    // What is not in it is said the same way whatever asks for it, behind what there is.
    let beyond = format!("there is no input 999999: this journal holds inputs 1 to {last}");
    for asked in [&["--until", "999999"][..], &["--state", "--until", "999999"], &["--diff", "0", "999999"]] {
        let output = replay(&[&[path], asked].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(&beyond), "{asked:?}: {said}");
        let outputs =
            String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with("# input ")).count();
        assert_eq!(outputs, if asked.len() == 2 && asked[0] == "--until" { last } else { 0 }, "{asked:?}");
    }

    // As after a crash: the last line is cut.
    let cut = folder.file("cut");
    std::fs::write(&cut, &text[..text.len() - 9]).expect("a file");
    let output = replay(&[cut.to_str().expect("a path")]);
    assert!(printed(&output).lines().count() < all.lines().count());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("line {} is cut", last + 1)), "{said}");
    // Damaged anywhere else, it is an error with the line's number.
    std::fs::write(&cut, text.replacen("\"started\"", "\"startled\"", 1)).expect("a file");
    let output = replay(&[cut.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2: not an input"));
}
