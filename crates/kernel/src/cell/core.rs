//! The state that every policy shares, and the methods with which a hedge may read and change it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::actions::Actions;
use super::agenda::{Agenda, Timers};
use super::budget::Budget;
use super::copies::{Copies, QueryPhase, QueryState};
use super::holds::Holds;
use crate::Rng;
use crate::action::{Action, Role, StartReason, StopReason};
use crate::balance::{Pick, Wanted};
use crate::config::{Limits, Topology};
use crate::descriptor::{Conduct, Needs};
use crate::id::{CopyId, GroupId, NONE, QueryId, ServerId};
use crate::levels::Levels;
use crate::order::Avoid;
use crate::rate::Rates;
use crate::servers::{Ejections, GroupState, Health, ServerState, ServerView};
use crate::time::{NEVER_NS, Timestamp};

/// The state of a cell that does not depend on its policy.
#[derive(Clone, Debug)]
pub struct Core {
    pub(super) now: Timestamp,
    pub(super) limits: Limits,
    pub(super) conduct: Conduct,
    pub(super) rng: Rng,
    pub(super) servers: Vec<ServerState>,
    /// The load bias, in copies, of a server that the hedge biases: 1, or 0 if the hedge never
    /// biases a server. With a larger bias and many slots per server, a server in trouble would
    /// lose all its queries to its peers.
    pub(super) bias: u32,
    pub(super) groups: Vec<GroupState>,
    /// Whether any group is large.
    pub(super) ordered: bool,
    /// The groups of each server, with the server's index in the group. Sorted by server.
    pub(super) memberships: Vec<(GroupId, u32)>,
    pub(super) queries: Vec<QueryState>,
    /// The expected cost of each query. It is kept only for policies that need it ([`Needs::hints`]).
    pub(super) cost_hints: Vec<Option<NonZeroU64>>,
    pub(super) waiting: u32,
    pub(super) copies: Copies,
    pub(super) timers: Timers,
    /// Slots of copies that were refused or failed before a good response would have arrived.
    pub(super) holds: Holds,
    /// The time until which the driver has closed each server.
    pub(super) closed_until: Vec<Timestamp>,
    /// `None` if rates are not limited.
    pub(super) rates: Option<Box<Rates>>,
    pub(super) ejections: Vec<Ejections>,
    pub(super) arrivals: u64,
    /// Whether any copy has been refused or has failed.
    pub(super) has_failed: bool,
    pub(super) retries: Budget,
    /// The budget of duplicates. It is `None` if there is no limit.
    pub(super) hedges: Option<Budget>,
    pub(super) hedges_refused: u64,
    pub(super) out: Actions,
    pub(super) todo: Agenda,
}

/// A copy as a hedge sees it.
#[derive(Clone, Copy, Debug)]
pub struct CopyView {
    /// Its id.
    pub id: CopyId,
    /// Its server.
    pub server: ServerId,
    /// When the copy was sent.
    pub started: Timestamp,
    /// The forecast of its end, or [`Timestamp::NEVER`] without a forecast.
    pub ends: Timestamp,
    /// Whether the copy was cancelled. It may still respond before it stops.
    pub stopping: bool,
}

impl Core {
    /// The largest number of copies that a query may have at the same time.
    pub const MOST_COPIES: u8 = u8::MAX;

