//! The demonstration's own little API: kill a replica, start it again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use appproxy_fixtures::Request;
use serde_json::json;
use tokio::sync::Mutex;

use crate::stage::StageReplica;
use crate::stage::served::{Answer, Body, Served, json};

/// A listener on loopback that takes `POST /replicas/{1,2}/{kill,start}`.
pub(super) struct Switches(Served);

impl Switches {
    pub(super) async fn start(replicas: Arc<Mutex<Vec<StageReplica>>>) -> io::Result<Self> {
        Served::start(0, Panel(replicas)).await.map(Self)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.0.address
    }
}

#[derive(Clone)]
struct Panel(Arc<Mutex<Vec<StageReplica>>>);

impl Answer for Panel {
    async fn answer(&self, request: Request) -> io::Result<http::Response<Body>> {
        let mut replicas = self.0.lock().await;
        let segments = request.segments();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        if request.method == http::Method::POST
            && let ["replicas", number, action] = words[..]
        {
            let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match (index.and_then(|index| replicas.get_mut(index)), action) {
                (Some(replica), "kill") => replica.kill().await,
                (Some(replica), "start") => replica.revive().await?,
                _ => {
                    return Ok(json(
                        404,
                        &json!({"error": "POST /replicas/1/kill, /replicas/1/start, or the same of 2"}),
                    ));
                }
            }
        }
        let states: Vec<_> = replicas
            .iter()
            .map(|replica| json!({"address": replica.address(), "up": replica.is_up(), "requests": replica.requests()}))
            .collect();
        Ok(json(200, &json!({ "replicas": states })))
    }
}
