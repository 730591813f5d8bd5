//! The servers and groups of a cell: gates, health, and the queue of each group.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::copies::QueryState;
use super::core::Core;
use super::health::{Health, Streak};
use super::holds::sample;
use super::ramp;
use crate::id::{GroupId, NONE, QueryId, ServerId};
use crate::levels::{FULL, Levels, Order};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerState {
    pub(crate) health: Health,
    pub(crate) slots: u32,
    pub(crate) limit: u32,
    /// Number of copies that the server may hold beyond `limit`, so that the next copy is already
    /// there when one ends.
    pub(crate) prefetch: u32,
    /// How many fewer slots it has than the largest server, plus the corrections for bias and light
    /// copies.
    load_bias: u32,
    /// Number of copies that the server holds, plus `load_bias`. So among unequal servers, the
    /// least loaded one has the most idle slots or the shortest queue.
    load: u32,
    /// The load at which its gate is full, or 0 if it may get no copies.
    full_at: u32,
    /// The server's load as picks see it, or [`FULL`].
    pub(crate) level: u32,
    /// Whether the server's health allows copies.
    open: bool,
    /// Whether picks prefer other servers.
    biased: bool,
    /// Number of its copies that do not count as load, because its stage serves them after all
    /// others.
    light: u32,
    /// Number of slots held for copies that were refused or failed: see `typical.rs`. They count as
    /// load.
    pub(crate) held: u32,
    /// Number of copies that it may hold after it has returned, or [`ramp::DONE`]: see `ramp.rs`.
    pub(crate) ramp: u32,
    /// Moving average of the time that a good response takes, in ns. It is 0 before the first one.
    pub(crate) typical_ns: u64,
    /// Whether the cell tracks its copies: see [`Core::keeps_books`] and `ramp.rs`.
    pub(crate) tracked: bool,
    pub(crate) failures: Streak,
    /// The server's range in [`Core::memberships`].
    pub(crate) groups: (u32, u32),
}

