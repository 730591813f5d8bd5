//! A cell: the state machine that turns events into actions.

mod actions;
mod budget;
mod copies;
mod core;
mod dispatch;
mod ends;
mod gate;
mod health;
mod holds;
mod hot;
mod ramp;
mod servers;
mod typical;

pub use self::core::{CopyView, Core};
pub(crate) use budget::Budget;
pub use servers::ServerView;
pub(crate) use servers::{GroupState, ServerState};

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Rng;
use crate::action::Action;
use crate::balance::Pick;
use crate::config::{ConfigError, Limits, Topology};
use crate::event::Event;
use crate::hedge::{Hedge, Record, Snapshot};
use crate::id::{GroupId, ServerId};
use crate::rate::Rates;
use crate::time::Timestamp;

/// The interface between a cell and its driver, whatever the policy.
pub trait Scheduler: Send {
    /// Handles one event and returns the actions for it, in the order to perform them. The borrow
    /// enforces the one invariant: the next event can be handled only after the actions have been
    /// taken.
    ///
    /// `now` must not be earlier than at the previous event. An earlier time counts as the time of
    /// that event.
    ///
    /// # Panics
    /// On an `Arrive` with the id of a query that has not ended, or with a group that does not
    /// exist. Both are bugs in the driver. Reports about copies and queries that have ended are
    /// ignored.
    fn handle(&mut self, now: Timestamp, event: &Event) -> &[Action];

    /// Returns the latest time at which to send [`Event::Tick`], or [`Timestamp::NEVER`] if no
    /// timer is set.
    fn next_deadline(&self) -> Timestamp;

    /// Returns the state of the cell, so that its getters can be called.
    fn core(&self) -> &Core;

    /// For metrics: returns the number of queries that are probably stuck and wait for a second
    /// copy.
    fn suspects(&self) -> u32 {
        0
    }

    /// Returns the score by which the policy ranks a server, for metrics. Less is better. `None` if
    /// it keeps no score.
    fn score(&self, _server: ServerId) -> Option<f64> {
        None
    }

    /// Whether the policy uses the load that servers report ([`Event::Feedback`]).
    fn reads_feedback(&self) -> bool {
        false
    }

    /// Appends the cell's records for the service's [`crate::hedge::Learner`] to `into`. It must be
    /// called once per epoch, because a cell keeps a bounded number of records.
    fn publish(&mut self, into: &mut Vec<Record>);

    /// Adopts what the service has learned, for queries that start from now on.
    fn adopt(&mut self, snapshot: &Snapshot);
}

/// A set of servers, the groups that they serve, and a policy: a pick and a hedge.
#[derive(Clone, Debug)]
pub struct Cell<P, H> {
    core: Core,
    pick: P,
    hedge: H,
}

impl<P: Pick, H: Hedge> Cell<P, H> {
    /// Creates a cell whose server i may hold `gates[i]` copies. [`crate::Policy::build`] chooses
    /// the gates of named policies.
    ///
    /// # Errors
    /// An invalid topology or limit, or a gate outside the range from 1 to [`Topology::MAX_GATE`].
    pub fn new(
        topology: &Topology,
        gates: &[u32],
        limits: Limits,
        (pick, hedge): (P, H),
        rng: Rng,
    ) -> Result<Self, ConfigError> {
        topology.check()?;
        limits.check()?;
        let fits = |gate: &u32| (1..=Topology::MAX_GATE).contains(gate);
        if gates.len() != topology.servers.len() || !gates.iter().all(fits) {
            return Err(ConfigError(alloc::format!(
                "gates are {gates:?}; use 1 to {} for each server",
                Topology::MAX_GATE
            )));
        }
        Ok(Self {
            core: Core::new(topology, gates, limits, (H::BIASES, H::LIGHT, H::BUDGETED, rng)),
            pick,
            hedge,
        })
    }

    /// Limits the rates. Rates require a pick that observes copies.
    #[must_use]
    pub(crate) fn with_rates(mut self, rates: Option<Rates>) -> Self {
        debug_assert!(
            P::OBSERVES || rates.is_none(),
            "rates observe the events that picks observe"
        );
        for server in &mut self.core.servers {
            server.tracked |= rates.is_some();
        }
        self.core.rates = rates.map(Box::new);
        self
    }

    /// Returns the hedge, for its counters.
    pub fn hedge(&self) -> &H {
        &self.hedge
    }

    fn probe(&mut self, group: GroupId) {
        let Self { core, pick, .. } = self;
        let levels = core.groups[group.index()].levels(&core.servers, core.now);
        let probe = |server| *core.out.next() = Action::Probe { server };
        pick.probes(levels, &mut core.rng, probe);
    }

