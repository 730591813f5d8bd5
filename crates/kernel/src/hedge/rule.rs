//! The interface of a hedge: the rule that decides when a query gets further copies, and when a copy
//! is given up.

use alloc::boxed::Box;
use core::fmt;

use super::learning::{AnyLearner, AnyLearns};
use crate::balance::{LEAST_OUTSTANDING, NewPick, Pick, RANDOM};
use crate::cell::Core;
use crate::config::{Gate, Limits, Site};
use crate::descriptor::{Arguments, Conduct, Descriptor};
use crate::id::{CopyId, GroupId, QueryId, ServerId};

/// Builds the hedge of a cell, and states what its name implies.
#[derive(Clone, Copy)]
pub struct NewHedge {
    /// Builds the hedge.
    pub hedge: fn(&Arguments, Site<'_>) -> Box<dyn Hedge>,
    /// Creates the learner of a service behind this gate, if the hedge [learns](super::Learns).
    pub learner: fn(&Arguments, &Limits, Gate) -> Option<AnyLearner>,
    /// The gate that is used if the policy's name contains none.
    pub gate: Gate,
    /// The pick that is used if the policy's name contains none. It is the one that the policy's
    /// source uses.
    pub pick: &'static Descriptor<NewPick>,
    /// Whether it runs behind a push gate, without slots, if the policy's name contains a pick and
    /// no gate.
    pub slotless: fn(&Arguments) -> bool,
    /// The number of copies of every query that run to their ends, at any load.
    pub copies: AllCopies,
    /// Whether its duplicates only fill slots that would otherwise be idle, at any load. If so, the
    /// default hedge budget does not limit them.
    pub fills_idle_slots: fn(&Arguments) -> bool,
    /// What to use if servers cannot stop copies.
    pub without_cancellation: &'static str,
    /// Why the policy cannot run on real servers: text that follows its name in a message. It is
    /// `None` if the policy can run on them.
    pub simulator_only: Option<&'static str>,
    /// The approximate cost of simulating a query, relative to per-shard queuing.
    pub simulation_cost: fn(&Arguments) -> f64,
}

/// The number of copies of every query that run to their ends, at any load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllCopies {
    /// One: further copies are stopped, or start only under a condition.
    One,
    /// Two.
    Two,
    /// One on every server of the group.
    EveryServer,
}

impl NewHedge {
    /// A hedge that pushes to random servers and does not learn.
    pub const fn push(hedge: fn(&Arguments, Site<'_>) -> Box<dyn Hedge>) -> Self {
        Self {
            hedge,
            learner: |_, _, _| None,
            gate: Gate::Outstanding,
            pick: &RANDOM,
            slotless: |_| false,
            copies: AllCopies::One,
            fills_idle_slots: |_| false,
            without_cancellation: "a policy without :cc and +pc",
            simulator_only: None,
            simulation_cost: |_| 1.0,
        }
    }

    /// A hedge over per-shard queuing.
    pub const fn pull(hedge: fn(&Arguments, Site<'_>) -> Box<dyn Hedge>) -> Self {
        Self { gate: Gate::Slots, pick: &LEAST_OUTSTANDING, ..Self::push(hedge) }
    }
}

impl fmt::Debug for NewHedge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewHedge")
    }
}

