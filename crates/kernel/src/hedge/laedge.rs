//! LÆDGE, the load-aware hedge: a server that would be idle takes a second copy.
//!
//! Source: document 000, Algorithm 3 and §5.3; 001 §4, Algorithm 1. The three variants:
//! - *plain*: losers run to completion;
//! - *CC*: the loser is stopped when a copy wins (cleanup cancellation), and slots are assigned as
//!   in Algorithm 2;
//! - *CC+PC*: when a query waits and no server has room, a hedged query gives up one copy
//!   (pre-emptive cancellation). The `Predictor` chooses the copy: with [`MostRecent`],
//!   this is LÆDGE; with `Oracle`, it is Idealized Hedge (Algorithms 1 and 2).
//!
//! Behind a gate wider than the slots, this is LÆDGE over JBSQ (001 §6): queries queue at the
//! servers up to the gate, and duplicates start only in idle slots.
//!
//! Cost: O(log n) in the running queries of the group, plus O(slots) to skip queries that run on
//! the idle server itself, or pairs whose slots no waiting query may use. It supports any number of
//! replicas and slots, and at most two copies of a query.
//!
//! Choices:
//! - With more than two replicas, the copies go to two random idle ones.
//! - The oldest query with one copy is duplicated first.
//! - No query of a group is duplicated while another query of the group waits, even if that query
//!   can use only particular servers.
//! - A pair is broken only for queries of its own group.
//! - Age is measured from the start of the oldest live copy.

use alloc::boxed::Box;
use core::cmp::Reverse;

use super::rule::{Hedge, NewHedge};
use crate::action::{Role, StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::{CopyView, Core};
use crate::config::Site;
use crate::descriptor::{Arguments, Compiled, Conduct, Descriptor, Needs};
use crate::heap::Heaps;
use crate::id::{GroupId, QueryId, ServerId};
use crate::time::Timestamp;
use rand_core::Rng as _;

/// `laedge`
pub static LAEDGE: Descriptor<NewHedge> = Descriptor {
    name: "laedge",
    forms: &["laedge", "laedge:cc", "laedge:cc+pc"],
    about: "a second copy of the oldest query whenever a server is idle",
    needs: |of| Needs { cancellation: of.form != PLAIN, ..NEEDS },
    builds: NewHedge {
        fills_idle_slots: |_| true,
        simulation_cost: |of| if of.form == PREEMPTIVE { 3.5 } else { 2.5 },
        ..NewHedge::pull(|of, site| Box::new(Laedge::named(of, site)))
    },
};

/// Idealized Hedge: `laedge:cc+pc` with a perfect predictor. No name stands for it, because only a
/// simulator can forecast.
pub static IDEALIZED: Descriptor<NewHedge> = Descriptor {
    name: "idealized",
    forms: &["idealized"],
    about: "laedge:cc+pc that knows when each copy ends",
    needs: |_| Needs { cancellation: true, forecasts: true, ..NEEDS },
    builds: NewHedge {
        simulator_only: Some("needs to know when each copy will end"),
        fills_idle_slots: |_| true,
        simulation_cost: |_| 4.5,
        ..NewHedge::pull(|_, site| Box::new(Laedge::new(PREEMPTIVE, site, Oracle)))
    },
};

const NEEDS: Needs = Needs { budget: true, ..Needs::NOTHING };

/// The forms: which copies are stopped. None, losers (CC), or both losers and duplicates whose slot
/// is needed (CC+PC).
const PLAIN: usize = 0;
const PREEMPTIVE: usize = 2;

/// The load-aware hedge.
#[derive(Clone, Debug)]
pub struct Laedge<R> {
    form: usize,
    predictor: R,
    /// The queries with one copy, by group, oldest first.
    singles: Heaps<Timestamp>,
    /// The queries with two copies, by group, largest saving first. The list is kept only for
    /// pre-emption.
    pairs: Heaps<Reverse<u64>>,
}

impl Laedge<MostRecent> {
    pub(crate) fn named(of: &Arguments, site: Site<'_>) -> Self {
        Self::new(of.form, site, MostRecent)
    }
}

impl Compiled for Laedge<MostRecent> {
    const NEEDS: Option<Needs> = Some(NEEDS);
}

impl<R: Predictor> Laedge<R> {
    fn new(form: usize, site: Site<'_>, predictor: R) -> Self {
        let groups = site.topology.groups.len();
        Self { form, predictor, singles: Heaps::new(groups), pairs: Heaps::new(groups) }
    }

    #[inline(always)]
    fn preempts(&self) -> bool {
        self.form == PREEMPTIVE
    }

    #[inline(always)]
    fn unlist(&mut self, core: &Core, query: QueryId) {
        if self.singles.contains(query.0) {
            self.singles.remove(core.group_of(query).index(), query.0);
        } else if self.pairs.contains(query.0) {
            self.pairs.remove(core.group_of(query).index(), query.0);
        }
    }

    /// Adds a query to the list where it belongs. The query must not be in any list yet.
    #[inline(never)]
    fn list(&mut self, core: &Core, query: QueryId) {
        // A query that may not run twice is never listed. A query with a copy that is being stopped
        // is listed once that copy has stopped.
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

    /// Returns the oldest query that has one copy and could get a second one on this server.
    fn oldest_single(&self, core: &Core, server: ServerId) -> Option<QueryId> {
        let suits = |query: u32| {
            let query = QueryId(query);
            core.may_duplicate(query) && core.copies_of(query).all(|c| c.server != server)
        };
        let mut oldest: Option<(Timestamp, u32)> = None;
        for group in core.groups_of(server) {
            // A query that failed on this server and is to be retried may wait even while the
            // server is idle.
            if self.singles.is_empty(group.index()) || core.waiting(group) > 0 {
                continue;
            }
            let found = self.singles.first_where(group.index(), suits);
            oldest = found.filter(|found| oldest.is_none_or(|best| *found < best)).or(oldest);
        }
        oldest.map(|(_, query)| QueryId(query))
    }

    /// Starts a second copy of the oldest suitable query on the server. Returns false if there is
    /// none.
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
        // Only the pre-emptive variant uses pairs.
        if self.preempts() {
            self.list(core, query);
        }
    }

    /// Returns the older and the newer copy of a pair. A copy that may not be stopped for a waiting
    /// query is `None`.
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

    /// Stops one copy of the pair for which this saves the most time. Returns false if no pair has
    /// a useful slot.
    fn break_pair(&mut self, core: &mut Core, group: GroupId) -> bool {
        let of_use = |pair: u32| self.victims(core, QueryId(pair)).iter().any(Option::is_some);
        let Some((_, query)) = self.pairs.first_where(group.index(), of_use) else { return false };
        let query = QueryId(query);
        let victim = match self.victims(core, query) {
            [Some(older), Some(_)] if core.rng().next_u32() & 1 == 0 => older,
            [_, Some(newer)] => newer,
            [Some(older), None] => older,
            [None, None] => unreachable!("just found"),
        };
        core.stop(victim.id, StopReason::Preemption);
        self.unlist(core, query);
        self.list(core, query);
        true
    }
}

/// Returns an idle server for a second copy: the pick's choice, or any other if that one is busy.
/// The search for another server costs O(r). It is never needed with least-outstanding picks, or
/// with gates as wide as the slots.
#[inline(always)]
fn idle_server<P: Pick + ?Sized>(
    core: &mut Core,
    pick: &mut P,
    query: QueryId,
) -> Option<ServerId> {
    let server = core.choose_second(pick, query)?;
    if core.has_idle_slot(server) {
        return Some(server);
    }
    let holds = core.copies_of(query).next()?.server;
    let mut servers = core.servers_of(core.group_of(query)).iter().copied();
    servers.find(|&other| other != holds && core.has_idle_slot(other))
}

impl<P: Pick + ?Sized, R: Predictor> Hedge<P> for Laedge<R> {
    fn conduct(&self) -> Conduct {
        let (cleans_up, preempts) = (self.form != PLAIN, self.preempts());
        Conduct { cleans_up, preempts, ..Conduct::default() }
    }

    #[inline(always)]
    fn recount(&mut self, core: &Core, query: QueryId) {
        self.unlist(core, query);
        self.list(core, query);
    }

    #[inline(always)]
    fn ended(&mut self, core: &Core, query: QueryId) {
        self.unlist(core, query);
    }

    #[inline(always)]
    fn primary_started(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if !core.may_duplicate(query) {
            return;
        }
        // If another server is idle, every older query has its second copy, or is not allowed to
        // have one.
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
    fn primary_started_late(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if core.may_duplicate(query) {
            self.singles.insert(core.group_of(query).index(), core.now(), query.0);
        }
    }

    #[inline(always)]
    fn spare(&mut self, core: &mut Core, server: ServerId) -> bool {
        // The list of queries with one copy is usually empty.
        !self.singles.are_empty() && core.has_idle_slot(server) && self.second(core, server)
    }

    fn starved(&mut self, core: &mut Core, group: GroupId) {
        // Frees one slot per waiting query. Slots that are already being freed are counted.
        while core.waiting(group) > core.reclaiming(group) && self.break_pair(core, group) {}
    }
}

/// The copy of a pair that is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The copy that started first.
    Older,
    /// The copy that started last.
    Newer,
    /// Either copy: they look the same, so one is chosen at random.
    Either,
}

/// A predictor's judgment of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgment {
    /// The copy to stop if one must be stopped.
    pub victim: Victim,
    /// How much longer the victim would run, in ns. The pair with the largest value is broken
    /// first.
    pub saves_ns: u64,
}