    #[inline(always)]
    fn decide(&mut self, event: &Event) -> &[Action] {
        match *event {
            Event::Arrive(ref arrive) => self.arrive(arrive),
            Event::Finished { copy, outcome } => self.finished(copy, outcome),
            _ => self.other(event),
        }
    }

    /// Handles every event except the two that every query causes.
    #[inline(never)]
    fn other(&mut self, event: &Event) -> &[Action] {
        match *event {
            Event::Arrive(_) | Event::Finished { .. } => unreachable!("handled at once"),
            Event::Started { copy } => self.began(copy),
            Event::Responded { copy, outcome } => self.responded(copy, outcome),
            Event::Stopped { copy } => self.stopped(copy),
            Event::Unwanted { copy } => self.unwanted(copy),
            Event::Progress { copy } => self.progress(copy),
            Event::Abandoned { query } => self.abandoned(query),
            Event::ServerUp { server } => self.server_up(server),
            Event::ServerUnhealthy { server, listens } => self.server_unhealthy(server, listens),
            Event::ServerDraining { server } => self.server_draining(server),
            Event::ServerDown { server } => self.server_down(server),
            Event::Forecast { copy, ends } => self.forecast(copy, ends),
            Event::Feedback { copy, feedback } => {
                self.feedback(copy, feedback);
                return self.core.actions(); // there is nothing to settle
            }
            Event::Probed(probed) => {
                self.pick.probed(self.core.now, probed);
                return self.core.actions();
            }
            Event::Limit { server, limit } => self.core.set_limit(server, limit),
            Event::Close { server, until } => self.core.close_until(server, until),
            Event::RetryAfter { server, ns } => self.core.pause(server, ns),
            Event::ForbidRetry { copy } => self.forbid_retry(copy),
            Event::Tick => self.tick(),
        }
        self.settle()
    }
}

impl<P: Pick + Send, H: Hedge + Send> Scheduler for Cell<P, H> {
    #[inline(always)]
    fn handle(&mut self, now: Timestamp, event: &Event) -> &[Action] {
        self.core.now = self.core.now.max(now);
        self.core.out.clear();
        if !P::OBSERVES {
            return self.decide(event);
        }
        self.decide(event);
        if let Event::Arrive(arrive) = event {
            self.probe(arrive.group);
        }
        for action in self.core.out.list() {
            match *action {
                Action::Start { server, .. } => self.pick.started(server, self.core.now),
                Action::Restore { server } => self.pick.restored(server),
                _ => {}
            }
        }
        self.core.out.list()
    }

    fn next_deadline(&self) -> Timestamp {
        let core = &self.core;
        let timers = [
            &core.deadlines,
            &core.delays,
            &core.copy_timers,
            &core.ejection_timers,
            &core.openings,
            &core.holds.until,
        ];
        // Most heaps are empty. The length of a heap is stored next to its address, so nothing else
        // is read for an empty heap.
        let set = timers.into_iter().filter(|heap| !heap.are_empty());
        let first = set.filter_map(|heap| heap.first(0));
        first.map(|(at, _)| at).min().unwrap_or(Timestamp::NEVER)
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn suspects(&self) -> u32 {
        self.hedge.suspects()
    }

    fn score(&self, server: ServerId) -> Option<f64> {
        let Core { groups, servers, now, .. } = &self.core;
        let group = &groups[self.core.groups_of(server).next()?.index()];
        self.pick.score(server, group.levels(servers, *now))
    }

    fn reads_feedback(&self) -> bool {
        self.pick.reads_feedback()
    }

    fn publish(&mut self, into: &mut Vec<Record>) {
        self.hedge.publish(into);
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        self.hedge.adopt(snapshot);
    }
}

/// Lets a driver that is generic over the cell use a boxed one.
impl<S: Scheduler + ?Sized> Scheduler for Box<S> {
    fn handle(&mut self, now: Timestamp, event: &Event) -> &[Action] {
        (**self).handle(now, event)
    }

    fn next_deadline(&self) -> Timestamp {
        (**self).next_deadline()
    }

    fn core(&self) -> &Core {
        (**self).core()
    }

    fn suspects(&self) -> u32 {
        (**self).suspects()
    }

    fn score(&self, server: ServerId) -> Option<f64> {
        (**self).score(server)
    }

    fn reads_feedback(&self) -> bool {
        (**self).reads_feedback()
    }

    fn publish(&mut self, into: &mut Vec<Record>) {
        (**self).publish(into);
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        (**self).adopt(snapshot);
    }
}
