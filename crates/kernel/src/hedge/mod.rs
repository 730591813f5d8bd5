//! When a query gets further copies, and when a copy is given up.

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

/// Decides about further copies. Every method but `recount` may start and stop copies through the
/// [`Core`]; all default to doing nothing.
pub trait Hedge {
    /// Are there further copies at all? Where not, a cell spends nothing on asking.
    const HEDGES: bool = true;

    /// Does it ask what queries cost? Where not, a cell does not remember it.
    const READS_HINTS: bool = false;

    /// Does the hedge budget limit its duplicates? Not those of baselines.
    const BUDGETED: bool = true;

    /// Does it tell the cell which servers to bias ([`Core::bias`])?
    const BIASES: bool = false;

    /// Are its duplicates no load for picks, because servers let them wait for all others?
    const LIGHT: bool = false;

    /// Does it set timers ([`Core::set_timer`])? Where not, a query's end looks for none.
    const SETS_TIMERS: bool = true;

    /// Is the loser cancelled when a copy wins (cleanup cancellation)?
    fn cleans_up(&self) -> bool {
        false
    }

    /// Does it stop copies to make room for queries that wait (pre-emptive cancellation)?
    fn preempts(&self) -> bool {
        false
    }

    /// The copies that may answer this query have changed, and it has not ended. For bookkeeping
    /// only; what starts a copy keeps its own books: the other methods are not followed by this one.
    fn recount(&mut self, _core: &Core, _query: QueryId) {}

    /// A copy on a server answers the query, which ends next. True where its other copies are to run on
    /// until their timeout, though losers are stopped.
    #[inline(always)]
    fn answered(
        &mut self,
        _core: &mut Core,
        _query: QueryId,
        (_copy, _server): (CopyId, ServerId),
    ) -> bool {
        false
    }

    /// A copy whose query has ended has come to its end, and its server is well.
    #[inline(always)]
    fn outlived(&mut self, _core: &mut Core, _server: ServerId, _copy: CopyId) {}

    /// A copy that was let run on has run into its timeout, and is stopped next.
    fn overran(&mut self, _core: &Core, _copy: CopyId) {}

    /// A copy has ended, however: its server holds one less. For bookkeeping only, which may set a timer.
    #[inline(always)]
    fn released(&mut self, _core: &mut Core, _server: ServerId, _copy: CopyId) {}

    /// Queries that are taken for stuck and wait for a second copy, for metrics.
    fn suspects(&self) -> u32 {
        0
    }

    /// Moves what was recorded for the service's learner to the end of a list.
    fn publish(&mut self, _into: &mut Vec<Record>) {}

    /// The service has learned something, for queries that start from now on.
    fn adopt(&mut self, _snapshot: &Snapshot) {}

    /// The query has ended. For bookkeeping only.
    fn ended(&mut self, _core: &Core, _query: QueryId) {}

    /// The query got its first copy, or one in place of a failed one, and every waiting query that
    /// can be served is.
    fn primary_started<P: Pick>(&mut self, _core: &mut Core, _pick: &mut P, _query: QueryId) {}

    /// As [`Self::primary_started`], of a query that had waited or that is sent again: an idle slot
    /// on another server that it may use is offered to [`Self::spare`] next.
    #[inline(always)]
    fn primary_started_late<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        self.primary_started(core, pick, query);
    }

    /// The time asked for with [`Core::set_timer`] has come.
    fn timer<P: Pick>(&mut self, _core: &mut Core, _pick: &mut P, _query: QueryId) {}

    /// Its server began to execute a copy that may answer the query and was not told to stop.
    fn began(&mut self, _core: &mut Core, _query: QueryId, _copy: CopyId) {}

    /// The server has room, but maybe no idle slot, and nothing waits that it could serve. True when it
    /// was used; asked again until it is false or there is no more.
    fn spare(&mut self, _core: &mut Core, _server: ServerId) -> bool {
        false
    }

    /// The server has room, but maybe no idle slot; does a duplicate take it before the queries that
    /// wait?
    #[inline(always)]
    fn overtakes(&mut self, _core: &mut Core, _server: ServerId) -> bool {
        false
    }

    /// Queries of the group wait and no server has room. Asked when [`Self::preempts`].
    fn starved(&mut self, _core: &mut Core, _group: GroupId) {}
}

/// A second copy where the balance wants it, if the query may have one and a server has room; did it
/// start?
#[inline(always)]
fn duplicate<P: Pick>(core: &mut Core, pick: &mut P, query: QueryId, why: StartReason) -> bool {
    if !core.may_duplicate(query) || !core.may_hedge(query) {
        return false;
    }
    let Some(server) = core.choose_second(pick, query) else { return false };
    core.start(query, server, Role::Duplicate, why);
    true
}

/// Sets the timer to so long after the start of a query's copy, if it may have a second one.
fn set_timer_after(core: &mut Core, query: QueryId, delay_ns: u64) {
    if core.may_duplicate(query) {
        core.set_timer(query, core.now().after(delay_ns));
    }
}
