//! How copies and queries end, and what happens to servers. Most ends: see `hot.rs`.

use alloc::vec::Vec;

use super::Cell;
use super::copies::{CopyState, QueryState, Stage};
use super::servers::Health;
use crate::action::{Action, EjectReason, FailReason, StopReason};
use crate::balance::Pick;
use crate::config::Limits;
use crate::hedge::Hedge;
use crate::id::{CopyId, GroupId, NONE, QueryId, ServerId};
use crate::time::{NEVER_NS, Timestamp};

impl<P: Pick, H: Hedge> Cell<P, H> {
    pub(super) fn responded(&mut self, copy: CopyId, good: bool) {
        let Some(state) = self.core.copies.find(copy) else { return };
        let (server, query) = (state.server, state.query);
        if query == NONE {
            return;
        }
        if good {
            self.core.servers[server.index()].failures = 0;
            self.answer(QueryId(query), copy);
            self.core.end_patience(copy.slot);
        } else {
            self.copy_failed(copy.slot);
            self.set_drain(copy.slot);
        }
    }

    /// What begins although it was told to stop, or although nobody waits for it, changes nothing.
    pub(super) fn began(&mut self, copy: CopyId) {
        let Some(&CopyState { query, stopping, .. }) = self.core.copies.peek(copy) else { return };
        if query != NONE && !stopping {
            self.hedge.began(&mut self.core, QueryId(query), copy);
        }
    }

    pub(super) fn stopped(&mut self, copy: CopyId) {
        let Some(state) = self.core.copies.find(copy) else { return };
        let query = state.query;
        if query != NONE {
            self.detach(copy.slot);
            self.hedge.recount(&self.core, QueryId(query));
            self.check_orphan(QueryId(query));
            if H::HEDGES {
                // It may have a second copy again, and another server than this one may idle.
                let group = self.core.group_of(QueryId(query));
                self.core.look_for_spare(group);
            }
        }
        let server = self.release(copy.slot);
        self.core.freed.push(server);
    }

    pub(super) fn unwanted(&mut self, copy: CopyId) {
        if self.core.copies.find(copy).is_some_and(|state| state.query == NONE) {
            self.give_up(copy.slot);
        }
    }

    /// A copy that is told to stop has no more time for being at work.
    pub(super) fn progress(&mut self, copy: CopyId) {
        if self.core.copies.find(copy).is_some_and(|state| state.given_up && !state.stopping) {
            self.set_drain(copy.slot);
        }
    }

    pub(super) fn abandoned(&mut self, query: QueryId) {
        if self.core.is_live(query) {
            self.close(query, None);
        }
    }

    /// The query has its answer.
    pub(super) fn answer(&mut self, query: QueryId, copy: CopyId) {
        *self.core.out.next() = Action::Answer { query, copy };
        self.close(query, Some(copy.slot));
    }

    /// Ends a query: its copies only hold their slots from here on. What becomes of the winner's
    /// time-out is the caller's business.
    pub(super) fn close(&mut self, query: QueryId, winner: Option<u32>) {
        let QueryState { stage, group, .. } = self.core.queries[query.index()];
        if stage == Stage::Waiting {
            self.core.dequeue(query);
            if H::HEDGES {
                self.core.look_for_spare(group);
            }
        }
        self.end(query, winner);
    }

    /// [`Self::close`] of a query that does not wait.
    #[inline(always)]
    pub(super) fn end(&mut self, query: QueryId, winner: Option<u32>) {
        let copies = &self.core.copies;
        let winning = winner.map(|slot| (copies.id(slot), copies.get(slot).server));
        let runs_on = H::HEDGES
            && winning.is_some_and(|copy| self.hedge.answered(&mut self.core, query, copy));
        let state = &mut self.core.queries[query.index()];
        let (first, timed) = (state.first, state.timed());
        state.end();
        // A loser runs to its end where the policy says so; nobody needs the copies of a query
        // that ended without an answer.
        let stop = winner.is_none() || (self.hedge.cleans_up() && !runs_on);
        let mut slot = first;
        while slot != NONE {
            let copy = self.core.copies.get_mut(slot);
            copy.query = NONE;
            let next = copy.next;
            if winner != Some(slot) {
                if stop {
                    self.give_up(slot);
                } else {
                    self.let_run_on(slot);
                }
            }
            slot = next;
        }
        if timed {
            self.core.deadlines.remove(0, query.0);
        }
        if H::HEDGES {
            self.core.delays.remove(0, query.0);
            self.hedge.ended(&self.core, query);
        }
    }

