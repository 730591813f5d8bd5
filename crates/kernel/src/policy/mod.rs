//! A policy is *gate × pick × hedge*: how many copies a server may hold, which server takes a copy,
//! and when a query gets further copies. [`registry`] lists the picks and hedges that there are.

mod build;
mod names;
mod registry;

pub use build::Driver;
pub use names::{Args, PolicyError};
pub use registry::{AnyPick, HedgeSpec, PickSpec};

use core::fmt;

use crate::action::Role;
use crate::config::{Limits, Topology};
use crate::hedge::{Hedge, Learner, Slotless, Version};
use crate::rate::RateSpec;
use crate::stage::Priority;

/// How many copies a server may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// [`Limits::max_outstanding`]: push.
    Outstanding,
    /// As many as the server has slots: pull, queries wait in the cell.
    Slots,
    /// This many, at least the server's slots: pull, with some queries waiting at the server (JBSQ).
    Bound(u32),
}

/// A policy that a person can name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    gate: Gate,
    rate: Option<RateSpec>,
    pick: PickSpec,
    hedge: Option<HedgeSpec>,
}

/// What a name says of a hedge, implemented beside the hedge.
pub trait Named: Copy + fmt::Debug + PartialEq {
    /// The hedge.
    type Hedge: Hedge + Clone + Send + 'static;

    /// Every form of its name, for help and error texts: N, D and Q stand for numbers, delays, and
    /// fractions, brackets for what may be left out. All forms begin with the same name.
    const FORMS: &'static [&'static str];

    /// The pick of the bare name: that of its source.
    const PICK: PickSpec = PickSpec::Random;

    /// The gate of the bare name.
    const GATE: Gate = Gate::Outstanding;

    /// What keeps it from real servers: a clause that goes on from its name.
    const SIMULATOR_ONLY: Option<&'static str> = None;

    /// Are its duplicates of low priority at the servers ([`crate::stage::Priority`])?
    const LOW_PRIORITY: bool = false;

    /// Reads what follows the name.
    ///
    /// # Errors
    /// Says which argument is wrong, or that there is no such form.
    fn parse(args: &Args<'_>) -> Result<Self, PolicyError>;

    /// Writes the name with its arguments.
    ///
    /// # Errors
    /// Those of the formatter.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::FORMS[0])
    }

    /// A hedge for a cell.
    fn hedge(&self, topology: &Topology, limits: &Limits) -> Self::Hedge;

    /// What a service learns with, if it does.
    fn learner(&self, _limits: &Limits) -> Option<Learner> {
        None
    }

    /// Does it order servers to stop copies?
    fn needs_cancellation(&self) -> bool {
        false
    }

    /// The delay after which a query without a response may get a further copy, in nanoseconds.
    fn delay_ns(&self) -> Option<u64> {
        None
    }
}

impl Policy {
    /// `random`
    pub const RANDOM: Self = Self::balance(PickSpec::Random);
    /// `round-robin`
    pub const ROUND_ROBIN: Self = Self::balance(PickSpec::RoundRobin);
    /// `least-outstanding` (JSQ)
    pub const LEAST_OUTSTANDING: Self = Self::balance(PickSpec::LeastOutstanding);
    /// `two-choices`
    pub const TWO_CHOICES: Self = Self::balance(PickSpec::TwoChoices);
    /// `peak-ewma`
    pub const PEAK_EWMA: Self = Self::balance(PickSpec::PeakEwma);
    /// `c3`: ranked by feedback, without rates; `c3+cubic` has those of its source.
    pub const C3: Self = Self::balance(PickSpec::C3);
    /// `c3:literal`: the same ranking, with rates by Algorithm 2 as it is written.
    pub const C3_LITERAL: Self = Self { rate: Some(RateSpec::Literal), ..Self::C3 };
    /// `psq`: per-shard queuing.
    pub const PSQ: Self = Self { gate: Gate::Slots, ..Self::LEAST_OUTSTANDING };

    /// `rescue`
    pub const RESCUE: Self = Self { hedge: Some(HedgeSpec::Rescue(Version::Cleanup)), ..Self::PSQ };

    /// `rescue+least-outstanding`: behind a push gate, for servers whose slots are unknown.
    pub const RESCUE_WITHOUT_SLOTS: Self =
        Self { hedge: Some(HedgeSpec::Slotless(Slotless::CLEANUP)), ..Self::LEAST_OUTSTANDING };

