//! LÆDGE, the load-aware hedge: a server that would be idle takes a second copy.
//!
//! Source: document 000, Algorithm 3 and §5.3; 001 §4, Algorithm 1. The three variants:
//! - *plain*: losers run to their end;
//! - *CC*: the loser is stopped when a copy wins (cleanup cancellation), and slots are given out as
//!   in Algorithm 2;
//! - *CC+PC*: when a query waits and no server has room, a hedged query gives up one copy
//!   (pre-emptive cancellation). Which one, the [`Predictor`] says: [`super::MostRecent`] makes it
//!   LÆDGE, [`super::Oracle`] Idealized Hedge (Algorithms 1 and 2).
//!
//! Behind a gate wider than the slots it is LÆDGE over JBSQ (001 §6): queries are queued at the
//! servers up to the gate, duplicates start in idle slots only.
//!
//! Cost: O(log n) in the running queries of the group, and O(slots) to pass over those that run on
//! the idle server itself, or over pairs whose slots no waiting query may use. Any number of replicas and slots; two copies at most.
//!
//! Settled: for more than two replicas, two at random among the idle ones; the oldest query with
//! one copy is duplicated first; no duplicate of a group's query starts while another query of the
//! group waits, be it for a server of its choice; pairs are broken for their own group's queries
//! only; age counts from the start of the oldest living copy.

use core::cmp::Reverse;
use core::fmt;

use super::Hedge;
use super::predictor::{MostRecent, Predictor, Victim};
use crate::action::{Role, StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::{CopyView, Core};
use crate::config::{Limits, Topology};
use crate::heap::Heaps;
use crate::id::{GroupId, QueryId, ServerId};
use crate::policy::{Args, Gate, Named, PickSpec, PolicyError};
use crate::time::Timestamp;
use rand_core::Rng as _;

/// Which copies are stopped. In the order of the forms of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// None.
    Plain,
    /// Losers (CC).
    Cleanup,
    /// Losers, and duplicates whose slot is needed (CC+PC).
    Preemptive,
}

/// The load-aware hedge.
#[derive(Clone, Debug)]
pub struct Laedge<R> {
    cancellation: Cancellation,
    predictor: R,
    /// By group: queries with one copy, oldest first.
    singles: Heaps<Timestamp>,
    /// By group: queries with two copies, the one that saves most first. Kept for pre-emption.
    pairs: Heaps<Reverse<u64>>,
}

impl<R: Predictor> Laedge<R> {
    /// For so many groups.
    pub fn new(groups: usize, cancellation: Cancellation, predictor: R) -> Self {
        Self { cancellation, predictor, singles: Heaps::new(groups), pairs: Heaps::new(groups) }
    }

    /// Puts a query that is in no list into the one where it belongs.
    #[inline(never)]
    fn list(&mut self, core: &Core, query: QueryId) {
        // A query that may not run twice is of no interest, nor is one with a copy that is about
        // to stop: it is looked at again when that copy has.
        if !core.may_duplicate(query) {
            return;
        }
        let group = core.group_of(query).index();
        let mut copies = core.copies_of(query);
        match (copies.next(), copies.next()) {
            (Some(only), None) if !only.stopping => {
                self.singles.insert(group, only.started, query.0);
            }
            (Some(newer), Some(older)) if self.preempts() && !newer.stopping && !older.stopping => {
                let judgment = self.predictor.judge(&older, &newer);
                self.pairs.insert(group, Reverse(judgment.saves_ns), query.0);
            }
            _ => {}
        }
    }

    /// The oldest query with one copy that the server could run a second copy of.
    fn oldest_single(&self, core: &Core, server: ServerId) -> Option<QueryId> {
        let suits = |query: u32| {
            let query = QueryId(query);
            core.may_duplicate(query) && core.copies_of(query).all(|c| c.server != server)
        };
        let mut oldest: Option<(Timestamp, u32)> = None;
        for group in core.groups_of(server) {
            // A query may wait beside an idle server: one that failed here and is sent again.
            if self.singles.is_empty(group.index()) || core.waiting(group) > 0 {
                continue;
            }
            let found = self.singles.first_where(group.index(), suits);
            oldest = found.filter(|found| oldest.is_none_or(|best| *found < best)).or(oldest);
        }
        oldest.map(|(_, query)| QueryId(query))
    }

    /// A second copy for the server, of the oldest query that it may be of; false if there is none.
    #[inline(never)]
    fn second(&mut self, core: &mut Core, server: ServerId) -> bool {
        let Some(query) = self.oldest_single(core, server) else { return false };
        if !core.may_hedge(query) {
            return false;
        }
        core.start(query, server, Role::Duplicate, StartReason::Idle);
        self.singles.remove(core.group_of(query).index(), query.0);
        self.paired(core, query);
        true
    }

