//! A cell: the state machine that turns events into actions.

mod actions;
mod agenda;
mod budget;
mod copies;
mod core;
mod dispatch;
mod ends;
mod gate;
mod health;
mod holds;
mod hot;
mod membership;
mod queues;
mod ramp;
mod room;
mod typical;

pub use self::core::{CopyView, Core};
pub(crate) use budget::Budget;

use ::core::ops::{Deref, DerefMut};
use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Rng;
use crate::action::Action;
use crate::balance::Pick;
use crate::config::{ConfigError, Limits, Topology};
use crate::descriptor::{Compiled, Needs};
use crate::event::Event;
use crate::hedge::{Hedge, Records, Snapshot};
use crate::id::{CopyId, GroupId, ServerId};
use crate::levels::Levels;
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
    fn suspects(&self) -> u32;

    /// Returns the score by which the policy ranks a server, for metrics. Less is better. `None` if
    /// it keeps no score.
    fn score(&self, server: ServerId) -> Option<f64>;

    /// Returns what the policy needs of its driver and its servers.
    fn needs(&self) -> Needs;

    /// Appends the cell's records for the service's [`crate::hedge::Learner`] to `into`. It must be
    /// called once per epoch, because a cell keeps a bounded number of records.
    fn publish(&mut self, into: &mut Records);

    /// Adopts what the service has learned, for queries that start from now on.
    fn adopt(&mut self, snapshot: &Snapshot);
}

/// The parts of a cell's policy.
#[derive(Debug)]
pub struct Parts<P, H> {
    /// Chooses the server for a copy: `Box<dyn Pick>`, or [`Inline`].
    pub pick: P,
    /// Decides when a query gets further copies: `Box<dyn Hedge>`, or [`Inline`].
    pub hedge: H,
    /// What both need.
    pub needs: Needs,
}

/// A pick or a hedge for whose type a cell is compiled. The cell contains it rather than a pointer.
#[derive(Debug)]
pub struct Inline<T>(pub T);

impl<T> Deref for Inline<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Inline<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A set of servers, the groups that they serve, and a policy: a pick and a hedge. Its code is
/// compiled for types of them ([`Inline`]), or for any (`Box<dyn Pick>`, `Box<dyn Hedge>`).
#[derive(Debug)]
pub struct Cell<P, H> {
    core: Core,
    pick: P,
    hedge: H,
    needs: Needs,
    /// The sizes of responses whose copies have not ended, if the pick needs them.
    received: Vec<(CopyId, u64)>,
}

impl<P, H> Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled>,
    H: DerefMut<Target: Hedge<P::Target> + Compiled>,
{
    /// Whether the cell calls the hedge.
    const HEDGES: bool = <H::Target as Compiled>::HEDGES;
    /// Whether the hedge may set timers.
    const TIMERS: bool = needs::<H::Target>().timers;
    /// Whether the pick may observe copies. If so, the cell records all response times.
    const OBSERVES: bool = needs::<P::Target>().copies;
    /// Whether the cell keeps the expected costs of queries.
    const HINTS: bool = needs::<P::Target>().hints | needs::<H::Target>().hints;

    /// Creates a cell whose server i may hold `gates[i]` copies. [`crate::Policy::build`] chooses
    /// the gates of named policies.
    ///
    /// # Errors
    /// An invalid topology or limit, or a gate outside the range from 1 to [`Topology::MAX_GATE`].
    pub fn new(
        topology: &Topology,
        gates: &[u32],
        limits: Limits,
        parts: Parts<P, H>,
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
        let Parts { pick, hedge, needs } = parts;
        let core = Core::new(topology, gates, limits, hedge.conduct(), needs, rng);
        Ok(Self { core, pick, hedge, needs, received: Vec::new() })
    }

    /// Limits the rates. Rates observe the events that picks observe.
    #[must_use]
    pub(crate) fn with_rates(mut self, rates: Option<Rates>) -> Self {
        debug_assert!(Self::OBSERVES || rates.is_none(), "the cell observes copies");
        self.needs.copies |= rates.is_some();
        for server in &mut self.core.servers {
            server.tracked |= rates.is_some();
        }
        self.core.rates = rates.map(Box::new);
        self
    }

    fn probe(&mut self, group: GroupId) {
        let Self { core, pick, .. } = self;
        let levels = Levels::of(&core.groups[group.index()], &core.servers, core.now);
        let mut probe = |server| *core.out.next() = Action::Probe { server };
        pick.probes(levels, &mut core.rng, &mut probe);
    }

    fn receive(&mut self, copy: CopyId, bytes: u64) {
        if self.needs.bytes && self.core.copies.peek(copy).is_some() {
            self.take_received(copy);
            self.received.push((copy, bytes));
        }
    }

    /// Returns the size of the response of a copy that has ended. It is 0 if it is unknown.
    fn take_received(&mut self, copy: CopyId) -> u64 {
        let at = self.received.iter().position(|&(of, _)| of == copy);
        at.map_or(0, |at| self.received.swap_remove(at).1)
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
            Event::ServerLeft { server } => self.server_left(server),
            Event::ServerJoined { server } => self.server_joined(server),
            Event::Forecast { copy, ends } => self.forecast(copy, ends),
            Event::Feedback { copy, feedback } => {
                self.feedback(copy, feedback);
                return self.core.actions(); // there is nothing to settle
            }
            Event::Received { copy, bytes } => {
                self.receive(copy, bytes);
                return self.core.actions();
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

/// The needs that a cell compiled for this type considers: its own, or all if it is boxed.
const fn needs<T: Compiled + ?Sized>() -> Needs {
    match T::NEEDS {
        Some(needs) => needs,
        None => Needs { timers: true, copies: true, hints: true, ..Needs::NOTHING },
    }
}

impl Compiled for dyn Pick {
    const NEEDS: Option<Needs> = None;
}

impl Compiled for dyn Hedge {
    const NEEDS: Option<Needs> = None;
}

impl<P, H> Scheduler for Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled> + Send,
    H: DerefMut<Target: Hedge<P::Target> + Compiled> + Send,
{
    #[inline(always)]
    fn handle(&mut self, now: Timestamp, event: &Event) -> &[Action] {
        self.core.now = self.core.now.max(now);
        self.core.out.clear();
        if !Self::OBSERVES {
            return self.decide(event);
        }
        self.decide(event);
        if self.needs.probes
            && let Event::Arrive(arrive) = event
        {
            self.probe(arrive.group);
        }
        if self.needs.copies {
            for action in self.core.out.list() {
                match *action {
                    Action::Start { server, .. } => self.pick.started(server, self.core.now),
                    Action::Restore { server } => self.pick.restored(server),
                    _ => {}
                }
            }
        }
        self.core.out.list()
    }

    fn next_deadline(&self) -> Timestamp {
        self.core.timers.first(&self.core.holds.until)
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn suspects(&self) -> u32 {
        self.hedge.suspects()
    }

    fn score(&self, server: ServerId) -> Option<f64> {
        let group = self.core.groups_of(server).next()?;
        self.pick.score(server, self.core.levels(group))
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn publish(&mut self, into: &mut Records) {
        if let Some(learns) = self.hedge.learns() {
            learns.publish(into);
        }
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        if let Some(learns) = self.hedge.learns() {
            learns.adopt(snapshot);
        }
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

    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn publish(&mut self, into: &mut Records) {
        (**self).publish(into);
    }

    fn adopt(&mut self, snapshot: &Snapshot) {
        (**self).adopt(snapshot);
    }
}