/// Predicts which copy of a hedged query would end later, and how much time stopping it would save.
/// Pre-emptive cancellation with a perfect predictor *is* Idealized Hedge. With the age of the copies
/// as the predictor, it is LÆDGE. Called when a pair forms and when a forecast about it arrives.
pub trait Predictor: core::fmt::Debug + Send {
    /// Judges a pair of copies.
    fn judge(&self, older: &CopyView, newer: &CopyView) -> Judgment;
}

/// Predicts that the copy that started last will end last (document 001 §4, "LÆDGE with CC+PC").
///
/// Choice: if there are several pairs, the pair whose older copy has the longest lead is broken.
#[derive(Clone, Debug, Default)]
pub struct MostRecent;

impl Predictor for MostRecent {
    fn judge(&self, older: &CopyView, newer: &CopyView) -> Judgment {
        let saves_ns = newer.started.since(older.started);
        let victim = if saves_ns == 0 { Victim::Either } else { Victim::Newer };
        Judgment { victim, saves_ns }
    }
}

/// Predicts perfectly, from [`crate::Event::Forecast`]: the function *end(request)* of document 000,
/// Algorithms 1 and 2, and §5.3. A pair without forecasts is judged as [`MostRecent`] would judge it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Oracle;

impl Predictor for Oracle {
    fn judge(&self, older: &CopyView, newer: &CopyView) -> Judgment {
        if older.ends == Timestamp::NEVER || newer.ends == Timestamp::NEVER {
            return MostRecent.judge(older, newer);
        }
        if older.ends > newer.ends {
            Judgment { victim: Victim::Older, saves_ns: older.ends.since(newer.ends) }
        } else {
            Judgment { victim: Victim::Newer, saves_ns: newer.ends.since(older.ends) }
        }
    }
}
