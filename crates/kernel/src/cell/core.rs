//! The state that every policy shares, and what a hedge may ask and order.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::actions::Actions;
use super::budget::Budget;
use super::copies::{Copies, QueryState, Stage};
use super::health::{Ejections, Health};
use super::holds::Holds;
use super::servers::{GroupState, ServerState, ServerView};
use crate::Rng;
use crate::action::{Action, Role, StartReason, StopReason};
use crate::balance::Pick;
use crate::config::{Limits, Topology};
use crate::heap::Heaps;
use crate::id::{CopyId, GroupId, NONE, QueryId, ServerId};
use crate::levels::Avoid;
use crate::rate::Rates;
use crate::time::{NEVER_NS, Timestamp};

/// The state of a cell that does not depend on its policy.
#[derive(Clone, Debug)]
pub struct Core {
    pub(crate) now: Timestamp,
    pub(crate) limits: Limits,
    pub(crate) rng: Rng,
    pub(crate) servers: Vec<ServerState>,
    /// The load, in copies, that is added to a server out of favor. With more, one server in trouble would put all its
    /// queries on its peers where there are many slots.
    pub(crate) bias: u32,
    pub(crate) groups: Vec<GroupState>,
    /// Is any of them large?
    pub(crate) ordered: bool,
    /// By server: its groups, and which member of the group it is.
    pub(crate) memberships: Vec<(GroupId, u32)>,
    pub(crate) queries: Vec<QueryState>,
    /// What each of them is expected to cost. Kept for hedges that ask ([`crate::hedge::Hedge::READS_HINTS`]).
    pub(crate) cost_hints: Vec<Option<NonZeroU64>>,
    pub(crate) waiting: u32,
    pub(crate) copies: Copies,
    /// Of queries: when they expire.
    pub(crate) deadlines: Heaps<Timestamp>,
    /// Of queries: when their hedge wants to be asked.
    pub(crate) delays: Heaps<Timestamp>,
    /// Of copies: their attempt timeout, or the cancel timeout of those given up.
    pub(crate) copy_timers: Heaps<Timestamp>,
    /// Of servers: when their ejections may end.
    pub(crate) ejection_timers: Heaps<Timestamp>,
    /// Of servers: when those that are closed for a time open.
    pub(crate) openings: Heaps<Timestamp>,
    /// Slots of copies that were refused or failed sooner than a good response comes.
    pub(crate) holds: Holds,
    /// By server: until when its driver wants it closed.
    pub(crate) closed_until: Vec<Timestamp>,
    /// None where rates are not limited.
    pub(crate) rates: Option<Box<Rates>>,
    pub(crate) ejections: Vec<Ejections>,
    pub(crate) arrivals: u64,
    /// A copy was refused or has failed.
    pub(super) has_failed: bool,
    pub(crate) retries: Budget,
    /// Of duplicates; none where there is no limit.
    pub(crate) hedges: Option<Budget>,
    pub(crate) hedges_refused: u64,
    pub(crate) out: Actions,
    /// Servers that may have room for more.
    pub(crate) freed: Vec<ServerId>,
    /// Queries whose last copy failed, youngest first.
    pub(crate) to_retry: Vec<QueryId>,
    /// Queries that got a first copy, for the hedge to look at once every waiting query that can
    /// be served is.
    pub(crate) started: Vec<QueryId>,
    /// Queries whose time has come, for the hedge to look at then, too.
    pub(crate) timers_due: Vec<QueryId>,
    /// Servers that may have room after that.
    pub(crate) spare: Vec<ServerId>,
    /// Groups in which a query began to wait, or still does after a slot went elsewhere.
    pub(crate) starved_groups: Vec<GroupId>,
}

/// A copy as a hedge sees it.
#[derive(Clone, Copy, Debug)]
pub struct CopyView {
    /// Its id.
    pub id: CopyId,
    /// Where it runs.
    pub server: ServerId,
    /// When it was sent.
    pub started: Timestamp,
    /// When it ends, where somebody forecast that; else [`Timestamp::NEVER`].
    pub ends: Timestamp,
    /// It was cancelled, and may answer before it does.
    pub stopping: bool,
}