    /// If the hedge biases servers, or if duplicates have a low priority, the order of large groups
    /// needs more levels.
    pub(crate) fn new(
        topology: &Topology,
        gates: &[u32],
        limits: Limits,
        conduct: Conduct,
        needs: Needs,
        rng: Rng,
    ) -> Self {
        let most = topology.servers.iter().map(|server| server.slots).max().unwrap_or(1);
        let top = topology.servers.iter().zip(gates).map(|(s, gate)| most - s.slots + gate);
        let bias = u32::from(conduct.biases);
        let lift = if needs.priority { gates.iter().copied().max().unwrap_or(0) } else { 0 };
        let full = bias + lift + top.max().unwrap_or(1);
        let limited = needs.budget && limits.hedge_budget < 1.0;
        let mut memberships = Vec::new();
        for (group, members) in topology.groups.iter().enumerate() {
            let of = |(member, &server)| (server, (GroupId(group as u32), member as u32));
            memberships.extend(members.iter().enumerate().map(of));
        }
        // A stable sort, so the groups of a server stay in order.
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
            conduct,
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
            timers: Timers::new(),
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
            todo: Agenda::default(),
        };
        for server in (0..topology.servers.len() as u32).map(ServerId) {
            core.servers[server.index()].tracked = core.keeps_books(server);
            core.sort(server);
        }
        core
    }

    /// Whether the cell tracks each copy of the server. It does if one of the server's groups is
    /// large, if its rate is limited, or if a copy has failed in this cell.
    pub(super) fn keeps_books(&self, server: ServerId) -> bool {
        let is_large = |group: GroupId| self.groups[group.index()].order.is_some();
        self.has_failed || self.rates.is_some() || self.groups_of(server).any(is_large)
    }

    /// Returns the time of the current event.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the time since a copy was sent, in ns. The copy runs, or has just ended.
    #[must_use]
    pub fn ran_ns(&self, copy: CopyId) -> u64 {
        self.copies.ran_ns(copy, self.now)
    }

    /// Returns the generator of the cell. A hedge that draws random numbers uses only this one, so
    /// that a seed replays its decisions. Its methods are those of [`crate::rand_core`].
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Returns the number of queries that have arrived.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns the limits of the cell.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the current state of a server.
    #[must_use]
    pub fn server(&self, server: ServerId) -> ServerView {
        let state = &self.servers[server.index()];
        ServerView {
            member: state.health != Health::Absent,
            up: state.health == Health::Up,
            slots: state.slots,
            limit: state.gate(),
            outstanding: state.outstanding() - state.held,
            held: state.held,
        }
    }

    /// Returns the number of waiting queries of a group.
    #[must_use]
    pub fn waiting(&self, group: GroupId) -> u32 {
        self.groups[group.index()].waiting
    }

    /// Returns how many cancelled copies on the servers of a group have not stopped yet.
    #[must_use]
    pub fn reclaiming(&self, group: GroupId) -> u32 {
        self.groups[group.index()].reclaiming
    }

    /// Returns the number of retries that the budget allows now.
    #[must_use]
    pub fn retry_budget(&self) -> f64 {
        self.retries.tokens(self.arrivals)
    }

    /// Returns the number of queries that the hedge budget kept from being duplicated.
    #[must_use]
    pub fn hedges_refused(&self) -> u64 {
        self.hedges_refused
    }

    /// Whether the hedge budget allows a duplicate of this query. Each query that the budget
    /// refuses is counted.
    #[inline(always)]
    pub fn may_hedge(&mut self, query: QueryId) -> bool {
        let Some(budget) = &self.hedges else { return true };
        if budget.allows(self.arrivals) {
            return true;
        }
        if let Some(state) = self.queries.get_mut(query.index()) {
            self.hedges_refused += u64::from(!core::mem::replace(&mut state.refused, true));
        }
        false
    }

    /// Whether this query has not ended.
    #[must_use]
    pub fn is_live(&self, query: QueryId) -> bool {
        self.queries.get(query.index()).is_some_and(|q| q.phase != QueryPhase::Ended)
    }

    /// Returns the group of a live query.
    #[must_use]
    pub fn group_of(&self, query: QueryId) -> GroupId {
        self.queries[query.index()].group
    }

    /// Whether the query may run on several servers at the same time. It is false after one of the
    /// query's copies has failed, because a server that fails fast would otherwise get more and
    /// more duplicates. It is also false after the query's deadline.
    #[must_use]
    pub fn may_duplicate(&self, query: QueryId) -> bool {
        let state = self.queries.get(query.index());
        state.is_some_and(|state| state.may_duplicate && state.deadline > self.now)
    }

    /// Returns the expected cost of a live query. `None` if it is unknown, or if the policy does not
    /// need it ([`Needs::hints`]).
    #[must_use]
    pub fn cost_hint_of(&self, query: QueryId) -> Option<NonZeroU64> {
        self.cost_hints.get(query.index()).copied().flatten()
    }

    /// Forbids further duplicates of the query.
    pub fn forbid_duplicates(&mut self, query: QueryId) {
        if let Some(state) = self.queries.get_mut(query.index()) {
            state.may_duplicate = false;
        }
    }

    /// Returns the copies of a query that may still win, newest first.
    pub fn copies_of(&self, query: QueryId) -> impl Iterator<Item = CopyView> + '_ {
        let next = |slot: u32| (slot != NONE).then_some(slot);
        let first = self.queries.get(query.index()).and_then(|state| next(state.first));
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

    /// Whether a client waits for a copy on this server, or for the rest of its response. If the
    /// probes of a server fail and this is false, its copies hold slots that no client needs.
    #[must_use]
    pub fn is_awaited(&self, server: ServerId) -> bool {
        self.copies.awaited_on(server)
    }

    /// Returns the query that a copy may still win.
    #[must_use]
    pub fn query_of(&self, copy: CopyId) -> Option<QueryId> {
        let state = self.copies.peek(copy)?;
        let query = state.query;
        (query != NONE).then_some(QueryId(query))
    }

    /// Returns the servers that a further copy of the query must avoid.
    #[must_use]
    pub fn avoid(&self, query: QueryId) -> Avoid {
        let state = &self.queries[query.index()];
        let holds = (state.first != NONE).then(|| self.copies.get(state.first).server);
        Avoid([holds, state.avoid()])
    }

    /// Returns the servers of a group, as a pick sees them.
    #[inline(always)]
    pub(super) fn levels(&self, group: GroupId) -> Levels<'_> {
        Levels::of(&self.groups[group.index()], &self.servers, self.now)
    }

    #[inline(always)]
    fn pick<P: Pick + ?Sized>(
        &mut self,
        pick: &mut P,
        query: QueryId,
        avoid: Avoid,
    ) -> Option<ServerId> {
        let group = self.queries[query.index()].group;
        let levels = Levels::of(&self.groups[group.index()], &self.servers, self.now);
        let cost_hint = self.cost_hint_of(query);
        pick.pick(Wanted { group, avoid, cost_hint }, levels, &mut self.rng)
    }

    /// Picks a server for a query that waits or is to be retried.
    pub(super) fn choose<P: Pick + ?Sized>(
        &mut self,
        pick: &mut P,
        query: QueryId,
    ) -> Option<ServerId> {
        self.pick(pick, query, self.avoid(query))
    }

    /// Returns the server that the pick chooses for the second copy of a query. The caller has
    /// checked that the query may have one, so none of its copies has failed. `None` if no server
    /// has room, or if the query has no copy.
    #[inline(always)]
    pub fn choose_second<P: Pick + ?Sized>(
        &mut self,
        pick: &mut P,
        query: QueryId,
    ) -> Option<ServerId> {
        let first = self.queries.get(query.index())?.first;
        let holds = self.copies.try_get(first)?.server;
        self.pick(pick, query, Avoid([Some(holds), None]))
    }

    /// Starts a second copy of a query on the server that the pick chooses. Returns `None`, and
    /// changes nothing, unless the query has exactly one copy and may be duplicated, the hedge
    /// budget allows it, and another server has room.
    #[inline(always)]
    pub fn duplicate<P: Pick + ?Sized>(
        &mut self,
        pick: &mut P,
        query: QueryId,
        why: StartReason,
    ) -> Option<CopyId> {
        if self.queries.get(query.index()).is_none_or(|state| state.copies != 1)
            || !self.may_duplicate(query)
            || !self.may_hedge(query)
        {
            return None;
        }
        let server = self.choose_second(pick, query)?;
        Some(self.start(query, server, Role::Duplicate, why))
    }

    /// Starts a further copy of a query on this server. Returns `None`, and changes nothing, unless
    /// the query has a copy and may be duplicated, the hedge budget allows it, and the server serves
    /// the group of the query, has room, and holds no other copy of the query.
    pub fn duplicate_on(
        &mut self,
        server: ServerId,
        query: QueryId,
        why: StartReason,
    ) -> Option<CopyId> {
        let state = self.queries.get(query.index())?;
        let suits = (1..Self::MOST_COPIES).contains(&state.copies)
            && self.servers_of(state.group).contains(&server)
            && self.has_room(server)
            && self.copies_of(query).all(|copy| copy.server != server);
        if !suits || !self.may_duplicate(query) || !self.may_hedge(query) {
            return None;
        }
        Some(self.start(query, server, Role::Duplicate, why))
    }

    /// Sets the hedge timer of a query. It replaces any earlier one. If the time is in the past,
    /// the timer is due immediately. A query that has ended gets no timer.
    pub fn set_timer(&mut self, query: QueryId, at: Timestamp) {
        if self.is_live(query) {
            self.set_timer_of_live(query, at);
        }
    }

    pub(crate) fn set_timer_of_live(&mut self, query: QueryId, at: Timestamp) {
        self.timers.delays.remove(0, query.0);
        self.timers.delays.insert(0, at.max(self.now), query.0);
    }

    /// Starts a copy. The server must have room, and must not hold another copy of the query.
    #[inline(always)]
    pub(crate) fn start(
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

    /// Cancels a copy by ordering its server to stop it. Until the copy has stopped, it holds its
    /// slot and may still win. Has no effect on a copy that has ended, or if servers cannot stop
    /// copies ([`Limits::cancel`]).
    pub fn stop(&mut self, copy: CopyId, why: StopReason) {
        if !self.limits.cancel {
            return;
        }
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

    #[inline(always)]
    pub(crate) fn actions(&self) -> &[Action] {
        self.out.list()
    }

    pub(crate) fn set_deadline(&mut self, query: QueryId) {
        let state = &self.queries[query.index()];
        if state.timed() {
            self.timers.deadlines.insert(0, state.deadline, query.0);
        }
    }

    pub(crate) fn start_copy_timer(&mut self, slot: u32, ns: u64) {
        self.stop_copy_timer(slot);
        let until = self.now.after(ns);
        if until != Timestamp::NEVER {
            self.copies.get_mut(slot).timed = true;
            self.timers.copies.insert(0, until, slot);
        }
    }

    #[inline(always)]
    pub(crate) fn stop_copy_timer(&mut self, slot: u32) {
        if core::mem::take(&mut self.copies.get_mut(slot).timed) {
            self.timers.copies.remove(0, slot);
        }
    }
}