    /// Nobody wants this copy: stop it where that is possible, and wait for it in any case.
    fn give_up(&mut self, slot: u32) {
        self.set_drain(slot);
        if self.core.limits.cancel {
            let copy = self.core.copies.id(slot);
            self.core.stop(copy, StopReason::Cleanup);
        }
    }

    /// Nobody needs this copy, which runs to its end. It keeps its time-out, and is given up then: its server
    /// is no worse than if no other copy had won. Where copies have none, it is given up a drain time-out
    /// from now.
    fn let_run_on(&mut self, slot: u32) {
        let ns = self.core.limits.drain_timeout_ns;
        if !self.core.copies.get(slot).timed && ns != NEVER_NS {
            self.core.set_patience(slot, ns);
        }
    }

    fn set_drain(&mut self, slot: u32) {
        let copy = self.core.copies.get_mut(slot);
        copy.given_up = true;
        let ns = self.core.limits.drain_timeout_ns;
        if copy.timed || ns != NEVER_NS {
            self.core.set_patience(slot, ns);
        }
    }

    /// A copy will not answer its query, though it may hold its slot for longer.
    pub(super) fn copy_failed(&mut self, slot: u32) {
        let copy = self.core.copies.get(slot);
        let (query, server) = (QueryId(copy.query), copy.server);
        self.detach(slot);
        let failed = self.core.copies.id(slot);
        let state = &mut self.core.queries[query.index()];
        state.failed = Some((failed, server));
        state.may_duplicate = false;
        if self.core.copies_of(query).any(|copy| !copy.stopping) {
            // The other copy is the retry: where both fail, two servers have failed the query.
            let state = &mut self.core.queries[query.index()];
            state.retries = state.retries.saturating_add(1);
        }
        self.hedge.recount(&self.core, query);
        self.check_orphan(query);
    }

    fn check_orphan(&mut self, query: QueryId) {
        let queries = &self.core.queries;
        if queries[query.index()].copies == 0 {
            // Youngest first: they are taken from the end.
            let seq = queries[query.index()].seq;
            let at = self.core.orphans.partition_point(|other| queries[other.index()].seq > seq);
            self.core.orphans.insert(at, query);
        }
    }

    /// Takes a copy from its query.
    fn detach(&mut self, slot: u32) {
        let copy = self.core.copies.get_mut(slot);
        let (query, next) = (copy.query, copy.next);
        copy.query = NONE;
        let state = &mut self.core.queries[query as usize];
        state.copies -= 1;
        if state.first == slot {
            state.first = next;
            return;
        }
        let mut at = state.first;
        while self.core.copies.get(at).next != slot {
            at = self.core.copies.get(at).next;
        }
        self.core.copies.get_mut(at).next = next;
    }