impl Core {
    /// Copies that a query may have at once, at most.
    pub const MOST_COPIES: u8 = u8::MAX;

    /// `biases`: are there to be biased servers? The order of large groups pays for them, as it does for
    /// `light` copies.
    /// `budgeted`: does the hedge budget apply?
    pub(crate) fn new(
        topology: &Topology,
        gates: &[u32],
        limits: Limits,
        (biases, light, budgeted, rng): (bool, bool, bool, Rng),
    ) -> Self {
        let most = topology.servers.iter().map(|server| server.slots).max().unwrap_or(1);
        let top = topology.servers.iter().zip(gates).map(|(s, gate)| most - s.slots + gate);
        let bias = u32::from(biases);
        let lift = if light { gates.iter().copied().max().unwrap_or(0) } else { 0 };
        let full = bias + lift + top.max().unwrap_or(1);
        let limited = budgeted && limits.hedge_budget < 1.0;
        let mut memberships = Vec::new();
        for (group, members) in topology.groups.iter().enumerate() {
            let of = |(member, &server)| (server, (GroupId(group as u32), member as u32));
            memberships.extend(members.iter().enumerate().map(of));
        }
        // Stable: the groups of a server stay in their order.
        memberships.sort_by_key(|&(server, _)| server);
        let mut servers = Vec::with_capacity(topology.servers.len());
        let mut from = 0;
        for (at, server) in topology.servers.iter().enumerate() {
            let mut state = ServerState::new(server.slots, gates[at], most - server.slots + lift);
            let mine = memberships[from..].iter().take_while(|of| of.0.index() == at).count();
            state.groups = (from as u32, (from + mine) as u32);
            from += mine;
            servers.push(state);
        }
        let memberships = memberships.into_iter().map(|(_, membership)| membership).collect();
        let groups: Vec<_> = topology.groups.iter().map(|m| GroupState::new(m, full)).collect();
        let ordered = groups.iter().any(|group| group.order.is_some());
        let mut core = Self {
            now: Timestamp::default(),
            limits,
            rng,
            servers,
            bias,
            groups,
            ordered,
            memberships,
            queries: Vec::new(),
            cost_hints: Vec::new(),
            waiting: 0,
            copies: Copies::new(),
            deadlines: Heaps::new(1),
            delays: Heaps::new(1),
            copy_timers: Heaps::new(1),
            ejection_timers: Heaps::new(1),
            openings: Heaps::new(1),
            holds: Holds::new(),
            closed_until: alloc::vec![Timestamp::default(); topology.servers.len()],
            rates: None,
            ejections: alloc::vec![Ejections::default(); topology.servers.len()],
            arrivals: 0,
            has_failed: false,
            retries: Budget::new(limits.retry_budget, limits.retry_reserve),
            hedges: limited.then(|| Budget::new(limits.hedge_budget, limits.hedge_burst)),
            hedges_refused: 0,
            out: Actions::new(),
            freed: Vec::new(),
            to_retry: Vec::new(),
            started: Vec::new(),
            timers_due: Vec::new(),
            spare: Vec::new(),
            starved_groups: Vec::new(),
        };
        for server in (0..topology.servers.len() as u32).map(ServerId) {
            core.servers[server.index()].tracked = core.keeps_books(server);
            core.sort(server);
        }
        core
    }

    /// Is one of the server's groups large, its rate limited, or has a copy failed in this cell?
    pub(super) fn keeps_books(&self, server: ServerId) -> bool {
        let is_large = |group: GroupId| self.groups[group.index()].order.is_some();
        self.has_failed || self.rates.is_some() || self.groups_of(server).any(is_large)
    }

