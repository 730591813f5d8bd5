//! The queue of each group.

use super::copies::{QueryPhase, QueryState};
use super::core::Core;
use crate::id::{GroupId, NONE, QueryId, ServerId};
use crate::levels::Levels;

impl Core {
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
        entry.phase = QueryPhase::Waiting;
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
        entry.phase = QueryPhase::Running;
    }

    /// If no query of the group waits, lets duplicates use the servers that have room. A waiting
    /// query may have kept that room free, or a query may need a second copy again.
    pub(crate) fn look_for_spare(&mut self, group: GroupId) {
        let group = &self.groups[group.index()];
        if group.waiting == 0 {
            self.todo.spare.extend(Levels::of(group, &self.servers, self.now).available());
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