impl ServerState {
    pub(crate) fn new(slots: u32, limit: u32, load_bias: u32) -> Self {
        Self {
            health: Health::Up,
            slots,
            limit,
            prefetch: 0,
            load_bias,
            load: load_bias,
            full_at: load_bias + limit,
            level: load_bias,
            open: true,
            biased: false,
            light: 0,
            held: 0,
            ramp: ramp::DONE,
            typical_ns: 0,
            tracked: false,
            failures: Streak::NEW,
            groups: (0, 0),
        }
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.load - self.load_bias
    }

    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.load < self.full_at
    }

    /// Whether the server's health allows copies. Its gate may still be closed or full.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn set_open(&mut self, open: bool, closed: bool) {
        self.open = open;
        let limit = self.gate();
        self.full_at = if open && !closed { self.load_bias + limit } else { 0 };
        self.set_load(self.load);
    }

    /// Returns the number of copies that it may hold if it is open.
    pub(crate) fn gate(&self) -> u32 {
        (self.limit + self.prefetch).min(self.ramp)
    }

    /// Sets the limit, and returns the load at which it is full.
    pub(crate) fn set_limit(&mut self, limit: u32) -> u32 {
        self.limit = limit;
        self.load_bias + self.light + limit + self.prefetch
    }

    #[inline(always)]
    pub(crate) fn inc_outstanding(&mut self) {
        debug_assert!(self.has_room(), "a start needs room");
        self.set_load(self.load + 1);
    }

    #[inline(always)]
    pub(crate) fn dec_outstanding(&mut self) {
        debug_assert!(self.load > self.load_bias, "every slot is freed once");
        self.set_load(self.load - 1);
    }

    /// Records the end of a good response.
    #[inline(always)]
    pub(crate) fn is_well(&mut self) {
        self.failures = Streak::GOOD;
    }

    /// Records that a good response took `ns`.
    #[inline(always)]
    pub(crate) fn took(&mut self, ns: u64) {
        self.typical_ns = sample(self.typical_ns, ns);
    }

    /// Records that a copy was stopped after `ns`, so its response would have taken longer. It is
    /// ignored as a first sample, because it may be short.
    pub(super) fn takes_at_least(&mut self, ns: u64) {
        if self.typical_ns > 0 && ns > self.typical_ns {
            self.typical_ns = sample(self.typical_ns, ns);
        }
    }

    /// Holds the slot of a copy that ended before a good response would have arrived.
    pub(super) fn hold(&mut self) {
        self.held += 1;
        self.set_load(self.load + 1);
    }

    pub(super) fn end_hold(&mut self) {
        self.held -= 1;
        self.set_load(self.load - 1);
    }

    /// Returns the number of its copies that another copy may have to wait for.
    pub(crate) fn ahead(&self) -> u32 {
        self.outstanding().saturating_sub(self.light)
    }

    /// Excludes one more of its copies from its load, or includes one again.
    fn lighten(&mut self, more: bool) {
        let change = if more { -1 } else { 1 };
        let moved =
            |x: u32| x.checked_add_signed(change).expect("there is a lift for each of them");
        self.light = self.light.checked_add_signed(-change).expect("each ends once");
        self.load_bias = moved(self.load_bias);
        if self.full_at > 0 {
            self.full_at = moved(self.full_at);
        }
        self.set_load(moved(self.load));
    }

    /// Adds `copies` to the server's load, or subtracts them.
    fn bias(&mut self, copies: u32, biased: bool) {
        self.biased = biased;
        let move_by = |x: &mut u32| if biased { *x += copies } else { *x -= copies };
        move_by(&mut self.load_bias);
        move_by(&mut self.load);
        if self.full_at > 0 {
            move_by(&mut self.full_at);
        }
        self.set_load(self.load);
    }

    #[inline(always)]
    fn set_load(&mut self, load: u32) {
        self.load = load;
        self.level = if self.has_room() { load } else { FULL };
    }
}

/// A server, as drivers and tests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Whether the server is up.
    pub up: bool,
    /// Number of queries that the server serves at the same time.
    pub slots: u32,
    /// Its gate: the number of copies that it may hold.
    pub limit: u32,
    /// Number of copies that the server holds.
    pub outstanding: u32,
    /// Number of further slots that are taken because it has just refused or failed their copies.
    pub held: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub(crate) servers: Vec<ServerId>,
    in_a_row: bool,
    pub(crate) order: Option<Box<Order>>,
    pub(crate) up: u32,
    /// Number of servers that may get copies: those that are up, or, in panic mode, all that are
    /// usable.
    pub(crate) open: u32,
    /// Waiting queries, oldest first, linked through [`QueryState::behind`].
    head: u32,
    tail: u32,
    pub(crate) waiting: u32,
    /// Number of cancelled copies on the servers of the group. Their slots will become free.
    pub(crate) reclaiming: u32,
}

impl GroupState {
    pub(crate) fn new(servers: &[ServerId], full: u32) -> Self {
        Self {
            servers: servers.to_vec(),
            in_a_row: servers.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0),
            order: Order::new(servers.len(), full).map(Box::new),
            up: servers.len() as u32,
            open: servers.len() as u32,
            head: NONE,
            tail: NONE,
            waiting: 0,
            reclaiming: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn levels<'a>(&'a self, states: &'a [ServerState], now: Timestamp) -> Levels<'a> {
        Levels { group: self, states, now }
    }

    /// Returns the id of the first server and the states of all servers, if the ids are
    /// consecutive.
    #[inline(always)]
    pub(crate) fn consecutive<'a>(
        &self,
        states: &'a [ServerState],
    ) -> Option<(u32, &'a [ServerState])> {
        let first = self.servers.first().filter(|_| self.in_a_row)?;
        Some((first.0, &states[first.index()..first.index() + self.servers.len()]))
    }
}