    #[inline(always)]
    fn paired(&mut self, core: &Core, query: QueryId) {
        // No other version asks for pairs.
        if self.preempts() {
            self.list(core, query);
        }
    }

    /// Which copies of a pair may be stopped for a query that waits: one, or either.
    fn victims(&self, core: &Core, query: QueryId) -> [Option<CopyView>; 2] {
        let mut copies = core.copies_of(query);
        let (Some(newer), Some(older)) = (copies.next(), copies.next()) else {
            unreachable!("a pair has two copies")
        };
        let victim = self.predictor.judge(&older, &newer).victim;
        let group = core.group_of(query);
        let either = [(older, Victim::Newer), (newer, Victim::Older)];
        either.map(|(copy, other)| {
            (victim != other && core.is_wanted(copy.server, group)).then_some(copy)
        })
    }

    /// Stops one copy of the pair that saves most; false when there is none whose slot is of use.
    fn break_pair(&mut self, core: &mut Core, group: GroupId) -> bool {
        let of_use = |pair: u32| self.victims(core, QueryId(pair)).iter().any(Option::is_some);
        let Some((_, query)) = self.pairs.first_where(group.index(), of_use) else { return false };
        let query = QueryId(query);
        let victim = match self.victims(core, query) {
            [Some(older), Some(_)] if core.rng.next_u32() & 1 == 0 => older,
            [_, Some(newer)] => newer,
            [Some(older), None] => older,
            [None, None] => unreachable!("just found"),
        };
        core.stop(victim.id, StopReason::Preemption);
        self.recount(core, query);
        true
    }
}

/// An idle server for a second copy: the pick's choice, and where that one is busy, any other. O(r)
/// then, which the least loaded and gates as wide as the slots never need.
#[inline(always)]
fn idle_server<P: Pick>(core: &mut Core, pick: &mut P, query: QueryId) -> Option<ServerId> {
    let server = core.choose_second(pick, query)?;
    if core.has_idle_slot(server) {
        return Some(server);
    }
    let holds = core.copies_of(query).next()?.server;
    let mut servers = core.servers_of(core.group_of(query)).iter().copied();
    servers.find(|&other| other != holds && core.has_idle_slot(other))
}

impl<R: Predictor> Hedge for Laedge<R> {
    const SETS_TIMERS: bool = false;

    fn cleans_up(&self) -> bool {
        self.cancellation != Cancellation::Plain
    }

    fn preempts(&self) -> bool {
        self.cancellation == Cancellation::Preemptive
    }

    #[inline(always)]
    fn recount(&mut self, core: &Core, query: QueryId) {
        self.ended(core, query);
        self.list(core, query);
    }

    #[inline(always)]
    fn ended(&mut self, core: &Core, query: QueryId) {
        if self.singles.contains(query.0) {
            self.singles.remove(core.group_of(query).index(), query.0);
        } else if self.pairs.contains(query.0) {
            self.pairs.remove(core.group_of(query).index(), query.0);
        }
    }

    #[inline(always)]
    fn primary_started<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if !core.may_duplicate(query) {
            return;
        }
        // Where another server is idle, every older query has its second copy, or may have none.
        let group = core.group_of(query);
        if core.waiting(group) == 0
            && let Some(server) = idle_server(core, pick, query)
            && core.may_hedge(query)
        {
            core.start(query, server, Role::Duplicate, StartReason::Hedge);
            return self.paired(core, query);
        }
        self.singles.insert(group.index(), core.now(), query.0);
    }

    #[inline(always)]
    fn primary_started_late<P: Pick>(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if core.may_duplicate(query) {
            self.singles.insert(core.group_of(query).index(), core.now(), query.0);
        }
    }

    #[inline(always)]
    fn spare(&mut self, core: &mut Core, server: ServerId) -> bool {
        // Mostly there is none.
        !self.singles.are_empty() && core.has_idle_slot(server) && self.second(core, server)
    }

    fn starved(&mut self, core: &mut Core, group: GroupId) {
        // One slot per waiting query; those being cleared count.
        while core.waiting(group) > core.reclaiming(group) && self.break_pair(core, group) {}
    }
}

impl Named for Cancellation {
    type Hedge = Laedge<MostRecent>;
    const FORMS: &'static [&'static str] = &["laedge", "laedge:cc", "laedge:cc+pc"];
    const PICK: PickSpec = PickSpec::LeastOutstanding;
    const GATE: Gate = Gate::Slots;

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        match *args.list() {
            [] => Ok(Self::Plain),
            ["cc"] => Ok(Self::Cleanup),
            ["cc+pc"] => Ok(Self::Preemptive),
            _ => Err(args.unknown()),
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::FORMS[*self as usize])
    }

    fn hedge(&self, topology: &Topology, _: &Limits) -> Self::Hedge {
        Laedge::new(topology.groups.len(), *self, MostRecent)
    }

    fn needs_cancellation(&self) -> bool {
        *self != Self::Plain
    }
}