    /// The time of the event at hand.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How long ago a copy started that has just ended, in ns.
    pub(crate) fn ran_ns(&self, copy: CopyId) -> u64 {
        self.copies.ran_ns(copy, self.now)
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many servers the cell has.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// How many groups the cell has.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// A server as it is now.
    #[must_use]
    pub fn server(&self, server: ServerId) -> ServerView {
        let state = &self.servers[server.index()];
        ServerView {
            up: state.health == Health::Up,
            slots: state.slots,
            limit: state.gate(),
            outstanding: state.outstanding() - state.held,
            held: state.held,
        }
    }

    /// How many queries of a group wait.
    #[must_use]
    pub fn waiting(&self, group: GroupId) -> u32 {
        self.groups[group.index()].waiting
    }

    /// How many copies on the servers of a group were cancelled and have not yet.
    #[must_use]
    pub fn reclaiming(&self, group: GroupId) -> u32 {
        self.groups[group.index()].reclaiming
    }

    /// Retries that may be made now.
    #[must_use]
    pub fn retry_budget(&self) -> f64 {
        self.retries.tokens(self.arrivals)
    }

    /// Queries that the policy would have duplicated, had the hedge budget allowed it.
    #[must_use]
    pub fn hedges_refused(&self) -> u64 {
        self.hedges_refused
    }

    /// Does the hedge budget allow a duplicate of this query? Counts the queries to which it does not.
    #[inline(always)]
    pub fn may_hedge(&mut self, query: QueryId) -> bool {
        let Some(budget) = &self.hedges else { return true };
        if budget.allows(self.arrivals) {
            return true;
        }
        let state = &mut self.queries[query.index()];
        self.hedges_refused += u64::from(!core::mem::replace(&mut state.refused, true));
        false
    }

    /// Has this query not ended?
    #[must_use]
    pub fn is_live(&self, query: QueryId) -> bool {
        self.queries.get(query.index()).is_some_and(|q| q.stage != Stage::Ended)
    }

    /// The group of a live query.
    #[must_use]
    pub fn group_of(&self, query: QueryId) -> GroupId {
        self.queries[query.index()].group
    }

    /// May the query run on several servers at once? No more after one of its copies failed, else a
    /// server that fails fast would be sent duplicates without end; nor once it has expired.
    #[must_use]
    pub fn may_duplicate(&self, query: QueryId) -> bool {
        let state = &self.queries[query.index()];
        state.may_duplicate && state.deadline > self.now
    }

    /// What a live query is expected to cost, for hedges that say that they ask; none for others.
    #[must_use]
    pub fn cost_hint_of(&self, query: QueryId) -> Option<NonZeroU64> {
        self.cost_hints.get(query.index()).copied().flatten()
    }

    /// The query gets no further duplicates.
    pub fn forbid_duplicates(&mut self, query: QueryId) {
        self.queries[query.index()].may_duplicate = false;
    }

    /// The copies that may still answer a query, newest first.
    pub fn copies_of(&self, query: QueryId) -> impl Iterator<Item = CopyView> + '_ {
        let next = |slot: u32| (slot != NONE).then_some(slot);
        let first = next(self.queries[query.index()].first);
        core::iter::successors(first, move |&slot| next(self.copies.get(slot).next)).map(|slot| {
            let copy = self.copies.get(slot);
            CopyView {
                id: self.copies.id(slot),
                server: copy.server,
                started: copy.started,
                ends: copy.ends,
                stopping: copy.stopping,
            }
        })
    }

    /// Does anybody wait for a copy on this server, or for the rest of its response? Once a server
    /// answers no probes and this is false, its copies hold slots that no client needs.
    #[must_use]
    pub fn is_awaited(&self, server: ServerId) -> bool {
        self.copies.awaited_on(server)
    }

    /// The query that a copy may still answer.
    #[must_use]
    pub fn query_of(&self, copy: CopyId) -> Option<QueryId> {
        let state = self.copies.peek(copy)?;
        let query = state.query;
        (query != NONE).then_some(QueryId(query))
    }

    /// The servers that a further copy of the query must not go to.
    #[must_use]
    pub fn avoid(&self, query: QueryId) -> Avoid {
        let state = &self.queries[query.index()];
        let holds = (state.first != NONE).then(|| self.copies.get(state.first).server);
        Avoid([holds, state.avoid()])
    }

    #[inline(always)]
    pub(crate) fn pick<P: Pick>(
        &mut self,
        pick: &mut P,
        group: GroupId,
        avoid: Avoid,
    ) -> Option<ServerId> {
        let levels = self.groups[group.index()].levels(&self.servers, self.now);
        pick.pick(group, levels, avoid, &mut self.rng)
    }

