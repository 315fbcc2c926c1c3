//! What strikes the world as a whole, and how it ends.

use appproxy_core::worker::Input;
use appproxy_fixtures::coordinator::{Failure, Plant};

use super::broken::Broken;
use super::fault::{Fault, Mix};
use super::node::Bus;
use super::run::Kind;
use super::state::AUTHORITY;
use super::world::{Happening, World};

impl World {
    /// Something strikes, and the next strike is planned.
    pub(super) fn strike(&mut self) -> Result<(), Broken> {
        if self.healing {
            return Ok(());
        }
        let pause = self.draws.below(4_000);
        self.later(pause, Happening::Strike);
        let Some(fault) = self.mix.clone().of_the_world(&mut self.draws) else { return Ok(()) };
        if !self.may_happen() {
            return Ok(());
        }
        self.totals.struck(fault);
        if self.trace {
            println!("{:>9} {}", self.now, fault.name());
        }
        let lasts = 50 + self.draws.below(15_000);
        match fault {
            Fault::BusDown => return self.bus_goes_down(lasts),
            Fault::CoordinatorRestarted => {
                self.lose_waits();
                self.coordinator_down = true;
                self.later(lasts / 5, Happening::Over(fault));
            }
            Fault::RowForgotten => self.forget_row(),
            Fault::FalseLoss => {
                let times = Some(1 + self.draws.below(4));
                self.fail_calls(None, "/api/worker/", 404, times);
            }
            Fault::BackupRestored => self.restore_backup(),
            Fault::SecretRejected => {
                self.fail_calls(None, "/api/worker", 401, None);
                self.later(lasts, Happening::Over(fault));
            }
            Fault::RegistrationRefused => {
                let status = if self.draws.below(2) == 0 { 400 } else { 422 };
                self.fail_calls(Some("PUT"), "/api/worker", status, None);
                self.forget_row();
                self.later(lasts, Happening::Over(fault));
            }
            Fault::NodeKilled => {
                let place = self.some_place();
                if let Some(node) = self.nodes.get_mut(place) {
                    *node = None;
                }
                self.later(lasts / 2, Happening::Start { node: place });
            }
            Fault::NodeLeft => return self.node_leaves(lasts / 4),
            Fault::WallStepped => {
                let step = self.draws.below(240_000).cast_signed() - 120_000;
                self.wall_ahead += step;
            }
            Fault::MalformedElement => {
                self.spoil();
                self.later(lasts, Happening::Over(fault));
            }
            _ => {}
        }
        Ok(())
    }

    fn some_place(&mut self) -> usize {
        usize::try_from(self.draws.below(self.nodes.len() as u64)).unwrap_or_default()
    }

    fn bus_goes_down(&mut self, lasts: u64) -> Result<(), Broken> {
        if self.draws.below(2) == 0 {
            let place = self.some_place();
            return self.bus_lost(place);
        }
        self.bus_down = true;
        self.coordinator.faults.bus_down = true;
        self.later(lasts, Happening::Over(Fault::BusDown));
        for place in 0..self.nodes.len() {
            if self.nodes.get(place).and_then(Option::as_ref).is_some_and(|node| matches!(node.bus, Bus::Up(_))) {
                self.bus_lost(place)?;
            }
        }
        Ok(())
    }

    fn lose_waits(&mut self) {
        for ticket in self.coordinator.restart() {
            self.strict.remove(&ticket);
        }
    }

    fn forget_row(&mut self) {
        let circuits = self.draws.below(4) == 0;
        self.coordinator.forget_worker(AUTHORITY, circuits);
    }

    fn fail_calls(&mut self, method: Option<&str>, path: &str, status: u16, times: Option<u64>) {
        let method = method.map(str::to_owned);
        self.coordinator.faults.failures.push(Failure { method, path: path.to_owned(), status, body: None, times });
    }

    /// Every other time a backup is made, and the times between it is restored: older, under a lower revision.
    fn restore_backup(&mut self) {
        let Some(backup) = self.manager.backup.take() else {
            self.manager.backup = Some(Box::new(self.coordinator.clone()));
            return;
        };
        self.lose_waits();
        let faults = self.coordinator.faults.clone();
        self.coordinator = *backup;
        self.coordinator.faults = faults;
        self.coordinator.restart();
        self.manager.lowest_revision -= 10_000;
        self.coordinator.set_revision(AUTHORITY, self.manager.lowest_revision);
        self.manager.noticed(&self.coordinator, self.now);
    }

    fn node_leaves(&mut self, until: u64) -> Result<(), Broken> {
        let place = self.some_place();
        let Some(node) = self.nodes.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if node.leaving.0 {
            return Ok(());
        }
        node.leaving.0 = true;
        let life = node.life;
        self.later(until, Happening::Drained { node: place, life });
        self.feed(place, Input::Shutdown)
    }

    fn spoil(&mut self) {
        let readable = self.draws.below(3) > 0;
        let places: Vec<(Plant, String)> = match if self.kind == Kind::Legacy { 0 } else { self.draws.below(3) } {
            0 => self.coordinator.circuits(AUTHORITY).map(|it| (Plant::Circuit, it.id.to_string())).collect(),
            1 => self.coordinator.publications(AUTHORITY).map(|it| (Plant::Model, it.model.clone())).collect(),
            _ => self.coordinator.keys(AUTHORITY).map(|it| (Plant::Key, it.key_id.clone())).collect(),
        };
        let at = usize::try_from(self.draws.below(places.len() as u64)).unwrap_or_default();
        if let Some((place, id)) = places.get(at) {
            if *place == Plant::Key {
                self.manager.spoiled.insert(id.clone());
            }
            self.coordinator.spoil(AUTHORITY, *place, id, readable);
        }
    }

    /// What struck is over.
    pub(super) fn over(&mut self, fault: Fault) -> Result<(), Broken> {
        let failures = &mut self.coordinator.faults.failures;
        match fault {
            Fault::BusDown => {
                self.bus_down = false;
                self.coordinator.faults.bus_down = false;
            }
            Fault::CoordinatorRestarted => self.coordinator_down = false,
            Fault::SecretRejected => failures.retain(|failure| failure.status != 401),
            Fault::RegistrationRefused => failures.retain(|failure| !matches!(failure.status, 400 | 422)),
            Fault::MalformedElement => self.coordinator.unspoil(AUTHORITY),
            _ => {}
        }
        Ok(())
    }

    /// All faults end: what is away comes back, what is held up is let go or lost.
    pub(super) fn heal(&mut self) -> Result<(), Broken> {
        self.healing = true;
        if self.trace {
            println!("{:>9} the faults end", self.now);
        }
        self.mix = Mix::none();
        self.coordinator.faults.failures.clear();
        for fault in [Fault::BusDown, Fault::CoordinatorRestarted, Fault::MalformedElement] {
            self.over(fault)?;
        }
        let soon = self.now + 1_000;
        self.agenda.retain(|(at, _), happening| *at <= soon || !matches!(happening, Happening::Message { .. }));
        for place in 0..self.nodes.len() {
            self.start(place)?;
        }
        Ok(())
    }
}
