//! What the demonstration prints: what is running, and lines to paste.

use core::fmt;
use std::net::SocketAddr;

use super::{ALIAS, AUTHORITY, ENDPOINTS, KEY, MODEL, SECRET, hash_hex};

/// The addresses of everything that runs.
pub(super) struct Script {
    pub(super) worker: String,
    pub(super) admin: String,
    pub(super) coordinator: SocketAddr,
    pub(super) replicas: Vec<SocketAddr>,
    pub(super) switches: SocketAddr,
    pub(super) bus: Option<u16>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(f)?;
        self.lines(f)
    }
}

impl Script {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |what: &str, place: &str, note: &str| writeln!(f, "  {what:<12} {place:<28} {note}");
        row("worker", &format!("http://{}", self.worker), &format!("/health /readyz /status; authority {AUTHORITY}"))?;
        row("admin", &format!("http://{}", self.admin), "/metrics")?;
        row("coordinator", &format!("http://{}", self.coordinator), "development coordinator; GET / lists its calls")?;
        for (number, replica) in (1..).zip(&self.replicas) {
            row(&format!("replica {number}"), &format!("http://{replica}"), "mock replica")?;
        }
        row("switches", &format!("http://{}", self.switches), "kills and starts replicas")?;
        match self.bus {
            Some(port) => row("bus", &format!("redis://127.0.0.1:{port}"), "a redis-server of the demo's own")?,
            None => row("bus", "none", "no redis-server found: pull-only, a change shows within a second")?,
        }
        writeln!(f, "  model        {MODEL:<28} alias {ALIAS}, half of its requests to each replica")?;
        writeln!(f, "  key          {KEY}\n")
    }

    fn lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: &str, command: String| writeln!(f, "# {what}\n{command}\n");
        let worker = &self.worker;
        let chat = |extra: &str| {
            format!(
                "http://{worker}/v1/chat/completions -H 'Authorization: Bearer {KEY}' -H 'Content-Type: application/json' \
                 -d '{{\"model\":\"{MODEL}\"{extra},\"messages\":[{{\"role\":\"user\",\"content\":\"Hello there\"}}]}}'"
            )
        };
        let router = format!("http://{}/v2/routers/{AUTHORITY}", self.coordinator);
        let token = format!("-H 'X-BackendAI-Token: {SECRET}' -H 'Content-Type: application/json'");
        let [first, second] = ENDPOINTS;
        let put = |model: &str, mappings: &str| {
            format!("curl -s -X PUT {router}/models/{model} {token} -d '{{\"mappings\":[{mappings}]}}'")
        };
        line("chat", format!("curl -s {}", chat("")))?;
        line("streaming chat", format!("curl -sN {}", chat(",\"stream\":true")))?;
        line(
            "the models this key may use",
            format!("curl -s http://{worker}/v1/models -H 'Authorization: Bearer {KEY}'"),
        )?;
        line("publish another model", put("another", &format!("{{\"endpoint_id\":\"{first}\",\"ratio\":1}}")))?;
        let split =
            format!("{{\"endpoint_id\":\"{first}\",\"ratio\":0.7}},{{\"endpoint_id\":\"{second}\",\"ratio\":0.3}}");
        line("split it 7:3", put("another", &split))?;
        let count = format!(
            "for i in $(seq 20); do curl -s -o /dev/null -D - {} | grep -i x-appproxy-backend; done | sort | uniq -c",
            chat("").replace(MODEL, "another")
        );
        line("and count twenty requests of it by backend", count)?;
        line("unpublish it", format!("curl -s -X DELETE {router}/models/another {token}"))?;
        line(
            "kill a replica: the other one serves",
            format!("curl -s -X POST http://{}/replicas/1/kill", self.switches),
        )?;
        line("start it again", format!("curl -s -X POST http://{}/replicas/1/start", self.switches))?;
        let (strict, revoke) = match self.bus {
            Some(_) => ("?strict=true", "revoke the key, and wait until this worker refuses it: chat answers 401 then"),
            None => ("", "revoke the key: chat answers 401 within a second"),
        };
        line(revoke, format!("curl -s -X DELETE '{router}/api-keys/demo-key{strict}' {token}"))?;
        line(
            "give it back",
            format!("curl -s -X PUT {router}/api-keys/demo-key {token} -d '{{\"token_hash\":\"{}\"}}'", hash_hex()),
        )?;
        line("what the worker counted", format!("curl -s http://{}/metrics", self.admin))?;
        write!(f, "Access lines follow. Ctrl-C ends everything.")
    }
}