impl Core {
    pub(crate) fn memberships_of(&self, server: ServerId) -> &[(GroupId, u32)] {
        let (from, to) = self.servers[server.index()].groups;
        &self.memberships[from as usize..to as usize]
    }

    /// Returns the groups that a server serves.
    pub fn groups_of(&self, server: ServerId) -> impl Iterator<Item = GroupId> + '_ {
        self.memberships_of(server).iter().map(|&(group, _)| group)
    }

    /// Returns the servers of a group, in the order of the topology.
    #[must_use]
    pub fn servers_of(&self, group: GroupId) -> &[ServerId] {
        &self.groups[group.index()].servers
    }

    /// Whether the server has room for one more copy.
    #[inline(always)]
    #[must_use]
    pub fn has_room(&self, server: ServerId) -> bool {
        self.servers[server.index()].has_room()
    }

    /// Whether the server may get copies, either now or after some of its copies have ended. False
    /// while the server is out of service or closed.
    #[must_use]
    pub fn takes_copies(&self, server: ServerId) -> bool {
        self.servers[server.index()].full_at > 0
    }

    /// Whether the server would start a copy immediately, rather than queue it.
    #[inline(always)]
    #[must_use]
    pub fn has_idle_slot(&self, server: ServerId) -> bool {
        let state = &self.servers[server.index()];
        state.has_room() && state.outstanding() < state.slots
    }

    /// Sets or removes the load bias of a server. While it is set, picks count one more copy on the
    /// server.
    pub fn bias(&mut self, server: ServerId, biased: bool) {
        debug_assert!(self.bias > 0, "the hedge declares that it biases servers");
        let state = &mut self.servers[server.index()];
        if state.biased != biased {
            state.bias(self.bias, biased);
            self.sort(server);
        }
    }

    /// Whether the server can take one more copy that does not count as load. Such copies fill at
    /// most half of its gate, so they never block other copies.
    #[must_use]
    pub fn takes_light(&self, server: ServerId) -> bool {
        let state = &self.servers[server.index()];
        state.load_bias > 0 && state.light < state.gate() / 2 && state.has_room()
    }

    /// Excludes a copy from the load of its server, as seen by picks. If `more` is false, reverses
    /// this after the copy has ended.
    pub(crate) fn lighten(&mut self, server: ServerId, more: bool) {
        self.servers[server.index()].lighten(more);
        self.sort(server);
    }

    /// Returns the number of copies that a server executes at the same time.
    #[inline(always)]
    #[must_use]
    pub fn slots(&self, server: ServerId) -> u32 {
        self.servers[server.index()].slots
    }

    /// Returns the number of copies that wait on a server, beyond its slots.
    #[inline(always)]
    #[must_use]
    pub fn beyond_slots(&self, server: ServerId) -> u32 {
        let state = &self.servers[server.index()];
        (state.outstanding() - state.held).saturating_sub(state.slots)
    }

    /// Updates the order of the server's large groups after its level has changed.
    #[inline(always)]
    pub(crate) fn sort(&mut self, server: ServerId) {
        if self.ordered {
            self.sort_in_groups(server);
        }
    }

    #[inline(never)]
    fn sort_in_groups(&mut self, server: ServerId) {
        let ServerState { level, groups: (from, to), .. } = self.servers[server.index()];
        for &(group, member) in &self.memberships[from as usize..to as usize] {
            if let Some(order) = &mut self.groups[group.index()].order {
                order.set(member, level);
            }
        }
    }

    pub(crate) fn has_queue_room(&self, query: QueryId) -> bool {
        let group = self.queries[query.index()].group;
        self.groups[group.index()].waiting < self.limits.queue
    }

    /// Counts a retry of a query and charges it to the budget.
    pub(crate) fn count_retry(&mut self, query: QueryId) {
        self.retries.spend(self.arrivals);
        self.queries[query.index()].retries += 1;
    }

    /// Puts a query into its group's queue, in order of age. Returns false if the queue is full.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, query: QueryId) -> bool {
        let QueryState { group, seq, .. } = self.queries[query.index()];
        let state = &mut self.groups[group.index()];
        if state.waiting >= self.limits.queue {
            return false;
        }
        state.waiting += 1;
        self.waiting += 1;
        // A new query is the youngest. A retried query is placed before younger ones. The search
        // from the head is short: the retried query has waited before, so few queries are older.
        let mut before = state.tail;
        if before != NONE && self.queries[before as usize].seq > seq {
            let mut behind = state.head;
            before = NONE;
            while self.queries[behind as usize].seq < seq {
                before = behind;
                behind = self.queries[behind as usize].behind;
            }
        }
        let behind = match before {
            NONE => core::mem::replace(&mut state.head, query.0),
            before => core::mem::replace(&mut self.queries[before as usize].behind, query.0),
        };
        match behind {
            NONE => state.tail = query.0,
            behind => self.queries[behind as usize].before = query.0,
        }
        let entry = &mut self.queries[query.index()];
        (entry.before, entry.behind) = (before, behind);
        entry.phase = super::copies::QueryPhase::Waiting;
        true
    }

    #[inline(always)]
    pub(crate) fn dequeue(&mut self, query: QueryId) {
        let QueryState { group, before, behind, .. } = self.queries[query.index()];
        let state = &mut self.groups[group.index()];
        state.waiting -= 1;
        self.waiting -= 1;
        match before {
            NONE => state.head = behind,
            before => self.queries[before as usize].behind = behind,
        }
        match behind {
            NONE => state.tail = before,
            behind => self.queries[behind as usize].before = before,
        }
        let entry = &mut self.queries[query.index()];
        (entry.before, entry.behind) = (NONE, NONE);
        entry.phase = super::copies::QueryPhase::Running;
    }

    /// If no query of the group waits, lets duplicates use the servers that have room. A waiting
    /// query may have kept that room free, or a query may need a second copy again.
    pub(crate) fn look_for_spare(&mut self, group: GroupId) {
        let group = &self.groups[group.index()];
        if group.waiting == 0 {
            self.spare.extend(group.levels(&self.servers, self.now).available());
        }
    }

    /// Returns the oldest waiting query that the server may serve.
    ///
    /// O(groups of the server), plus the number of waiting retries that avoid the server. The retry
    /// budget bounds that number.
    #[inline(always)]
    pub(crate) fn next_waiting(&self, server: ServerId) -> Option<QueryId> {
        let mut oldest: Option<(u64, u32)> = None;
        for (group, _) in self.memberships_of(server) {
            let group = &self.groups[group.index()];
            let mut at = group.head;
            while at != NONE {
                let query = &self.queries[at as usize];
                if query.avoid() != Some(server) || group.open == 1 {
                    if oldest.is_none_or(|(seq, _)| query.seq < seq) {
                        oldest = Some((query.seq, at));
                    }
                    break;
                }
                at = query.behind;
            }
        }
        oldest.map(|(_, query)| QueryId(query))
    }

    /// Whether this server could serve a waiting query of the group if it had room.
    #[must_use]
    pub fn is_wanted(&self, server: ServerId, group: GroupId) -> bool {
        let alone = self.groups[group.index()].open == 1;
        let may_go = |query: QueryId| self.queries[query.index()].avoid() != Some(server);
        self.takes_copies(server) && self.waiting_in(group).any(|query| alone || may_go(query))
    }

    /// Returns the waiting queries of a group, oldest first.
    pub fn waiting_in(&self, group: GroupId) -> impl Iterator<Item = QueryId> + '_ {
        let next = |at: u32| (at != NONE).then_some(at);
        let head = next(self.groups[group.index()].head);
        core::iter::successors(head, move |&at| next(self.queries[at as usize].behind)).map(QueryId)
    }
}
