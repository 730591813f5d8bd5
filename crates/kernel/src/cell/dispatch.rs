//! Starts copies of queries that have waited or whose last copy failed. For arrivals, see `hot.rs`.

use core::ops::DerefMut;

use super::Cell;
use super::copies::{QueryPhase, QueryState};
use crate::action::{Action, FailReason, Role, ShedReason, StartReason};
use crate::balance::Pick;
use crate::descriptor::Compiled;
use crate::hedge::Hedge;
use crate::id::{QueryId, ServerId};
use crate::servers::ServerState;

impl<P, H> Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled>,
    H: DerefMut<Target: Hedge<P::Target> + Compiled>,
{
    #[inline(always)]
    fn start_primary(&mut self, query: QueryId, server: ServerId, why: StartReason) {
        self.core.start(query, server, Role::Primary, why);
        if Self::HEDGES {
            self.core.todo.started.push(query);
        }
    }

    #[inline(always)]
    pub(super) fn wait(&mut self, query: QueryId) {
        if self.core.enqueue(query) {
            if Self::HEDGES && self.core.conduct.preempts {
                self.core.todo.starved.push(self.core.queries[query.index()].group);
            }
        } else {
            self.shed(query, ShedReason::QueueFull);
        }
    }

    /// Restores the contract after an event, in this order: failed queries are retried, waiting
    /// queries get the free slots, and finally the hedge sees the remaining slots. So no duplicate
    /// takes a slot from a waiting query.
    #[inline(never)]
    pub(super) fn settle(&mut self) -> &[Action] {
        loop {
            if let Some(query) = self.core.todo.to_retry.pop() {
                self.retry(query);
            } else if let Some(server) = self.core.todo.freed.pop() {
                self.fill(server);
            } else {
                break;
            }
        }
        self.consult()
    }

    /// Runs the hedge, which is the last step of settling. The hedge's actions never make it
    /// necessary to repeat an earlier step.
    #[inline(always)]
    pub(super) fn consult(&mut self) -> &[Action] {
        if Self::HEDGES {
            while let Some(query) = self.core.todo.started.pop() {
                self.hedge.primary_started_late(&mut self.core, &mut *self.pick, query);
            }
            while let Some(query) = self.core.todo.timers_due.pop() {
                debug_assert!(Self::TIMERS, "a hedge that sets timers declares it");
                // A timer that was set during the same event replaces the one that is due.
                if self.core.is_live(query) && !self.core.timers.delays.contains(query.0) {
                    self.hedge.timer(&mut self.core, &mut *self.pick, query);
                }
            }
            while let Some(server) = self.core.todo.spare.pop() {
                self.offer(server);
            }
            while let Some(group) = self.core.todo.starved.pop() {
                self.hedge.starved(&mut self.core, group);
            }
        }
        debug_assert!(self.core.todo.is_empty(), "no step leaves work for an earlier one");
        self.core.actions()
    }

    /// Offers the room of a server to the hedge. It is called only if no waiting query could use
    /// that room.
    #[inline(always)]
    pub(super) fn offer(&mut self, server: ServerId) {
        while self.core.has_room(server) && self.hedge.spare(&mut self.core, server) {}
    }

    #[inline(always)]
    fn serve(&mut self, query: QueryId, server: ServerId) {
        let QueryState { deadline, retries, group, failed, .. } = self.core.queries[query.index()];
        if deadline <= self.core.now {
            return self.expire(query);
        }
        self.core.dequeue(query);
        let why = if retries > 0 { StartReason::Retry } else { StartReason::Queue };
        self.start_primary(query, server, why);
        // If a query waits although a server has room, the query avoids that server. Duplicates may
        // use that room now.
        if Self::HEDGES && failed.is_some() {
            self.core.look_for_spare(group);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn expire(&mut self, query: QueryId) {
        if self.core.queries[query.index()].failed.is_some() {
            // The query was served, although the result was bad, and it was waiting only for a
            // retry.
            self.fail(query, FailReason::CopyFailed);
        } else {
            self.shed(query, ShedReason::Expired);
        }
    }

    #[inline(always)]
    pub(super) fn fill(&mut self, server: ServerId) {
        if self.core.waiting > 0 {
            self.fill_from_queue(server);
        }
        if Self::HEDGES && self.core.has_room(server) {
            self.core.todo.spare.push(server);
        }
        if Self::HEDGES && self.core.conduct.preempts {
            // A slot that was freed for one group may have gone to another.
            let (from, to) = self.core.servers[server.index()].groups;
            for at in from..to {
                let group = self.core.memberships[at as usize].0;
                if self.core.waiting(group) > 0 {
                    self.core.todo.starved.push(group);
                }
            }
        }
    }

    #[inline(never)]
    fn fill_from_queue(&mut self, server: ServerId) {
        if Self::OBSERVES && self.needs.waiting {
            return self.serve_ranked(server);
        }
        self.serve_waiting(server, |_| true);
    }

    /// While this server has room, serves the oldest query that waits for it, on the server that
    /// the pick prefers.
    fn serve_ranked(&mut self, server: ServerId) {
        while self.core.has_room(server) && self.hedge.overtakes(&mut self.core, server) {}
        while self.core.has_room(server)
            && let Some(mut query) = self.core.next_waiting(server)
        {
            let mut best = self.core.choose(&mut *self.pick, query).unwrap_or(server);
            // An older query may be waiting for the server that the pick prefers.
            while let Some(older) = self.core.next_waiting(best).filter(|&other| other != query) {
                query = older;
                best = self.core.choose(&mut *self.pick, query).unwrap_or(best);
            }
            self.serve(query, best);
        }
    }

    /// Serves the queries that wait for a server, while it has room and `may` allows the next
    /// query.
    #[inline(always)]
    fn serve_waiting(&mut self, server: ServerId, may: impl Fn(&QueryState) -> bool) {
        while self.core.has_room(server) && self.hedge.overtakes(&mut self.core, server) {}
        while self.core.has_room(server)
            && let Some(query) = self.core.next_waiting(server)
            && may(&self.core.queries[query.index()])
        {
            self.serve(query, server);
        }
    }

    /// Sends a query whose last copy failed to another server, if that is allowed.
    fn retry(&mut self, query: QueryId) {
        let core = &self.core;
        let state = &core.queries[query.index()];
        if state.phase != QueryPhase::Running || state.copies > 0 {
            return;
        }
        let group = &core.groups[state.group.index()];
        // The server is unknown if another one has taken its place.
        let avoided = state.avoid().and_then(|server| core.servers.get(server.index()));
        let failed_here = avoided.is_some_and(ServerState::is_open);
        let others = group.open - u32::from(failed_here);
        // A request that was never sent may be retried on any server, whatever its method.
        let more = if state.unsent { group.members.saturating_sub(1) } else { 0 };
        let most = u32::from(core.limits.retries).max(more);
        let may = (state.may_retry || state.unsent) && u32::from(state.retries) < most;
        if !may || others == 0 {
            // No other server can show whether the request is at fault, so the failure counts
            // against this server.
            self.settle_blame(query, None);
            return self.fail(query, FailReason::CopyFailed);
        }
        // A pause of all other servers may outlast the deadline.
        let in_time = |&server: &ServerId| {
            core.servers[server.index()].is_open()
                && state.avoid() != Some(server)
                && core.closed_until[server.index()] < state.deadline
        };
        if !core.retries.allows(core.arrivals)
            || state.deadline <= core.now
            || !group.servers.iter().any(in_time)
        {
            return self.fail(query, FailReason::CopyFailed);
        }
        self.send_again(query);
    }

    /// Sends a retry to the server that the pick prefers, but serves older queries first.
    fn send_again(&mut self, query: QueryId) {
        let seq = self.core.queries[query.index()].seq;
        while let Some(server) = self.core.choose(&mut *self.pick, query) {
            let first = self.core.next_waiting(server);
            match first.filter(|&other| self.core.queries[other.index()].seq < seq) {
                Some(older) => self.serve(older, server),
                None => {
                    self.core.count_retry(query);
                    return self.start_primary(query, server, StartReason::Retry);
                }
            }
        }
        // This query must avoid every server that has room. Other waiting queries use that room
        // first, which makes room for this one in the queue.
        self.thin_queue();
        if !self.core.has_queue_room(query) {
            return self.fail(query, FailReason::CopyFailed);
        }
        self.core.count_retry(query);
        self.wait(query);
    }

    /// Serves waiting queries while there is room, except those that are younger than the next
    /// query to be retried.
    fn thin_queue(&mut self) {
        let next = self.core.todo.to_retry.last();
        let next = next.map_or(u64::MAX, |query| self.core.queries[query.index()].seq);
        // The servers stay on the list, because the hedge has not seen them yet.
        for at in (0..self.core.todo.freed.len()).rev() {
            self.serve_waiting(self.core.todo.freed[at], |query| query.seq < next);
        }
    }

    pub(super) fn fail(&mut self, query: QueryId, why: FailReason) {
        let copy = self.core.queries[query.index()].failed.map(|(copy, _)| copy);
        *self.core.out.next() = Action::Fail { query, why, copy };
        self.close(query, None);
    }

    pub(super) fn shed(&mut self, query: QueryId, why: ShedReason) {
        *self.core.out.next() = Action::Shed { query, why };
        self.close(query, None);
    }
}
