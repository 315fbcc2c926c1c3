//! What differs between the two workers, in one place: each function is one dispatch.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Worker;
use super::defects;
#[cfg(feature = "appproxy-legacy")]
use super::discovery::Discovery;
use super::output::Deadline;
use super::pull::Scope;
use super::report::OLD_COORDINATOR;
use crate::config::worker::Mode;
use crate::desired::{Rules, Touched};
use crate::wire::register::heartbeat_body;

/// What only one of the workers keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Kept {
    Nothing,
    #[cfg(feature = "appproxy-legacy")]
    Legacy(Discovery),
}

impl Kept {
    pub(super) fn of(mode: &Mode) -> Self {
        match mode {
            #[cfg(feature = "appproxy-legacy")]
            Mode::Legacy(_) => Self::Legacy(Discovery::default()),
            _ => Self::Nothing,
        }
    }
}

/// The rules by which circuits become backends.
pub(super) const fn rules(mode: &Mode) -> Rules {
    match mode {
        #[cfg(feature = "appproxy-router")]
        Mode::Router(_) => Rules::Router,
        // A configuration whose mode is not built in is refused when it is read.
        #[cfg(not(feature = "appproxy-router"))]
        Mode::Router(_) => Rules::StaticOnly,
        #[cfg(feature = "appproxy-legacy")]
        Mode::Legacy(_) => Rules::Legacy,
        #[cfg(not(feature = "appproxy-legacy"))]
        Mode::Legacy(_) => Rules::StaticOnly,
        Mode::Plain => Rules::StaticOnly,
    }
}

/// The bound on how long model API keys may be used without a successful pull.
pub(super) const fn max_key_staleness(mode: &Mode) -> Option<Duration> {
    match mode {
        Mode::Router(router) => router.max_key_staleness,
        Mode::Legacy(_) | Mode::Plain => None,
    }
}

impl Worker {
    /// The legacy worker's heartbeat has no body.
    pub(super) fn mode_heartbeat_body(&self) -> Option<String> {
        match self.config.mode {
            Mode::Router(_) => Some(heartbeat_body(self.node_id)),
            Mode::Legacy(_) | Mode::Plain => None,
        }
    }

    /// The ROUTER worker says which of its nodes leaves.
    pub(super) fn mode_delete_query(&self) -> String {
        match self.config.mode {
            Mode::Router(_) => format!("?node_id={}", self.node_id),
            Mode::Legacy(_) | Mode::Plain => String::new(),
        }
    }

    /// Whether there is a coordinator at all.
    pub(super) const fn mode_is_plain(&self) -> bool {
        match self.config.mode {
            Mode::Plain => true,
            Mode::Router(_) | Mode::Legacy(_) => false,
        }
    }

    /// Whether publications and keys concern this worker.
    pub(super) const fn mode_has_router_config(&self) -> bool {
        match self.config.mode {
            Mode::Router(_) => true,
            Mode::Legacy(_) | Mode::Plain => false,
        }
    }

    /// The scope that is complete in this mode, and what a partial one comes to.
    pub(super) const fn mode_scope(&self, scope: Scope) -> Scope {
        if self.mode_has_router_config() { scope } else { Scope::Full }
    }

    /// Follows what changed, before it is served.
    pub(super) fn mode_touched(&mut self, touched: &Touched) {
        match self.kept {
            #[cfg(feature = "appproxy-legacy")]
            Kept::Legacy(_) => self.discovery_touched(touched),
            Kept::Nothing => {
                let _ = touched;
            }
        }
    }

    /// Asks replicas what they serve, where nobody else says it.
    pub(super) fn mode_begin_inquiries(&mut self) {
        match self.kept {
            #[cfg(feature = "appproxy-legacy")]
            Kept::Legacy(_) => self.begin_inquiries(),
            Kept::Nothing => {}
        }
    }

    /// When the next of these is due, if there is room for it.
    pub(super) fn mode_next_inquiry(&self) -> Option<Deadline> {
        match &self.kept {
            #[cfg(feature = "appproxy-legacy")]
            Kept::Legacy(discovery) => discovery.next_deadline().filter(|_| self.probes.has_room()),
            Kept::Nothing => None,
        }
    }

    /// The words for a registration refused with 400 or 422, and whether only an operator can mend it.
    pub(super) fn refused_registration(&self, text: String) -> (String, bool) {
        match self.config.mode {
            Mode::Router(_) if defects::has(defects::Defect::OldCoordinatorUnsaid) => (text, true),
            Mode::Router(_) => (
                format!("the coordinator refused the registration of a ROUTER worker: {text}; {OLD_COORDINATOR}"),
                true,
            ),
            Mode::Legacy(_) | Mode::Plain => (format!("the coordinator refused the registration: {text}"), true),
        }
    }
}
