//! Ends copies and queries. For the most common ends, see `hot.rs`.

use core::ops::DerefMut;

use super::Cell;
use super::copies::{Blame, CopyState, QueryPhase, QueryState};
use crate::action::{Action, EjectReason, FailReason, StopReason};
use crate::balance::{Ended, Pick};
use crate::descriptor::Compiled;
use crate::event::Feedback;
use crate::hedge::Hedge;
use crate::id::{CopyId, NONE, QueryId, ServerId};
use crate::outcome::Outcome;
use crate::time::{NEVER_NS, Timestamp};

impl<P, H> Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled>,
    H: DerefMut<Target: Hedge<P::Target> + Compiled>,
{
    pub(super) fn responded(&mut self, copy: CopyId, outcome: Outcome) {
        let Some(&mut CopyState { query, .. }) = self.core.copies.find(copy) else { return };
        if query == NONE {
            return;
        }
        if outcome.wins() {
            self.answer(QueryId(query), copy);
            self.core.stop_copy_timer(copy.slot);
        } else {
            self.copy_failed(copy.slot, outcome.failure());
            self.start_cancel_timeout(copy.slot);
        }
    }

    pub(super) fn forbid_retry(&mut self, copy: CopyId) {
        let Some(&CopyState { query, .. }) = self.core.copies.peek(copy) else { return };
        if query != NONE {
            let state = &mut self.core.queries[query as usize];
            (state.may_retry, state.may_duplicate) = (false, false);
            self.hedge.recount(&self.core, QueryId(query));
        }
    }

    /// Ignores the start of a copy that was cancelled or whose query has ended.
    pub(super) fn began(&mut self, copy: CopyId) {
        let Some(&CopyState { query, stopping, .. }) = self.core.copies.peek(copy) else { return };
        if query != NONE && !stopping {
            self.hedge.began(&mut self.core, QueryId(query), copy);
        }
    }

    #[inline(always)]
    pub(super) fn observe_end(&mut self, copy: CopyId, outcome: Option<Outcome>) {
        if Self::OBSERVES
            && self.needs.copies
            && let Some(&CopyState { server, started, .. }) = self.core.copies.peek(copy)
        {
            let now = self.core.now;
            let mut took_ns = now.since(started);
            if outcome.is_some_and(Outcome::is_early) {
                took_ns = took_ns.max(self.core.typical_ns(server));
            }
            let bytes = self.take_received(copy);
            self.pick.ended(Ended { server, now, took_ns, outcome, bytes });
            if let Some(outcome) = outcome {
                self.core.adapt_rate(server, took_ns, outcome);
            }
        }
    }

    pub(super) fn stopped(&mut self, copy: CopyId) {
        self.observe_end(copy, None);
        let Some(&mut CopyState { query, server, started, .. }) = self.core.copies.find(copy)
        else {
            return;
        };
        let took_ns = self.core.now.since(started);
        self.core.servers[server.index()].takes_at_least(took_ns);
        if query != NONE {
            self.detach(copy.slot);
            self.hedge.recount(&self.core, QueryId(query));
            self.check_retry(QueryId(query));
            if Self::HEDGES {
                // The query may get a second copy again, and a server other than this one may be
                // idle.
                let group = self.core.group_of(QueryId(query));
                self.core.look_for_spare(group);
            }
        }
        let server = self.release(copy.slot);
        self.core.todo.freed.push(server);
    }

    pub(super) fn unwanted(&mut self, copy: CopyId) {
        if self.core.copies.find(copy).is_some_and(|state| state.query == NONE) {
            self.give_up(copy.slot);
        }
    }

    /// The cancel timeout of a cancelled copy does not start again, even if the copy is still
    /// running.
    pub(super) fn progress(&mut self, copy: CopyId) {
        if self.core.copies.find(copy).is_some_and(|state| state.given_up && !state.stopping) {
            self.start_cancel_timeout(copy.slot);
        }
    }

    pub(super) fn abandoned(&mut self, query: QueryId) {
        if self.core.is_live(query) {
            self.close(query, None);
        }
    }

    pub(super) fn answer(&mut self, query: QueryId, copy: CopyId) {
        *self.core.out.next() = Action::Answer { query, copy };
        let server = self.core.copies.get(copy.slot).server;
        self.close(query, Some((copy, server)));
    }

    /// Ends a query. From now on, the copies of the query only hold their slots. The caller handles
    /// the copy timer of the winner.
    pub(super) fn close(&mut self, query: QueryId, winner: Option<(CopyId, ServerId)>) {
        let QueryState { phase, group, .. } = self.core.queries[query.index()];
        if phase == QueryPhase::Waiting {
            self.core.dequeue(query);
            if Self::HEDGES {
                self.core.look_for_spare(group);
            }
        }
        self.end(query, winner);
    }

    /// Does what [`Self::close`] does, for a query that is not waiting. Returns true if the
    /// response settled which server was to blame for an earlier failure. Only in that case can a
    /// server have been ejected.
    #[inline(always)]
    pub(super) fn end(&mut self, query: QueryId, winner: Option<(CopyId, ServerId)>) -> bool {
        let mut runs_on = false;
        if Self::HEDGES
            && let (Some((copy, server)), Some(learns)) = (winner, self.hedge.learns())
        {
            runs_on = learns.answered(&mut self.core, query, copy, server);
        }
        let state = &mut self.core.queries[query.index()];
        let (first, timed, blame) = (state.first, state.timed(), state.blame);
        state.end();
        // Copies of a query that ended without a response are stopped. Losers are stopped unless
        // the policy lets them run on.
        let stop = winner.is_none() || (self.core.conduct.cleans_up && !runs_on);
        let ns = self.core.limits.cancel_timeout_ns;
        let mut slot = first;
        while slot != NONE {
            let copy = self.core.copies.get_mut(slot);
            copy.query = NONE;
            let next = copy.next;
            if winner.is_none_or(|(winner, _)| winner.slot != slot) {
                copy.beaten = winner.is_some();
                // A loser that runs on keeps its attempt timer, and is given up when the timer
                // fires. So its server is judged no more harshly than if no other copy had won. If
                // the loser has no attempt timer, its cancel timeout starts now.
                if stop {
                    self.give_up(slot);
                } else if !copy.timed && ns != NEVER_NS {
                    self.core.start_copy_timer(slot, ns);
                }
            }
            slot = next;
        }
        if timed {
            self.core.timers.deadlines.remove(0, query.0);
        }
        let blame_settled = winner.is_some() && blame != Blame::Nothing;
        if blame_settled {
            self.settle_blame(query, winner.map(|(_, server)| server));
        }
        if Self::TIMERS {
            self.core.timers.delays.remove(0, query.0);
        }
        if Self::HEDGES {
            self.hedge.ended(&self.core, query);
        }
        blame_settled
    }

    /// Gives up a copy whose query has ended: cancels it if servers can stop copies, and always
    /// starts its cancel timeout.
    fn give_up(&mut self, slot: u32) {
        self.start_cancel_timeout(slot);
        let copy = self.core.copies.id(slot);
        self.core.stop(copy, StopReason::Cleanup);
    }

    fn start_cancel_timeout(&mut self, slot: u32) {
        let copy = self.core.copies.get_mut(slot);
        copy.given_up = true;
        let ns = self.core.limits.cancel_timeout_ns;
        if copy.timed || ns != NEVER_NS {
            self.core.start_copy_timer(slot, ns);
        }
    }

    /// Detaches a failed copy from its query. The copy may continue to hold its slot. `why` is the
    /// failure of its server, if the server is at fault.
    pub(super) fn copy_failed(&mut self, slot: u32, why: Option<EjectReason>) {
        let copy = self.core.copies.get_mut(slot);
        copy.judged = true;
        let (query, server) = (QueryId(copy.query), copy.server);
        self.detach(slot);
        let failed = self.core.copies.id(slot);
        let state = &mut self.core.queries[query.index()];
        state.failed = Some((failed, server));
        state.may_duplicate = false;
        state.unsent = why == Some(EjectReason::ConnectFailed);
        match (why, state.blame) {
            (Some(why @ EjectReason::ConnectFailed), _) => self.count_failure(server, why),
            (Some(why), Blame::Nothing) => state.blame = Blame::Server(server, why),
            (Some(_), Blame::Server(other, _)) if other != server => state.blame = Blame::Request,
            _ => {}
        }
        let others = self.core.copies_of(query).any(|copy| !copy.stopping);
        let state = &mut self.core.queries[query.index()];
        // Only failures of servers count: a duplicate that was given up is not evidence.
        state.failures = state.failures.saturating_add(why.is_some().into());
        if !others {
            // If two copies failed, the second one was the retry, so every failure after the first
            // counts as a retry.
            let more = core::mem::take(&mut state.failures).saturating_sub(1);
            state.retries = state.retries.saturating_add(more);
        }
        self.hedge.recount(&self.core, query);
        self.check_retry(query);
    }

    fn check_retry(&mut self, query: QueryId) {
        let queries = &self.core.queries;
        if queries[query.index()].copies == 0 {
            // The queries are sorted youngest first, because retries are taken from the end.
            let seq = queries[query.index()].seq;
            let at =
                self.core.todo.to_retry.partition_point(|other| queries[other.index()].seq > seq);
            self.core.todo.to_retry.insert(at, query);
        }
    }

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

    /// Ends a detached copy and frees its slot. Returns its server.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u32) -> ServerId {
        let CopyState { query, server, stopping, timed, .. } = *self.core.copies.get(slot);
        debug_assert!(query == NONE, "detached before released");
        if timed {
            self.core.timers.copies.remove(0, slot);
        }
        if stopping {
            self.core.reclaim(server, -1);
        }
        let copy = self.core.copies.id(slot);
        self.core.copies.remove(slot);
        let holder = &mut self.core.servers[server.index()];
        holder.dec_outstanding();
        if holder.tracked {
            self.core.sort(server);
        }
        if Self::HEDGES {
            self.hedge.released(&mut self.core, server, copy);
        }
        server
    }

    pub(super) fn lose(&mut self, slot: u32) {
        if self.core.copies.get(slot).query != NONE {
            self.copy_failed(slot, None);
        }
        let copy = self.core.copies.id(slot);
        self.observe_end(copy, None);
        *self.core.out.next() = Action::Lose { copy };
        let server = self.release(slot);
        self.core.todo.freed.push(server);
    }

    pub(super) fn feedback(&mut self, copy: CopyId, feedback: Feedback) {
        if Self::OBSERVES
            && let Some(&CopyState { server, started, .. }) = self.core.copies.peek(copy)
            && self.core.is_member(server)
        {
            let now = self.core.now;
            // A server cannot have worked for longer than the client waited.
            let service_ns = feedback.service_ns.min(now.since(started));
            self.pick.feedback(server, now, Feedback { service_ns, ..feedback });
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

    pub(super) fn tick(&mut self) {
        let now = self.core.now;
        let due = |first: Option<(Timestamp, u32)>| first.filter(|&(at, _)| at <= now);
        while let Some((_, query)) = due(self.core.timers.deadlines.first(0)) {
            self.expired(QueryId(query));
        }
        while let Some((_, slot)) = due(self.core.timers.copies.first(0)) {
            self.core.stop_copy_timer(slot);
            self.timed_out(slot);
        }
        self.end_ejections();
        self.core.end_holds();
        self.core.open_gates();
        while let Some((_, query)) = due(self.core.timers.delays.first(0)) {
            self.core.timers.delays.remove(0, query);
            self.core.todo.timers_due.push(QueryId(query));
        }
    }

    fn timed_out(&mut self, slot: u32) {
        let CopyState { server, query, given_up, stopping, judged, .. } =
            *self.core.copies.get(slot);
        if given_up || stopping {
            self.lose(slot);
            if !judged {
                self.count_failure(server, EjectReason::Silent);
            }
            return;
        }
        if query == NONE {
            let id = self.core.copies.id(slot);
            if let Some(learns) = self.hedge.learns() {
                learns.overran(&self.core, id);
            }
        } else {
            self.copy_failed(slot, Some(EjectReason::Timeout));
        }
        self.give_up(slot);
    }

    fn expired(&mut self, query: QueryId) {
        if self.core.queries[query.index()].phase == QueryPhase::Waiting {
            self.expire(query);
        } else {
            self.fail(query, FailReason::Timeout);
        }
    }
}
