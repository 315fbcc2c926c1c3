//! Starts a whole worker in this process, and ends it.

use std::convert::Infallible;
use std::sync::Arc;

use appproxy_core::config::Config;
use appproxy_core::config::reload::{Plan, plan};
use appproxy_core::exchange::{BodyBounds, ExchangeRules};
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::telemetry::Reading;
use appproxy_core::worker::Candidate;
use async_channel::Receiver;

use crate::clock::Clock;
use crate::listen::{BoundAddress, Listener};
use crate::membership::Membership;
use crate::node::Node;
use crate::plane::{Answered, Plane};
use crate::runtime::Runtime;
use crate::shutdown::Phases;
use crate::upstream::Upstream;
use crate::witness::Witness;
use crate::{Failed, admin, data, journal, logs, tls};

/// A worker that runs. Dropping it ends it at once, as a kill would: no drain, no DELETE.
pub struct Running<R: Runtime> {
    data: Vec<BoundAddress>,
    admin: BoundAddress,
    pub(crate) node: Arc<Node<R>>,
    /// `None` once it ends.
    data_plane: Option<Plane<R>>,
    admin_plane: Plane<R>,
    /// Closed when the data plane's last connection has gone.
    all_done: Receiver<Infallible>,
    admin_phases: Phases,
    admin_token: admin::Token,
    _accepting: Vec<R::Task<()>>,
    membership: Membership<R>,
    config: Config,
}

impl<R: Runtime> Running<R> {
    /// Starts the worker that `config` describes; returns when its listeners are open.
    ///
    /// # Errors
    /// What of the configuration cannot be had here: an address, a certificate file, a feature.
    pub async fn start(config: Config) -> Result<Self, Failed> {
        R::start()?;
        journal::refused(&config).map_err(Failed::config)?;
        tls::install_provider();
        let clock = Clock::start();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| Failed::run(format!("no randomness: {error}")))?;
        let mut draws = Draws::new(Seed(seed));

        let candidate = Candidate::new(&config, &mut draws, clock.now());
        let (witness, said) = Witness::new();
        // The static backends; a worker's first pull brings the rest.
        let view = candidate.view().clone();
        let node = Arc::new(Node::new(&config, clock, view, witness, draws).map_err(Failed::run)?);

        let open = |key, address| Listener::<R>::open(key, address, config.server.socket_mode);
        let mut listeners = Vec::with_capacity(config.server.bind.len());
        for address in &config.server.bind {
            listeners.push(open("server.bind_address", address).await.map_err(Failed::run)?);
        }
        let admin_listener = open("admin.bind_address", &config.admin.bind).await.map_err(Failed::run)?;
        let data_addresses: Vec<_> = listeners.iter().map(Listener::address).collect();
        let admin_address = admin_listener.address();

        let phases = node.phases.clone();
        let served = node.clone();
        let tls = config.server.tls.as_ref().map(tls::server_config).transpose().map_err(Failed::config)?;
        let answer =
            move |request, arrival| -> Answered<R> { Box::pin(data::handle(served.clone(), request, arrival)) };
        let open = node.metrics.connections.clone();
        let (data, all_done) = Plane::new(answer, node.clone(), &config.server, tls, open, phases);
        let admin_phases = Phases::default();
        let admin_token = admin::Token::new(config.admin.token.clone().map(Arc::new).into());
        let (shown, token) = (node.clone(), admin_token.clone());
        let answer =
            move |request, _| -> Answered<R> { Box::pin(admin::handle(shown.clone(), token.clone(), request)) };
        let (admin, _) =
            Plane::new(answer, node.clone(), &config.server, None, Default::default(), admin_phases.clone());
        let mut accepting: Vec<_> =
            listeners.into_iter().map(|listener| R::spawn(data.clone().accept(listener))).collect();
        accepting.push(R::spawn(admin.clone().accept(admin_listener)));

        let membership = Membership::join(candidate, said, &config, &node)?;
        for address in &data_addresses {
            tracing::info!(%address, "listening");
        }
        tracing::info!(address = %admin_address, "admin listening");
        Ok(Self {
            data: data_addresses,
            admin: admin_address,
            node,
            data_plane: Some(data),
            admin_plane: admin,
            all_done,
            admin_phases,
            admin_token,
            _accepting: accepting,
            membership,
            config,
        })
    }

    /// Where the data plane listens, ports as chosen.
    #[must_use]
    pub fn data(&self) -> &[BoundAddress] {
        &self.data
    }

    /// Where the admin listener is.
    #[must_use]
    pub const fn admin(&self) -> &BoundAddress {
        &self.admin
    }

    /// Whether `/readyz` answers 200.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.node.ready()
    }

    /// Resolves when the control plane has ended without being asked to, which only a fault of ours can bring about: what
    /// is served would never change again, so the process had better end and be started anew.
    pub async fn broken(&mut self) -> Failed {
        self.membership.broken().await
    }

    /// Puts another configuration in force, whole or not at all, and tells what became of it. Requests under way go on.
    ///
    /// # Errors
    /// What of it cannot be had here, in words; everything is as it was then.
    pub async fn reload(&mut self, read: Config) -> Result<Plan, String> {
        let plan = plan(&self.config, read);
        let (before, config) = (&self.config, &plan.config);
        // First what may fail.
        let tls = config.server.tls.as_ref().map(tls::server_config).transpose()?;
        let connects_otherwise = before.request.connect_timeout != config.request.connect_timeout;
        let upstream =
            connects_otherwise.then(|| Upstream::new(config.request.connect_timeout, self.node.clock)).transpose()?;
        if before.logging != config.logging {
            logs::change(&config.logging)?;
        }
        let bounded_otherwise = before.server.max_buffered != config.server.max_buffered
            || before.server.idle_timeout != config.server.idle_timeout;
        self.node.equip(upstream, bounded_otherwise.then(|| BodyBounds::of(&config.server)));
        self.data_plane.iter().for_each(|plane| plane.reload(&config.server, tls.clone()));
        self.admin_plane.reload(&config.server, None);
        self.admin_token.store(config.admin.token.clone().map(Arc::new));
        self.membership.configure(config, plan.rekeyed.clone(), ExchangeRules::from(config)).await;
        self.config = plan.config.clone();
        Ok(plan)
    }

    /// The configuration in force.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Takes note of what a reading of the configuration came to.
    pub(crate) fn note_reload(&self, reading: Reading<'_>) {
        self.node.metrics.read_again(reading, self.node.clock.moment());
    }

    /// Drains and leaves: not ready, then closed, then deregistered. Returns when all is done.
    pub async fn stop(mut self) {
        let server = &self.config.server;
        self.membership.leave().await;
        self.data_plane = None;
        // Nothing is ever sent: the channel closes.
        let all_done = async { while self.all_done.recv().await.is_ok() {} };
        self.node.phases.walk::<R>(server.drain_notice, server.shutdown_timeout, all_done).await;
        self.membership.drained().await;
        self.admin_phases.closing.turn();
        tracing::info!("stopped");
    }
}

impl<R: Runtime> core::fmt::Debug for Running<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Running").field("data", &self.data).field("admin", &self.admin).finish_non_exhaustive()
    }
}

impl<R: Runtime> Drop for Running<R> {
    fn drop(&mut self) {
        for phases in [&self.node.phases, &self.admin_phases] {
            phases.closing.turn();
            phases.cutting.turn();
        }
    }
}
