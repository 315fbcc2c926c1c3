//! A mock replica on a loopback port, which can be killed and started again at the same port.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use appproxy_fixtures::Request;
use appproxy_fixtures::replica::{Behaviour, Replica, Step};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;

use super::served::{Answer, Body, Served, json, whole};

/// A mock replica and its port.
#[derive(Debug)]
pub struct StageReplica {
    machine: Arc<Mutex<Replica>>,
    address: SocketAddr,
    served: Option<Served>,
}

impl StageReplica {
    /// Starts a replica called `name` that serves `models` on a free loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(name: &str, models: &[&str]) -> io::Result<Self> {
        let machine = Arc::new(Mutex::new(Replica::new(name, models)));
        let served = Served::start(0, Replicas(machine.clone())).await?;
        Ok(Self { machine, address: served.address, served: Some(served) })
    }

    /// Where it listens; the same after a kill and a start.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it listens now.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.served.is_some()
    }

    /// How many requests it has answered.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner).served()
    }

    /// How it behaves from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner).behaviour = behaviour;
    }

    /// Stops listening and cuts every connection.
    pub async fn kill(&mut self) {
        if let Some(served) = self.served.take() {
            served.cut().await;
        }
    }

    /// Listens again, at the same port.
    ///
    /// # Errors
    /// When the port is taken meanwhile.
    pub async fn revive(&mut self) -> io::Result<()> {
        if self.served.is_none() {
            self.served = Some(Served::start(self.address.port(), Replicas(self.machine.clone())).await?);
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Replicas(Arc<Mutex<Replica>>);

impl Answer for Replicas {
    async fn answer(&self, request: Request) -> io::Result<http::Response<Body>> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner).handle(&request);
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Pause(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                Step::Head { status, headers } => return Ok(response(status, headers, steps)),
                Step::Break => return Err(broken()),
                Step::Chunk(_) | Step::End => break,
            }
        }
        Ok(json(500, &json!({"error": {"message": "the mock replica's script has no head"}})))
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the script breaks off here")
}

fn response(status: u16, headers: http::HeaderMap, steps: VecDeque<Step>) -> http::Response<Body> {
    let body = match steps.front() {
        Some(Step::End) | None => whole(Bytes::new()),
        _ => StreamBody::new(futures_util::stream::unfold(steps, next_chunk)).boxed_unsync(),
    };
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    *response.headers_mut() = headers;
    response
}

async fn next_chunk(mut steps: VecDeque<Step>) -> Option<(io::Result<Frame<Bytes>>, VecDeque<Step>)> {
    while let Some(step) = steps.pop_front() {
        match step {
            Step::Pause(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Chunk(bytes) => {
                // Being pending once has the server flush what it holds: one chunk, one write.
                tokio::task::yield_now().await;
                return Some((Ok(Frame::data(bytes.into())), steps));
            }
            Step::Break => {
                tokio::task::yield_now().await;
                return Some((Err(broken()), VecDeque::new()));
            }
            Step::Head { .. } | Step::End => return None,
        }
    }
    None
}
