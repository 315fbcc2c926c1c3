//! The data plane inside somebody else's axum application.

use core::ops::{Deref, DerefMut};
use std::net::SocketAddr;

use appproxy_core::config::Config;
use appproxy_driver::{Embedded, Failed};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use http::{Request, Response};

use crate::executor::Tokio;

/// A worker that runs on tokio: the driver's, and what axum adds to it.
#[derive(Debug)]
pub struct Running(appproxy_driver::Running<Tokio>);

impl Running {
    /// Starts the worker that `config` describes; returns when its listeners are open.
    ///
    /// # Errors
    /// What of the configuration cannot be had here: an address, a certificate file, a feature; no tokio runtime around it.
    pub async fn start(config: Config) -> Result<Self, Failed> {
        appproxy_driver::Running::start(config).await.map(Self)
    }

    /// Drains and leaves: not ready, then closed, then deregistered. Returns when all is done.
    pub async fn stop(self) {
        self.0.stop().await;
    }

    /// The data plane as a service of somebody else's axum application: for its fallback, or nested under a path of its
    /// own. Serve the application with the connection's address (`into_make_service_with_connect_info::<SocketAddr>()`):
    /// a request without one has no address, and every address list refuses it. WebSockets need our own listeners.
    pub fn router(&self) -> Router {
        // All we know of its connections is the address that axum noted.
        Router::new().fallback(arrived).with_state(self.0.embedded())
    }
}

async fn arrived(State(plane): State<Embedded<Tokio>>, request: Request<Body>) -> Response<Body> {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| *address);
    plane.answer(request, from).await.map(Body::new)
}

impl Deref for Running {
    type Target = appproxy_driver::Running<Tokio>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
