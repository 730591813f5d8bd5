//! The fast paths for the two events that every query causes. An arrival is fast if a server has
//! room. The end of a copy is fast if the copy brings the response and its query has no other
//! copies.
//!
//! Simulations and proxies spend most of their kernel time here, so the code is written to need few
//! instructions. Each table entry is looked up once, and an event with one action needs no list of
//! actions. Rare work is in separate functions, which are called last. So the fast paths do not
//! have to save registers for them. `examples/pair.rs` measures the cost.
//!
//! With `psq` and two replicas, a query costs 250 instructions (`cargo xtask bench bound`).
//! [`Cell::finished_otherwise`] handles every kind of end correctly, but costs more. If it handled
//! all ends, and [`Cell::settle`] followed each of them, a query would cost, as counted by
//! `examples/pair.rs` (policy, replicas, waiting queries):
//!
//! | pair | with the fast paths | without |
//! |---|---|---|
//! | `psq 2 0` | 250 | 514 |
//! | `psq 512 10` | 741 | 931 |
//! | `laedge 2 10` | 687 | 918 |
//! | `rescue 2 10` | 2,053 | 2,299 |
//! | `two-choices 2 0` | 571 | 782 |
//! | `naive 2 0` | 1,005 | 1,359 |
//!
//! A request through the proxy takes about 17,700 instructions (`docs/measurements.md`), of which the
//! fast paths save 1.5 %. A simulation spends most of its time in the kernel.

use core::ops::DerefMut;

use super::Cell;
use super::copies::{Blame, CopyState, QueryPhase, QueryState};
use crate::action::{Action, EjectReason, Role, ShedReason, StartReason};
use crate::balance::{Pick, Wanted};
use crate::descriptor::Compiled;
use crate::event::Arrive;
use crate::hedge::Hedge;
use crate::id::{CopyId, NONE, QueryId, ServerId};
use crate::levels::Levels;
use crate::order::Avoid;
use crate::outcome::{Fault, Outcome};
use crate::servers::Streak;
use crate::time::NEVER_NS;