/// A strategy that decides when a query gets further copies, over picks of the type `P`. Every
/// method except `recount` may start and stop copies through the [`Core`]. By default, all methods
/// do nothing.
///
/// A hedge of one's own becomes part of a policy through its descriptor. A
/// [catalog](crate::Catalog) gives it a name:
///
/// ```
/// use curtail_kernel::balance::Pick;
/// use curtail_kernel::hedge::{Hedge, NewHedge};
/// use curtail_kernel::{Action, Arrive, Catalog, Core, Descriptor, Event, GroupId, Limits, Needs};
/// use curtail_kernel::{QueryId, StartReason, Timestamp, Topology, rng};
///
/// /// A second copy after a delay, if at most one query waits.
/// #[derive(Debug)]
/// struct Quiet {
///     delay_ns: u64,
/// }
///
/// impl<P: Pick + ?Sized> Hedge<P> for Quiet {
///     fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
///         core.set_timer(query, core.now().after(self.delay_ns));
///     }
///
///     fn timer(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
///         if core.waiting(core.group_of(query)) <= 1 {
///             core.duplicate(pick, query, StartReason::Delay);
///         }
///     }
/// }
///
/// static QUIET: Descriptor<NewHedge> = Descriptor {
///     name: "quiet",
///     forms: &["quiet:D"],
///     about: "a second copy after a delay, unless queries wait",
///     needs: |_| Needs { timers: true, budget: true, ..Needs::NOTHING },
///     builds: NewHedge::push(|of, _| {
///         Box::new(Quiet { delay_ns: of.delay_ns.unwrap_or_default() })
///     }),
/// };
///
/// let policy = Catalog::new().with_hedge(&QUIET)?.parse("quiet:5ms+two-choices", None)?;
/// let mut cell = policy.build(&Topology::replicated(2, 1), Limits::default(), rng(1))?;
/// cell.handle(Timestamp(0), &Event::Arrive(Arrive::new(QueryId(0), GroupId(0))));
/// let actions = cell.handle(Timestamp(5_000_000), &Event::Tick);
/// assert!(matches!(actions, [Action::Start { why: StartReason::Delay, .. }]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Hedge<P: Pick + ?Sized = dyn Pick>: fmt::Debug + Send {
    /// What the hedge does whatever happens.
    fn conduct(&self) -> Conduct {
        Conduct::default()
    }

    /// Handles the start of a query's first copy, or of a copy that replaces a failed one. At this
    /// point, no waiting query could be served.
    fn primary_started(&mut self, _core: &mut Core, _pick: &mut P, _query: QueryId) {}

    /// Like [`Self::primary_started`], but for a query that had to wait or is being retried. If
    /// another server has an idle slot that the query may use, that server is offered to
    /// [`Self::spare`] next.
    #[inline(always)]
    fn primary_started_late(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        self.primary_started(core, pick, query);
    }

    /// Handles a timer that was set with [`Core::set_timer`]. Needs [`crate::Needs::timers`].
    fn timer(&mut self, _core: &mut Core, _pick: &mut P, _query: QueryId) {}

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
    /// pre-empts ([`Conduct::preempts`]).
    fn starved(&mut self, _core: &mut Core, _group: GroupId) {}

    /// Handles a change in the set of copies that may answer a live query. For bookkeeping only. It
    /// is not called for copies that the other methods start: those methods do their own
    /// bookkeeping.
    fn recount(&mut self, _core: &Core, _query: QueryId) {}

    /// Handles the end of a copy, for whatever reason. The copy's server now holds one copy fewer.
    /// This is only for bookkeeping, but it may set a timer.
    #[inline(always)]
    fn released(&mut self, _core: &mut Core, _server: ServerId, _copy: CopyId) {}

    /// Handles the end of a query. For bookkeeping only.
    fn ended(&mut self, _core: &Core, _query: QueryId) {}

    /// Forgets a server that has left the cell, and forgets it again when another one takes its
    /// place. The server holds no copies in the second case.
    fn forget(&mut self, _core: &Core, _server: ServerId) {}

    /// For metrics: the number of queries that are probably stuck and wait for a second copy.
    fn suspects(&self) -> u32 {
        0
    }

    /// Returns itself if the hedge [learns](super::Learns) from how its queries end.
    #[inline(always)]
    fn learns(&mut self) -> Option<&mut dyn AnyLearns> {
        None
    }
}

/// If the query may have a second copy, sets its timer to expire after this delay.
pub(super) fn set_timer_after(core: &mut Core, query: QueryId, delay_ns: u64) {
    if core.may_duplicate(query) {
        core.set_timer_of_live(query, core.now().after(delay_ns));
    }
}
