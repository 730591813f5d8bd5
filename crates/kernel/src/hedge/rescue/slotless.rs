//! `rescue` with a named pick, for servers that have an unknown number of slots or also serve other
//! senders.

use alloc::boxed::Box;
use core::fmt;

use super::places::Line;
use super::trip::RECORDED;
use super::{Rescue, RescueLearner, Version};
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::hedge::Learner;
use crate::hedge::record::Record;
use crate::id::{CopyId, ServerId};
use crate::policy::{Args, Named, PickSpec, PolicyError};

/// `rescue+PICK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slotless(Version);

impl Slotless {
    /// Stops losers if servers can stop copies.
    pub const CLEANUP: Self = Self(Version::Cleanup);

    /// The form of a version without slots. `None` for pre-emption, which needs slots.
    pub(crate) const fn of(version: Version) -> Option<Self> {
        match version {
            Version::Cleanup | Version::NoCancel => Some(Self(version)),
            Version::Preempt => None,
        }
    }

    /// The version of rescue that is used.
    pub(crate) const fn version(self) -> Version {
        self.0
    }
}

/// This hedge has the same name as `rescue`, and is selected by naming a pick.
impl Named for Slotless {
    type Hedge = Rescue;
    const FORMS: &'static [&'static str] = &["rescue+PICK"];
    const PICK: PickSpec = PickSpec::LeastOutstanding;

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        Err(args.unknown())
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.print(f)
    }

    fn hedge(&self, topology: &Topology, limits: &Limits) -> Rescue {
        let line = Some(Line::new(topology.servers.len()));
        Rescue { line, ..self.0.hedge(topology, limits) }
    }

    fn learner(&self, limits: &Limits) -> Option<Learner> {
        let learner = RescueLearner::new(self.0.fit(limits), limits.rescue_budget).without_slots();
        Some(Learner::Rescue(Box::new(learner)))
    }
}

impl Rescue {
    /// Whether a server would execute another copy immediately, as far as the cell can see.
    pub(super) fn is_idle(&self, core: &Core, server: ServerId) -> bool {
        match &self.line {
            Some(line) => line.len(server) < self.learned.slots,
            None => core.has_idle_slot(server),
        }
    }

    /// Whether copies wait at a server.
    pub(super) fn is_crowded(&self, server: ServerId) -> bool {
        match &self.line {
            Some(line) => line.is_crowded(server),
            None => self.backlog.len(server) > 0,
        }
    }

    /// Records the place of a copy that responded, which shows how many copies the server executes.
    pub(super) fn record_place(&mut self, copy: CopyId, server: ServerId) {
        let Some(line) = &self.line else { return };
        let all = self.learned.slots == u32::MAX;
        if (all || self.responses.is_multiple_of(RECORDED))
            && let Some(older) = line.older(server, copy)
        {
            self.records.push(Record::Place { older });
        }
    }

    /// Handles the end of a copy: the copies behind it move up, and some of them begin.
    pub(super) fn move_up(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        let Some(line) = &mut self.line else { return };
        line.remove(server, copy);
        while let Some(next) =
            self.line.as_mut().and_then(|line| line.begins(server, self.learned.slots))
        {
            self.begins(core, next);
        }
    }
}