    /// A detached copy has ended: its slot is free, on the server that is returned.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u32) -> ServerId {
        let CopyState { query, server, stopping, timed, .. } = *self.core.copies.get(slot);
        debug_assert!(query == NONE, "detached before released");
        if timed {
            self.core.patience.remove(0, slot);
        }
        if stopping {
            self.core.reclaim(server, -1);
        }
        let copy = self.core.copies.id(slot);
        self.core.copies.remove(slot);
        let holder = &mut self.core.servers[server.index()];
        holder.lose();
        if holder.ordered {
            self.core.sort(server);
        }
        if H::HEDGES {
            self.hedge.released(&mut self.core, server, copy);
        }
        server
    }

    pub(super) fn count_failure(&mut self, server: ServerId) {
        let state = &mut self.core.servers[server.index()];
        state.failures += 1;
        let many = self.core.limits.eject_after;
        if many == 0 || state.failures < many {
            return;
        }
        // A server that fails is better than none: the last one of a group stays.
        let last = self.core.groups_of(server).any(|g| self.core.groups[g.index()].up <= 1);
        if !last {
            self.eject(server, EjectReason::Failures);
        }
    }

    /// Takes a server out. Its copies run on: whatever befell one of them, others may be inside of
    /// a good answer, and they hold slots of a machine that may well be at work.
    pub(super) fn eject(&mut self, server: ServerId, why: EjectReason) {
        if self.core.servers[server.index()].health == Health::Up {
            *self.core.out.next() = Action::Eject { server, why };
            self.server_draining(server);
        }
    }

    pub(super) fn server_up(&mut self, server: ServerId) {
        if self.core.set_health(server, Health::Up) {
            if H::DOUBTS {
                self.core.doubt(server, false);
            }
            self.core.freed.push(server);
        }
    }

    pub(super) fn server_draining(&mut self, server: ServerId) {
        if self.core.set_health(server, Health::Draining) {
            self.look_again(server);
        }
    }

    pub(super) fn server_down(&mut self, server: ServerId) {
        if !self.core.set_health(server, Health::Down) {
            return;
        }
        for slot in self.core.copies.on(server) {
            self.lose(slot);
        }
        self.look_again(server);
    }

    /// A copy has ended, as far as anybody can tell.
    fn lose(&mut self, slot: u32) {
        if self.core.copies.get(slot).query != NONE {
            self.copy_failed(slot);
        }
        let copy = self.core.copies.id(slot);
        *self.core.out.next() = Action::Lose { copy };
        let server = self.release(slot);
        self.core.freed.push(server);
    }

    /// A server left: whose queries nobody can serve any more, and who may serve those that
    /// avoided the servers which remain?
    fn look_again(&mut self, server: ServerId) {
        let (from, to) = self.core.servers[server.index()].groups;
        for at in from..to {
            let group: GroupId = self.core.memberships[at as usize].0;
            if self.core.groups[group.index()].up > 0 {
                self.core.freed.extend_from_slice(&self.core.groups[group.index()].servers);
                continue;
            }
            while let Some(query) = self.core.oldest_waiting(group) {
                self.fail(query, FailReason::NoReplica);
            }
        }
    }

    pub(super) fn forecast(&mut self, copy: CopyId, ends: Timestamp) {
        let Some(state) = self.core.copies.find(copy) else { return };
        state.ends = ends;
        let query = state.query;
        if query != NONE {
            self.hedge.recount(&self.core, QueryId(query));
        }
    }

    pub(super) fn configure(&mut self, limits: &Limits) {
        let Limits { max_outstanding, cancel, rescue_budget, .. } = self.core.limits;
        self.core.limits = Limits { max_outstanding, cancel, rescue_budget, ..*limits };
        self.core.reserve = f64::from(limits.retry_reserve);
    }

    pub(super) fn tick(&mut self) {
        let now = self.core.now;
        let due = |first: Option<(Timestamp, u32)>| first.filter(|&(at, _)| at <= now);
        while let Some((_, query)) = due(self.core.deadlines.first(0)) {
            self.expired(QueryId(query));
        }
        // Servers are judged once all late copies are known: no copy is sent again to a server that
        // is about to be taken out.
        let mut late = Vec::new();
        while let Some((_, slot)) = due(self.core.patience.first(0)) {
            self.core.end_patience(slot);
            let copy = *self.core.copies.get(slot);
            let silent = copy.given_up || copy.stopping;
            if silent {
                self.lose(slot);
            } else if copy.query == NONE {
                let id = self.core.copies.id(slot);
                self.hedge.overran(&self.core, id);
                self.give_up(slot);
                continue;
            } else {
                self.copy_failed(slot);
                self.give_up(slot);
                self.core.copies.get_mut(slot).late = true;
            }
            late.push((copy.server, silent));
        }
        for (server, silent) in late {
            if silent {
                self.eject(server, EjectReason::Silent);
            } else {
                self.count_failure(server);
            }
        }
        while let Some((_, query)) = due(self.core.delays.first(0)) {
            self.core.delays.remove(0, query);
            self.core.woken.push(QueryId(query));
        }
    }

    fn expired(&mut self, query: QueryId) {
        if self.core.queries[query.index()].stage == Stage::Waiting {
            self.expire(query);
        } else {
            self.fail(query, FailReason::Timeout);
        }
    }
}