    /// Asks the balance for a server to send the query to again.
    pub(crate) fn choose<P: Pick>(&mut self, pick: &mut P, query: QueryId) -> Option<ServerId> {
        self.pick(pick, self.group_of(query), self.avoid(query))
    }

    /// Asks the balance for a server for a second copy of a query that may have two, so that none of
    /// its copies has failed. None, too, where it has lost the first.
    #[inline(always)]
    pub(crate) fn choose_second<P: Pick>(
        &mut self,
        pick: &mut P,
        query: QueryId,
    ) -> Option<ServerId> {
        let QueryState { group, first, .. } = self.queries[query.index()];
        let holds = self.copies.try_get(first)?.server;
        self.pick(pick, group, Avoid([Some(holds), None]))
    }

    /// Sets the hedge's timer of a query, in place of any earlier one. One that is past is due now.
    pub fn set_timer(&mut self, query: QueryId, at: Timestamp) {
        self.delays.remove(0, query.0);
        self.delays.insert(0, at.max(self.now), query.0);
    }

    /// Starts a copy. Its server must have room and hold no other copy of the query.
    #[inline(always)]
    pub fn start(
        &mut self,
        query: QueryId,
        server: ServerId,
        role: Role,
        why: StartReason,
    ) -> CopyId {
        debug_assert!(self.has_room(server), "a start needs room");
        debug_assert!(self.copies_of(query).all(|c| c.server != server), "copies on one server");
        let state = &mut self.queries[query.index()];
        let copy = self.copies.add(query.0, state.first, server, self.now);
        state.attach(copy.slot);
        let holder = &mut self.servers[server.index()];
        holder.inc_outstanding();
        if holder.tracked {
            self.track_start(server);
        }
        if self.limits.attempt_timeout_ns != NEVER_NS {
            self.start_copy_timer(copy.slot, self.limits.attempt_timeout_ns);
        }
        if role == Role::Duplicate
            && let Some(budget) = &mut self.hedges
        {
            budget.spend(self.arrivals);
        }
        *self.out.next() = Action::Start { copy, query, server, role, why };
        copy
    }

    /// Tells a copy's server to stop it. Until it has, the copy holds its slot, and may still win.
    pub fn stop(&mut self, copy: CopyId, why: StopReason) {
        let Some(state) = self.copies.find(copy) else { return };
        if core::mem::replace(&mut state.stopping, true) {
            return;
        }
        let server = state.server;
        *self.out.next() = Action::Stop { copy, why };
        self.reclaim(server, 1);
        self.start_copy_timer(copy.slot, self.limits.cancel_timeout_ns);
    }

    pub(crate) fn reclaim(&mut self, server: ServerId, change: i32) {
        let (from, to) = self.servers[server.index()].groups;
        for at in from..to {
            let group = &mut self.groups[self.memberships[at as usize].0.index()];
            group.reclaiming = group.reclaiming.checked_add_signed(change).expect("stops end once");
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        let queries = [&self.to_retry, &self.started, &self.timers_due];
        let servers = [&self.freed, &self.spare];
        queries.iter().all(|list| list.is_empty())
            && servers.iter().all(|list| list.is_empty())
            && self.starved_groups.is_empty()
    }

    #[inline(always)]
    pub(crate) fn actions(&self) -> &[Action] {
        self.out.list()
    }

    pub(crate) fn set_deadline(&mut self, query: QueryId) {
        let state = &self.queries[query.index()];
        if state.timed() {
            self.deadlines.insert(0, state.deadline, query.0);
        }
    }

    pub(crate) fn start_copy_timer(&mut self, slot: u32, ns: u64) {
        self.stop_copy_timer(slot);
        let until = self.now.after(ns);
        if until != Timestamp::NEVER {
            self.copies.get_mut(slot).timed = true;
            self.copy_timers.insert(0, until, slot);
        }
    }

    #[inline(always)]
    pub(crate) fn stop_copy_timer(&mut self, slot: u32) {
        if core::mem::take(&mut self.copies.get_mut(slot).timed) {
            self.copy_timers.remove(0, slot);
        }
    }
}
