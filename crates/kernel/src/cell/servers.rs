//! The servers and groups of a cell: gates, states, and the queue of each group.

use alloc::vec::Vec;

use super::copies::QueryState;
use super::core::Core;
use crate::id::{GroupId, NONE, QueryId, ServerId};
use crate::levels::{FULL, Levels, Order};

/// May a server get new copies?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    Draining,
    Down,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerState {
    pub(crate) health: Health,
    pub(crate) slots: u32,
    /// Its gate: how many copies it may hold.
    pub(crate) limit: u32,
    /// How many it holds.
    pub(crate) outstanding: u32,
    /// How many slots fewer it has than the server with the most. Added to what it holds, so that
    /// among unequal servers the one with the most idle slots, or the shortest queue, is least
    /// loaded.
    pub(crate) head_start: u32,
    /// Is one of its groups large?
    pub(crate) ordered: bool,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Its stretch of [`Core::memberships`].
    pub(crate) groups: (u32, u32),
}

/// A server as a driver or a test may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// It gets new copies.
    pub up: bool,
    /// How many queries it serves at once.
    pub slots: u32,
    /// Its gate: how many copies it may hold.
    pub limit: u32,
    /// How many it holds.
    pub outstanding: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub(crate) servers: Vec<ServerId>,
    /// For large groups.
    pub(crate) order: Option<Order>,
    /// Servers that are up.
    pub(crate) up: u32,
    /// Waiting queries, oldest first: a list through [`QueryState::behind`].
    head: u32,
    tail: u32,
    pub(crate) waiting: u32,
    /// Copies on its servers that were told to stop: slots that will be free.
    pub(crate) reclaiming: u32,
}

impl GroupState {
    pub(crate) fn new(servers: &[ServerId], full: u32) -> Self {
        Self {
            servers: servers.to_vec(),
            order: Order::new(servers.len(), full),
            up: servers.len() as u32,
            head: NONE,
            tail: NONE,
            waiting: 0,
            reclaiming: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn levels<'a>(&'a self, level: &'a [u32]) -> Levels<'a> {
        Levels { servers: &self.servers, level, order: self.order.as_ref() }
    }
}

impl Core {
    pub(crate) fn memberships_of(&self, server: ServerId) -> &[(GroupId, u32)] {
        let (from, to) = self.servers[server.index()].groups;
        &self.memberships[from as usize..to as usize]
    }

    /// The groups that a server serves.
    pub fn groups_of(&self, server: ServerId) -> impl Iterator<Item = GroupId> + '_ {
        self.memberships_of(server).iter().map(|&(group, _)| group)
    }

    /// May the server start a primary copy?
    #[inline(always)]
    #[must_use]
    pub fn has_room(&self, server: ServerId) -> bool {
        let state = &self.servers[server.index()];
        state.health == Health::Up && state.outstanding < state.limit
    }

    /// Would the server start a copy at once, rather than queue it?
    #[must_use]
    pub fn has_idle_slot(&self, server: ServerId) -> bool {
        let state = &self.servers[server.index()];
        self.has_room(server) && state.outstanding < state.slots
    }

    /// Changes how many copies a server holds, and sorts it anew in its groups.
    #[inline(always)]
    pub(crate) fn hold(&mut self, server: ServerId, change: i32) {
        let state = &mut self.servers[server.index()];
        state.outstanding = state.outstanding.wrapping_add_signed(change);
        debug_assert!(
            state.outstanding <= state.limit,
            "the gate holds, and every slot is freed once"
        );
        self.sort(server);
    }

    #[inline(always)]
    pub(crate) fn sort(&mut self, server: ServerId) {
        let state = &self.servers[server.index()];
        let open = state.health == Health::Up && state.outstanding < state.limit;
        let level = if open { state.head_start + state.outstanding } else { FULL };
        self.level[server.index()] = level;
        if state.ordered {
            self.sort_groups(server, level);
        }
    }

    fn sort_groups(&mut self, server: ServerId, level: u32) {
        let (from, to) = self.servers[server.index()].groups;
        for &(group, member) in &self.memberships[from as usize..to as usize] {
            if let Some(order) = &mut self.groups[group.index()].order {
                order.set(member, level);
            }
        }
    }

    /// Sets a server's health; true when it changed.
    pub(crate) fn set_health(&mut self, server: ServerId, health: Health) -> bool {
        let state = &mut self.servers[server.index()];
        let before = state.health;
        if before == health {
            return false;
        }
        state.health = health;
        state.failures = 0;
        let (from, to) = state.groups;
        for at in from..to {
            let group = &mut self.groups[self.memberships[at as usize].0.index()];
            match (before, health) {
                (Health::Up, _) => group.up -= 1,
                (_, Health::Up) => group.up += 1,
                _ => {}
            }
        }
        self.sort(server);
        true
    }

    /// Puts a query into its group's queue, by age; false when the queue is full.
    pub(crate) fn enqueue(&mut self, query: QueryId) -> bool {
        let QueryState { group, seq, .. } = self.queries[query.index()];
        let state = &mut self.groups[group.index()];
        if state.waiting >= self.limits.queue {
            return false;
        }
        state.waiting += 1;
        // A new query is the youngest. One that is sent again goes before the younger ones: few
        // wait longer than it, as it has waited before.
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
        entry.stage = super::copies::Stage::Waiting;
        true
    }

    /// Takes a waiting query out of its queue.
    pub(crate) fn dequeue(&mut self, query: QueryId) {
        let QueryState { group, before, behind, .. } = self.queries[query.index()];
        let state = &mut self.groups[group.index()];
        state.waiting -= 1;
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
        entry.stage = super::copies::Stage::Running;
    }

    /// A query of the group no longer waits. Where it was the last, servers may idle that held back
    /// from duplicates for its sake.
    pub(crate) fn fewer_wait(&mut self, group: GroupId) {
        let group = &self.groups[group.index()];
        if group.waiting == 0 {
            self.spare.extend(group.levels(&self.level).available());
        }
    }

    /// The oldest waiting query that the server may serve.
    ///
    /// O(groups of the server), and the waiting retries that avoid it: the retry budget bounds
    /// those.
    #[inline(always)]
    pub(crate) fn next_waiting(&self, server: ServerId) -> Option<QueryId> {
        let mut oldest: Option<(u64, u32)> = None;
        for (group, _) in self.memberships_of(server) {
            let group = &self.groups[group.index()];
            let mut at = group.head;
            while at != NONE {
                let query = &self.queries[at as usize];
                if query.avoid != Some(server) || group.up == 1 {
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

    /// The waiting queries of a group, oldest first.
    pub fn waiting_in(&self, group: GroupId) -> impl Iterator<Item = QueryId> + '_ {
        let next = |at: u32| (at != NONE).then_some(at);
        let head = next(self.groups[group.index()].head);
        core::iter::successors(head, move |&at| next(self.queries[at as usize].behind)).map(QueryId)
    }

    /// Takes the oldest waiting query of a group, whatever may serve it.
    pub(crate) fn oldest_waiting(&self, group: GroupId) -> Option<QueryId> {
        self.waiting_in(group).next()
    }

    pub(crate) fn members(&self, group: GroupId) -> Vec<ServerId> {
        self.groups[group.index()].servers.clone()
    }
}
