//! A policy is *gate × rate × pick × hedge*: how many copies a server may hold, how fast copies are
//! sent to it, which server takes a copy, and when a query gets further copies. [`registry`] lists
//! the picks and hedges.

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

/// The number of copies that a server may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// [`Limits::max_outstanding`]: push.
    Outstanding,
    /// As many copies as the server has slots (pull). Queries wait in the cell.
    Slots,
    /// This number of copies, which is at least the server's number of slots. This is a pull policy
    /// in which some queries wait at the server (JBSQ).
    Bound(u32),
}

/// A policy that has a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    gate: Gate,
    rate: Option<RateSpec>,
    pick: PickSpec,
    hedge: Option<HedgeSpec>,
}

/// The name and the arguments of a hedge. It is implemented next to the hedge.
pub trait Named: Copy + fmt::Debug + PartialEq {
    /// The hedge.
    type Hedge: Hedge + Clone + Send + 'static;

    /// Every form of the name, for help and error texts. N, D and Q stand for numbers, delays, and
    /// fractions. Brackets mark optional parts. All forms begin with the same name.
    const FORMS: &'static [&'static str];

    /// The pick that is used if the policy's name contains none. It is the one that the policy's
    /// source uses.
    const PICK: PickSpec = PickSpec::Random;

    /// The gate that is used if the policy's name contains none.
    const GATE: Gate = Gate::Outstanding;

    /// Why the policy cannot run on real servers: text that follows its name in a message. It is
    /// `None` if the policy can run on them.
    const SIMULATOR_ONLY: Option<&'static str> = None;

    /// Whether its duplicates have a low priority at the servers ([`crate::stage::Priority`]).
    const LOW_PRIORITY: bool = false;

    /// Parses the arguments after the name.
    ///
    /// # Errors
    /// An argument is wrong, or there is no such form.
    fn parse(args: &Args<'_>) -> Result<Self, PolicyError>;

    /// Writes the name with its arguments.
    ///
    /// # Errors
    /// The formatter failed.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::FORMS[0])
    }

    /// Creates the hedge of a cell.
    fn hedge(&self, topology: &Topology, limits: &Limits) -> Self::Hedge;

    /// The learner of a service, if the hedge needs one.
    fn learner(&self, _limits: &Limits) -> Option<Learner> {
        None
    }

    /// Whether the hedge stops copies on servers.
    fn needs_cancellation(&self) -> bool {
        false
    }

    /// The delay after which a query without a response may get a further copy, in ns.
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
    /// `c3`: ranked by feedback, without rate limits. `c3+cubic` uses the rate limits of the paper
    /// that describes C3.
    pub const C3: Self = Self::balance(PickSpec::C3);
    /// `c3:literal`: the same ranking, with the rates of Algorithm 2 exactly as it is written.
    pub const C3_LITERAL: Self = Self { rate: Some(RateSpec::Literal), ..Self::C3 };
    /// `psq`: per-shard queuing.
    pub const PSQ: Self = Self { gate: Gate::Slots, ..Self::LEAST_OUTSTANDING };

    /// `rescue`
    pub const RESCUE: Self = Self { hedge: Some(HedgeSpec::Rescue(Version::Cleanup)), ..Self::PSQ };

    /// `rescue+least-outstanding`: behind a push gate, for servers whose slots are unknown.
    pub const RESCUE_WITHOUT_SLOTS: Self =
        Self { hedge: Some(HedgeSpec::Slotless(Slotless::CLEANUP)), ..Self::LEAST_OUTSTANDING };

    /// Plain load balancing behind a push gate.
    #[must_use]
    pub const fn balance(pick: PickSpec) -> Self {
        Self { gate: Gate::Outstanding, rate: None, pick, hedge: None }
    }

    /// `bounded:N` (JBSQ): a server holds at most N copies.
    #[must_use]
    pub const fn bounded(n: u32) -> Self {
        Self { gate: Gate::Bound(n), ..Self::LEAST_OUTSTANDING }
    }

    /// A hedge with its default gate and pick.
    #[must_use]
    pub const fn hedged(hedge: HedgeSpec) -> Self {
        Self { gate: hedge.gate(), hedge: Some(hedge), ..Self::balance(hedge.pick()) }
    }

    /// The same hedge behind a bound: a server holds at most N copies, and each copy goes to the
    /// least loaded server.
    #[must_use]
    pub const fn over_bounded(self, n: u32) -> Self {
        Self { gate: Gate::Bound(n), hedge: self.hedge, ..Self::LEAST_OUTSTANDING }
    }

    /// The number of copies that a server may hold.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        self.gate
    }

    /// How the sending rates adapt. `None` if they are not limited.
    #[must_use]
    pub const fn rate(&self) -> Option<RateSpec> {
        self.rate
    }

    /// Whether the policy uses the feedback of servers ([`crate::Event::Feedback`]).
    #[must_use]
    pub const fn reads_feedback(&self) -> bool {
        self.pick.reads_feedback()
    }

    /// The pick: which server takes a copy.
    #[must_use]
    pub const fn pick(&self) -> PickSpec {
        self.pick
    }

    /// The hedge: when a query gets further copies. `None` for plain load balancing.
    #[must_use]
    pub const fn hedge(&self) -> Option<HedgeSpec> {
        self.hedge
    }

    /// Whether the policy sends second copies, rather than only balancing.
    #[must_use]
    pub const fn hedges(&self) -> bool {
        self.hedge.is_some()
    }

    /// Whether the hedge budget limits its duplicates. It is false for the baselines `naive` and
    /// `clone`, and for `das`.
    #[must_use]
    pub fn is_budgeted(&self) -> bool {
        self.hedge.is_none_or(|hedge| hedge.is_budgeted())
    }

    /// The priority of a copy at a stage, which a driver sends to the server.
    #[must_use]
    pub fn priority(&self, role: Role) -> Priority {
        let is_low = role == Role::Duplicate && self.has_priorities();
        if is_low { Priority::Low } else { Priority::High }
    }

    /// Whether its duplicates have a low priority. In that case, its servers must run a stage
    /// ([`crate::stage`]).
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        self.hedge.is_some_and(|hedge| hedge.has_priorities())
    }

    /// Whether the policy stops copies on servers.
    #[must_use]
    pub fn needs_cancellation(&self) -> bool {
        self.hedge.is_some_and(|hedge| hedge.needs_cancellation())
    }

    /// Whether queries wait in the cell until a server has a free slot. In that case, the number of
    /// slots of each server must be known.
    #[must_use]
    pub fn pulls(&self) -> bool {
        self.gate != Gate::Outstanding
    }

    /// The number of copies that a server may hold, if the name contains it. It is at least the
    /// server's number of slots.
    #[must_use]
    pub const fn bound(&self) -> Option<u32> {
        match self.gate {
            Gate::Bound(n) => Some(n),
            Gate::Slots | Gate::Outstanding => None,
        }
    }

    /// The version of `rescue` that the policy names, if any. [`Version::fit`] returns the version
    /// that is used.
    #[must_use]
    pub const fn rescues(&self) -> Option<Version> {
        match self.hedge {
            Some(HedgeSpec::Rescue(version)) => Some(version),
            Some(HedgeSpec::Slotless(slotless)) => Some(slotless.version()),
            _ => None,
        }
    }

    /// The learner of a service with this policy, if it needs one.
    #[must_use]
    pub fn learner(&self, limits: &Limits) -> Option<Learner> {
        self.hedge?.learner(limits)
    }

    /// The delay after which a query without a response may get a further copy, in ns, if the
    /// policy has one.
    #[must_use]
    pub fn delay_ns(&self) -> Option<u64> {
        self.hedge?.delay_ns()
    }

    /// Why the policy cannot run on real servers: text that follows its name in a message. It is
    /// `None` if the policy can run on them.
    #[must_use]
    pub fn simulator_only(&self) -> Option<&'static str> {
        self.hedge?.simulator_only()
    }
}
