//! Decides when a query gets further copies, and when a copy is given up.

mod app_timeout;
mod cloning;
mod das;
mod delayed;
mod histogram;
mod laedge;
mod learned_delay;
mod learner;
mod naive;
mod none;
mod predictor;
mod probabilistic;
mod record;
mod rescue;
mod tied;

pub use app_timeout::AppTimeout;
pub use cloning::Cloning;
pub use das::Das;
pub use delayed::Delayed;
pub use laedge::{Cancellation, Laedge};
pub use learned_delay::{AfterLearnedDelay, DelayLearner, LearnedDelay};
pub use learner::Learner;
pub use naive::Naive;
pub use none::NoHedge;
pub use predictor::{Judgment, MostRecent, Oracle, Predictor, Victim};
pub use probabilistic::Probabilistic;
pub use record::{Exploration, Prefetch, Record, Replaced, Snapshot, Tried};
pub use rescue::{Rescue, RescueLearner, Slotless, Status, USUAL_COST, Version};
pub use tied::Tied;

use alloc::vec::Vec;

use crate::action::{Role, StartReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::id::{CopyId, GroupId, QueryId, ServerId};

/// A strategy that decides when a query gets further copies. Every method except `recount` may
/// start and stop copies through the [`Core`]. By default, all methods do nothing.
pub trait Hedge {
    /// Whether the hedge ever starts further copies. If it does not, the cell skips all calls to
    /// the hedge.
    const HEDGES: bool = true;

    /// Whether the hedge reads cost hints. If not, the cell does not store them.
    const READS_HINTS: bool = false;

    /// Whether the hedge budget limits the duplicates. False for baselines.
    const BUDGETED: bool = true;

    /// Whether the hedge biases servers ([`Core::bias`]).
    const BIASES: bool = false;

    /// Whether picks do not count its duplicates as load, because servers run them after all other
    /// copies.
    const LIGHT: bool = false;

    /// Whether the hedge sets timers ([`Core::set_timer`]). If not, the cell does not look for one
    /// when a query ends.
    const SETS_TIMERS: bool = true;

    /// Whether the loser is cancelled when a copy wins (cleanup cancellation).
    fn cleans_up(&self) -> bool {
        false
    }

    /// Whether the hedge stops copies to make room for queries that wait (pre-emptive
    /// cancellation).
    fn preempts(&self) -> bool {
        false
    }

    /// Handles a change in the set of copies that may answer a live query. For bookkeeping only. It
    /// is not called for copies that the other methods start: those methods do their own
    /// bookkeeping.
    fn recount(&mut self, _core: &Core, _query: QueryId) {}

    /// Handles the winning response, just before the query ends. Returns true if the query's other
    /// copies should run on until their timeout, although losers are otherwise stopped.
    #[inline(always)]
    fn answered(
        &mut self,
        _core: &mut Core,
        _query: QueryId,
        (_copy, _server): (CopyId, ServerId),
    ) -> bool {
        false
    }

    /// Handles the end of a copy whose query had already ended. The server of the copy is healthy.
    #[inline(always)]
    fn outlived(&mut self, _core: &mut Core, _server: ServerId, _copy: CopyId) {}

    /// Handles the timeout of a copy that was allowed to run on. The cell then stops the copy.
    fn overran(&mut self, _core: &Core, _copy: CopyId) {}

    /// Handles the end of a copy, for whatever reason. The copy's server now holds one copy fewer.
    /// This is only for bookkeeping, but it may set a timer.
    #[inline(always)]
    fn released(&mut self, _core: &mut Core, _server: ServerId, _copy: CopyId) {}

    /// For metrics: the number of queries that are probably stuck and wait for a second copy.
    fn suspects(&self) -> u32 {
        0
    }

    /// Moves the records for the service's learner to the end of a list.
    fn publish(&mut self, _into: &mut Vec<Record>) {}

    /// Adopts what the service has learned, for queries that start from now on.
    fn adopt(&mut self, _snapshot: &Snapshot) {}

    /// Handles the end of a query. For bookkeeping only.
    fn ended(&mut self, _core: &Core, _query: QueryId) {}

    /// Handles the start of a query's first copy, or of a copy that replaces a failed one. At this
    /// point, no waiting query could be served.
    fn primary_started<P: Pick>(&mut self, _core: &mut Core, _pick: &mut P, _query: QueryId) {}

    /// Like [`Self::primary_started`], but for a query that had to wait or is being retried. If
    /// another server has an idle slot that the query may use, that server is offered to
    /// [`Self::spare`] next.
    #[inline(always)]
    fn primary_started_late<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        self.primary_started(core, pick, query);
    }

    /// Handles the timer that was set with [`Core::set_timer`].
    fn timer<P: Pick>(&mut self, _core: &mut Core, _pick: &mut P, _query: QueryId) {}

    /// Handles the report that a server began to execute a copy. The copy may still answer the
    /// query and is not being stopped.
    fn began(&mut self, _core: &mut Core, _query: QueryId, _copy: CopyId) {}

    /// Offers a server that has room, though it may have no idle slot. The server could not serve
    /// any waiting query. Returns true if the hedge used the room. The cell calls it again until it
    /// returns false or no room is left.
    fn spare(&mut self, _core: &mut Core, _server: ServerId) -> bool {
        false
    }

    /// Starts a duplicate on a server before the waiting queries are served. The server has room,
    /// though it may have no idle slot. Returns whether a duplicate was started.
    #[inline(always)]
    fn overtakes(&mut self, _core: &mut Core, _server: ServerId) -> bool {
        false
    }

    /// Handles a group whose queries wait while no server has room. It is called only if the hedge
    /// pre-empts ([`Self::preempts`]).
    fn starved(&mut self, _core: &mut Core, _group: GroupId) {}
}

/// Starts a second copy on the server that the pick chooses, if the query may have one and a server
/// has room. Returns whether it started.
#[inline(always)]
fn duplicate<P: Pick>(core: &mut Core, pick: &mut P, query: QueryId, why: StartReason) -> bool {
    if !core.may_duplicate(query) || !core.may_hedge(query) {
        return false;
    }
    let Some(server) = core.choose_second(pick, query) else { return false };
    core.start(query, server, Role::Duplicate, why);
    true
}

/// If the query may have a second copy, sets its timer to expire after this delay.
fn set_timer_after(core: &mut Core, query: QueryId, delay_ns: u64) {
    if core.may_duplicate(query) {
        core.set_timer(query, core.now().after(delay_ns));
    }
}
