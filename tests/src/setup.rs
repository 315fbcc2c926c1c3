//! How a [`World`] is to be before it starts.

use appproxy_fixtures::wire::Dialect;

use crate::puppet::Puppet;
use crate::shell::Shell;
use crate::world::World;

/// What differs from an ordinary world. Ordinary: a bus, both dialects, pulls so rare that only events can have brought
/// a change within a test's patience.
#[derive(Debug, Clone)]
pub struct Setup {
    pub(crate) shell: Shell,
    pub(crate) api_secret: String,
    pub(crate) redis_password: Option<String>,
    pub(crate) bus: bool,
    pub(crate) dialect: Dialect,
    pub(crate) reconcile: String,
    pub(crate) heartbeat: String,
    pub(crate) binds: Vec<String>,
    pub(crate) server: Vec<String>,
    pub(crate) admin: Vec<String>,
    pub(crate) router: Vec<String>,
    pub(crate) top: String,
    pub(crate) environment: Vec<(String, String)>,
}

impl Setup {
    /// An ordinary world around a shell's program.
    #[must_use]
    pub fn of(shell: Shell) -> Self {
        Self {
            shell,
            api_secret: "the-api-secret".to_owned(),
            redis_password: None,
            bus: true,
            dialect: Dialect::Both,
            reconcile: "10m".to_owned(),
            heartbeat: "10s".to_owned(),
            binds: vec!["127.0.0.1:0".to_owned()],
            server: Vec::new(),
            admin: Vec::new(),
            router: Vec::new(),
            top: String::new(),
            environment: Vec::new(),
        }
    }

    /// Another `api_secret`.
    #[must_use]
    pub fn api_secret(mut self, secret: &str) -> Self {
        secret.clone_into(&mut self.api_secret);
        self
    }

    /// A bus with a password.
    #[must_use]
    pub fn redis_password(mut self, password: &str) -> Self {
        self.redis_password = Some(password.to_owned());
        self
    }

    /// No bus: `events_enabled: false`.
    #[must_use]
    pub fn without_bus(mut self) -> Self {
        self.bus = false;
        self
    }

    /// Which bodies the coordinator's events carry, and which acks it understands.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Another `reconcile_interval`.
    #[must_use]
    pub fn reconcile(mut self, interval: &str) -> Self {
        interval.clone_into(&mut self.reconcile);
        self
    }

    /// Another `heartbeat_period`.
    #[must_use]
    pub fn heartbeat(mut self, period: &str) -> Self {
        period.clone_into(&mut self.heartbeat);
        self
    }

    /// One listener more.
    #[must_use]
    pub fn bind(mut self, address: &str) -> Self {
        self.binds.push(address.to_owned());
        self
    }

    /// One line more under `server:`.
    #[must_use]
    pub fn server(mut self, line: &str) -> Self {
        self.server.push(line.to_owned());
        self
    }

    /// One line more under `admin:`.
    #[must_use]
    pub fn admin(mut self, line: &str) -> Self {
        self.admin.push(line.to_owned());
        self
    }

    /// One line more under `appproxy_router:`.
    #[must_use]
    pub fn router(mut self, line: &str) -> Self {
        self.router.push(line.to_owned());
        self
    }

    /// Whole sections more.
    #[must_use]
    pub fn sections(mut self, text: &str) -> Self {
        self.top.push_str(text);
        self
    }

    /// One variable more in the worker's environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts everything but the worker.
    ///
    /// # Panics
    /// When a part of it does not start.
    #[must_use]
    #[track_caller]
    pub fn prepare(self) -> World {
        World::prepare(self)
    }

    /// Starts everything, with one replica `r1` behind the model `chat` (alias `talk`) and the key `sk-all`; returns when
    /// the worker is ready.
    ///
    /// # Panics
    /// When a part of it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> World {
        let mut world = self.prepare();
        let port = world.replica("r1", &[]);
        world.circuit(1, &[port]);
        world.publish("chat", &["talk"], &[(1, 1.0)]);
        world.key("all", "sk-all", serde_json::json!({}));
        world.start_worker();
        world
    }

    /// As [`Setup::start`], with the model `puppet` besides, whose one replica the test plays itself. Nobody is probed:
    /// the test would have to answer.
    ///
    /// # Panics
    /// When a part of it does not start.
    #[must_use]
    #[track_caller]
    pub fn start_with_puppet(self) -> (World, Puppet) {
        let world = self.sections("health_checks: {enabled: false}\n").start();
        let puppet = Puppet::start();
        world.circuit(9, &[puppet.port()]);
        world.publish("puppet", &[], &[(9, 1.0)]);
        (world, puppet)
    }
}