impl<P, H> Cell<P, H>
where
    P: DerefMut<Target: Pick + Compiled>,
    H: DerefMut<Target: Hedge<P::Target> + Compiled>,
{
    #[inline(always)]
    pub(super) fn arrive(&mut self, arrive: &Arrive) -> &[Action] {
        let core = &mut self.core;
        let Some(query) = core.queries.get_mut(arrive.query.index()) else {
            return self.arrive_with_new_id(arrive);
        };
        if query.phase != QueryPhase::Ended {
            still_lives(arrive.query);
        }
        let deadline = arrive.deadline.min(core.now.after(core.limits.timeout_ns));
        *query = QueryState::new(arrive, deadline, core.arrivals);
        if Self::HINTS {
            core.cost_hints[arrive.query.index()] = arrive.cost_hint;
        }
        core.arrivals += 1;
        if deadline <= core.now {
            return self.expired_on_arrival(arrive.query);
        }
        // Every event settles the cell, so no server with room could serve a waiting query. A new
        // query that finds room therefore overtakes no other query.
        let levels = Levels::of(&core.groups[arrive.group.index()], &core.servers, core.now);
        let &Arrive { group, cost_hint, .. } = arrive;
        let wanted = Wanted { group, avoid: Avoid::NONE, cost_hint };
        let pick = self.pick.pick(wanted, levels, &mut core.rng);
        let Some(server) = pick else { return self.not_started(arrive.query) };
        let copy = core.copies.add(arrive.query.0, NONE, server, core.now);
        query.attach(copy.slot);
        let (query, timed) = (arrive.query, query.timed());
        let holder = &mut core.servers[server.index()];
        holder.inc_outstanding();
        let (role, why) = (Role::Primary, StartReason::Arrival);
        let books = timed || holder.tracked || core.limits.attempt_timeout_ns != NEVER_NS;
        if Self::HEDGES || Self::OBSERVES || books {
            *core.out.next() = Action::Start { copy, query, server, role, why };
            return self.started(query, server, copy.slot, books);
        }
        self.core.out.only(Action::Start { copy, query, server, role, why })
    }

    #[cold]
    #[inline(never)]
    fn arrive_with_new_id(&mut self, arrive: &Arrive) -> &[Action] {
        self.core.queries.resize(arrive.query.index() + 1, QueryState::ENDED);
        if Self::HINTS {
            self.core.cost_hints.resize(arrive.query.index() + 1, None);
        }
        self.arrive(arrive)
    }

    /// Completes an arrival that found a server: does the bookkeeping that only some cells need,
    /// and calls the hedge.
    #[inline(never)]
    fn started(&mut self, query: QueryId, server: ServerId, slot: u32, books: bool) -> &[Action] {
        let core = &mut self.core;
        if books {
            core.set_deadline(query);
            core.start_copy_timer(slot, core.limits.attempt_timeout_ns);
            if core.servers[server.index()].tracked {
                core.track_start(server);
            }
        }
        if Self::HEDGES {
            // No server with room could serve a waiting query. So nothing has to be settled before
            // the hedge sees the query or after its duplicate has started.
            self.hedge.primary_started(core, &mut *self.pick, query);
        }
        self.core.actions()
    }

    #[cold]
    #[inline(never)]
    fn expired_on_arrival(&mut self, query: QueryId) -> &[Action] {
        self.shed(query, ShedReason::Expired);
        self.core.actions()
    }

    /// Completes an arrival that found no server.
    #[inline(never)]
    fn not_started(&mut self, query: QueryId) -> &[Action] {
        self.core.set_deadline(query);
        self.wait(query);
        if Self::HEDGES && self.core.conduct.preempts {
            return self.consult();
        }
        debug_assert!(self.core.todo.is_empty(), "a query that waits leaves nothing else to do");
        self.core.actions()
    }

    #[inline(always)]
    pub(super) fn finished(&mut self, copy: CopyId, outcome: Outcome) -> &[Action] {
        self.observe_end(copy, Some(outcome));
        let core = &mut self.core;
        let Some(live) = core.copies.live(copy) else { return self.core.actions() };
        let CopyState { server, query: id, stopping, timed, .. } = *live.state();
        if outcome != Outcome::Good || stopping {
            return self.finished_otherwise(copy, outcome);
        }
        // `NONE` is not the id of any query, so this lookup also tests whether the copy still has a
        // query.
        let Some(query) = core.queries.get_mut(id as usize) else {
            let judged = live.state().judged;
            live.end();
            return self.vacated(server, copy, timed, judged);
        };
        if query.copies > 1 || query.blame != Blame::Nothing {
            return self.won(QueryId(id), server, copy);
        }
        let query_timed = query.timed();
        query.end();
        live.end();
        let holder = &mut core.servers[server.index()];
        holder.dec_outstanding();
        holder.is_well();
        let query = QueryId(id);
        let books = timed || query_timed || holder.tracked;
        if Self::HEDGES || Self::OBSERVES || books || core.waiting > 0 {
            *core.out.next() = Action::Answer { query, copy };
            return self.answered(query, server, copy, books);
        }
        self.core.out.only(Action::Answer { query, copy })
    }

    /// Completes the end of a winner whose query has no other copies. Does the bookkeeping that
    /// only some cells need, records the response time, calls the hedge, and serves the queries
    /// that wait for the server.
    #[inline(never)]
    fn answered(
        &mut self,
        query: QueryId,
        server: ServerId,
        copy: CopyId,
        books: bool,
    ) -> &[Action] {
        let core = &mut self.core;
        if Self::OBSERVES || (books && core.servers[server.index()].tracked) {
            core.servers[server.index()].took(core.copies.ran_ns(copy, core.now));
        }
        if books {
            core.timers.deadlines.remove(0, query.0);
            core.timers.copies.remove(0, copy.slot);
            if core.servers[server.index()].tracked {
                core.sort(server);
                core.climb(server);
            }
        }
        if Self::TIMERS {
            core.timers.delays.remove(0, query.0);
        }
        if Self::HEDGES {
            if let Some(learns) = self.hedge.learns() {
                learns.answered(core, query, copy, server);
            }
            self.hedge.ended(core, query);
            self.hedge.released(core, server, copy);
        }
        self.settle_only(server)
    }

    /// Ends a copy whose query has ended. The server of the copy is healthy.
    #[inline(never)]
    fn vacated(&mut self, server: ServerId, copy: CopyId, timed: bool, judged: bool) -> &[Action] {
        let core = &mut self.core;
        if timed {
            core.timers.copies.remove(0, copy.slot);
        }
        if Self::HEDGES
            && let Some(learns) = self.hedge.learns()
        {
            learns.outlived(core, server, copy);
        }
        let holder = &mut core.servers[server.index()];
        holder.dec_outstanding();
        if !judged {
            holder.is_well();
            holder.took(core.copies.ran_ns(copy, core.now));
        }
        if holder.tracked {
            core.sort(server);
            core.climb(server);
        }
        if Self::HEDGES {
            self.hedge.released(core, server, copy);
        }
        self.settle_only(server)
    }

    /// Does what [`Self::settle`] does, for an event that only freed room on a server.
    #[inline(always)]
    fn settle_only(&mut self, server: ServerId) -> &[Action] {
        debug_assert!(self.core.todo.is_empty(), "the server is all that there is to settle");
        if self.core.waiting > 0 {
            self.fill(server);
            return self.consult();
        }
        if Self::HEDGES {
            self.offer(server);
        }
        self.core.actions()
    }

    /// Ends a copy that brings the response while other copies run or after one has failed. Only in
    /// these cases can another server be ejected.
    #[inline(never)]
    fn won(&mut self, query: QueryId, server: ServerId, copy: CopyId) -> &[Action] {
        *self.core.out.next() = Action::Answer { query, copy };
        // This comes before `end`, because a server that failed the query is ejected only if a peer
        // is known to be healthy.
        let holder = &mut self.core.servers[server.index()];
        holder.is_well();
        holder.took(self.core.copies.ran_ns(copy, self.core.now));
        let blame_settled = self.end(query, Some((copy, server)));
        self.release(copy.slot);
        self.core.climb(server);
        if blame_settled { self.settle_after(server) } else { self.settle_only(server) }
    }

    #[inline(never)]
    fn finished_otherwise(&mut self, copy: CopyId, outcome: Outcome) -> &[Action] {
        let Some(state) = self.core.copies.find(copy) else { return self.core.actions() };
        let CopyState { server, query, started, stopping, judged, beaten, given_up, .. } = *state;
        let why = match outcome {
            // A copy that was cut off by this side looks like a reset.
            Outcome::Failed(Fault::Reset) if stopping => None,
            _ => outcome.failure(),
        };
        // This comes first, because a server that failed the query is ejected only if a peer is
        // known to be healthy.
        if outcome.wins() && !judged {
            let holder = &mut self.core.servers[server.index()];
            match outcome {
                Outcome::Good => {
                    holder.is_well();
                    holder.took(self.core.now.since(started));
                }
                _ => holder.failures = Streak::GOOD,
            }
        }
        if query != NONE && outcome.wins() {
            self.answer(QueryId(query), copy);
        } else if query != NONE {
            if outcome == Outcome::OverLimit {
                // A retry would not help, because another server would send the same response.
                self.core.queries[query as usize].may_retry = false;
            }
            self.copy_failed(copy.slot, why);
        }
        self.release(copy.slot);
        if outcome.wins() {
            self.core.climb(server);
        }
        if why.is_some() || outcome == Outcome::OverLimit {
            self.core.hold(server, started);
        }
        if let Some(why) = why {
            // The failure of a winner or of a loser counts. A copy that was given up may have been
            // cut off by this side.
            let counts = beaten || !given_up || why == EjectReason::ConnectFailed;
            if counts && !judged && query == NONE {
                self.count_failure(server, why);
            }
        }
        self.settle_after(server)
    }

    /// Does what [`Self::settle`] does, for an event that freed room on a server and may have
    /// ejected another.
    #[inline(never)]
    fn settle_after(&mut self, server: ServerId) -> &[Action] {
        if self.core.todo.is_empty() {
            return self.settle_only(server);
        }
        self.core.todo.freed.push(server);
        self.settle()
    }
}

#[cold]
#[inline(never)]
fn still_lives(query: QueryId) -> ! {
    panic!("query {} has not ended", query.0)
}