    /// Plain load balancing by push.
    #[must_use]
    pub const fn balance(pick: PickSpec) -> Self {
        Self { gate: Gate::Outstanding, rate: None, pick, hedge: None }
    }

    /// `bounded:N` (JBSQ): a server holds at most N.
    #[must_use]
    pub const fn bounded(n: u32) -> Self {
        Self { gate: Gate::Bound(n), ..Self::LEAST_OUTSTANDING }
    }

    /// A hedge with the gate and the pick of its bare name.
    #[must_use]
    pub const fn hedged(hedge: HedgeSpec) -> Self {
        Self { gate: hedge.gate(), hedge: Some(hedge), ..Self::balance(hedge.pick()) }
    }

    /// The same behind a bound: a server holds at most N, and the least loaded takes a copy.
    #[must_use]
    pub const fn over_bounded(self, n: u32) -> Self {
        Self { gate: Gate::Bound(n), hedge: self.hedge, ..Self::LEAST_OUTSTANDING }
    }

    /// How many copies a server may hold.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        self.gate
    }

    /// How the rates adapt at which it sends to servers; none: they are not limited.
    #[must_use]
    pub const fn rate(&self) -> Option<RateSpec> {
        self.rate
    }

    /// Does it listen to what servers say of themselves ([`crate::Event::Feedback`])?
    #[must_use]
    pub const fn reads_feedback(&self) -> bool {
        self.pick.reads_feedback()
    }

    /// Which server takes a copy.
    #[must_use]
    pub const fn pick(&self) -> PickSpec {
        self.pick
    }

    /// When a query gets further copies; none for plain load balancing.
    #[must_use]
    pub const fn hedge(&self) -> Option<HedgeSpec> {
        self.hedge
    }

    /// Does it send second copies? Else it only balances.
    #[must_use]
    pub const fn hedges(&self) -> bool {
        self.hedge.is_some()
    }

    /// Does the hedge budget limit its duplicates? Not those of the baselines `naive` and `clone`.
    #[must_use]
    pub fn is_budgeted(&self) -> bool {
        self.hedge.is_none_or(|hedge| hedge.is_budgeted())
    }

    /// The priority of its copies at a stage, which a driver says to their servers.
    #[must_use]
    pub fn priority(&self, role: Role) -> Priority {
        let is_low = role == Role::Duplicate && self.has_priorities();
        if is_low { Priority::Low } else { Priority::High }
    }

    /// Are its duplicates of low priority? Then its servers have to run a stage ([`crate::stage`]).
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        self.hedge.is_some_and(|hedge| hedge.has_priorities())
    }

    /// Does it order servers to stop copies?
    #[must_use]
    pub fn needs_cancellation(&self) -> bool {
        self.hedge.is_some_and(|hedge| hedge.needs_cancellation())
    }

    /// Does it let queries wait in the cell until a server has a free slot? Then it must know the
    /// servers' slots.
    #[must_use]
    pub fn pulls(&self) -> bool {
        self.gate != Gate::Outstanding
    }

    /// How many queries it lets a server hold, where its name says that: at least its slots.
    #[must_use]
    pub const fn bound(&self) -> Option<u32> {
        match self.gate {
            Gate::Bound(n) => Some(n),
            Gate::Slots | Gate::Outstanding => None,
        }
    }

    /// Which version of `rescue` it asks for ([`Version::fit`] says which it gets), if it is one at all.
    #[must_use]
    pub const fn rescues(&self) -> Option<Version> {
        match self.hedge {
            Some(HedgeSpec::Rescue(version)) => Some(version),
            Some(HedgeSpec::Slotless(slotless)) => Some(slotless.version()),
            _ => None,
        }
    }

    /// What a service with this policy learns with, if it does.
    #[must_use]
    pub fn learner(&self, limits: &Limits) -> Option<Learner> {
        self.hedge?.learner(limits)
    }

    /// The delay after which a query without a response may get a further copy, in nanoseconds, where
    /// the policy has one.
    #[must_use]
    pub fn delay_ns(&self) -> Option<u64> {
        self.hedge?.delay_ns()
    }

    /// What keeps it from real servers, where only the simulator can run it: a clause that goes on
    /// from its name.
    #[must_use]
    pub fn simulator_only(&self) -> Option<&'static str> {
        self.hedge?.simulator_only()
    }
}
