//! A policy is *gate × rate × pick × hedge*: how many copies a server may hold, how fast copies are
//! sent to it, which server takes a copy, and when a query gets further copies. [`PICKS`],
//! [`HEDGES`] and [`RATES`] list the parts, and a [`Catalog`] adds those of one's own.
//!
//! [`PICKS`]: crate::balance::PICKS
//! [`HEDGES`]: crate::hedge::HEDGES
//! [`RATES`]: crate::rate::RATES

mod build;
mod catalog;
mod names;
mod settings;

pub use build::Driver;
pub use catalog::Catalog;
pub use names::PolicyError;
pub use settings::{Misfit, Settings};

use crate::action::Role;
use crate::balance::{self, NewPick};
use crate::config::{Gate, Limits};
use crate::descriptor::{Arguments, Descriptor, Needs, Part};
use crate::hedge::{AnyLearner, NewHedge, PROBABILISTIC, RESCUE, Version};
use crate::rate::{self, NewRate};
use crate::stage::Priority;

/// A policy that has a name. [`Self::parse`] and `str::parse` know the names of our parts, and
/// [`Catalog::parse`] also those of one's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    gate: Gate,
    rate: Option<Part<NewRate>>,
    pick: Part<NewPick>,
    hedge: Option<Part<NewHedge>>,
}

impl Policy {
    /// `random`
    pub const RANDOM: Self = Self::balance(&balance::RANDOM);
    /// `round-robin`
    pub const ROUND_ROBIN: Self = Self::balance(&balance::ROUND_ROBIN);
    /// `least-outstanding` (JSQ)
    pub const LEAST_OUTSTANDING: Self = Self::balance(&balance::LEAST_OUTSTANDING);
    /// `two-choices`
    pub const TWO_CHOICES: Self = Self::balance(&balance::TWO_CHOICES);
    /// `peak-ewma`
    pub const PEAK_EWMA: Self = Self::balance(&balance::PEAK_EWMA);
    /// `c3`: ranked by feedback, without rate limits. `c3+cubic` uses the rate limits of the paper
    /// that describes C3.
    pub const C3: Self = Self::balance(&balance::C3);
    /// `c3:literal`: the same ranking, with the rates of Algorithm 2 exactly as it is written.
    pub const C3_LITERAL: Self =
        Self { rate: Some(rate::LITERAL.with(Arguments::NONE)), ..Self::C3 };
    /// `psq`: per-shard queuing.
    pub const PSQ: Self = Self { gate: Gate::Slots, ..Self::LEAST_OUTSTANDING };

    /// `rescue`
    pub const RESCUE: Self = Self::rescue(Version::Cleanup);

    /// `rescue+least-outstanding`: behind a push gate, for servers whose slots are unknown.
    pub const RESCUE_WITHOUT_SLOTS: Self = Self { gate: Gate::Outstanding, ..Self::RESCUE };

    /// `probabilistic:D:Q`: after a delay, a second copy with a probability, from 0 to 1.
    #[must_use]
    pub const fn probabilistic(delay_ns: u64, probability: f64) -> Self {
        Self::hedged(PROBABILISTIC.with(Arguments {
            delay_ns: Some(delay_ns),
            fraction: Some(probability),
            ..Arguments::NONE
        }))
    }

    /// A version of `rescue`.
    #[must_use]
    pub const fn rescue(version: Version) -> Self {
        Self::hedged(RESCUE.with(Arguments::form(version as usize)))
    }

    /// Plain load balancing behind a push gate.
    #[must_use]
    pub const fn balance(pick: &'static Descriptor<NewPick>) -> Self {
        let pick = pick.with(Arguments::NONE);
        Self { gate: Gate::Outstanding, rate: None, pick, hedge: None }
    }

    /// `bounded:N` (JBSQ): a server holds at most N copies.
    #[must_use]
    pub const fn bounded(n: u32) -> Self {
        Self { gate: Gate::Bound(n), ..Self::LEAST_OUTSTANDING }
    }

    /// A hedge with its default gate and pick.
    #[must_use]
    pub const fn hedged(hedge: Part<NewHedge>) -> Self {
        let NewHedge { gate, pick, .. } = hedge.of.builds;
        Self { gate, hedge: Some(hedge), ..Self::balance(pick) }
    }

    /// The same policy with another pick.
    #[must_use]
    pub const fn over_pick(self, pick: &'static Descriptor<NewPick>) -> Self {
        Self { pick: pick.with(Arguments::NONE), ..self }
    }

    /// The same hedge behind a bound: a server holds at most N copies, and each copy goes to the
    /// least loaded server.
    #[must_use]
    pub const fn over_bounded(self, n: u32) -> Self {
        Self { hedge: self.hedge, ..Self::bounded(n) }
    }

    /// What the policy needs of its driver and of its servers.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let gate = Needs { slots: self.gate != Gate::Outstanding, ..Needs::NOTHING };
        let needs = gate.and(self.pick.needs());
        let needs = self.rate.map_or(needs, |rate| needs.and(rate.needs()));
        self.hedge.map_or(needs, |hedge| needs.and(hedge.needs()))
    }

    /// The number of copies that a server may hold.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        self.gate
    }

    /// How the sending rates adapt. `None` if they are not limited.
    #[must_use]
    pub const fn rate(&self) -> Option<Part<NewRate>> {
        self.rate
    }

    /// The pick: which server takes a copy.
    #[must_use]
    pub const fn pick(&self) -> Part<NewPick> {
        self.pick
    }

    /// The hedge: when a query gets further copies. `None` for plain load balancing.
    #[must_use]
    pub const fn hedge(&self) -> Option<Part<NewHedge>> {
        self.hedge
    }

    /// Whether the policy has this hedge, whatever its arguments.
    #[must_use]
    pub fn has(&self, hedge: &Descriptor<NewHedge>) -> bool {
        self.hedge.is_some_and(|part| part.is(hedge))
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
        self.hedge.is_none_or(|hedge| hedge.needs().budget)
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
        self.needs().priority
    }

    /// Whether the policy stops copies on servers.
    #[must_use]
    pub fn needs_cancellation(&self) -> bool {
        self.needs().cancellation
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
    pub fn rescues(&self) -> Option<Version> {
        let rescue = self.hedge.filter(|hedge| hedge.is(&RESCUE))?;
        Some(Version::ALL[rescue.arguments.form])
    }

    /// The learner of a service with this policy, if it needs one.
    #[must_use]
    pub fn learner(&self, limits: &Limits) -> Option<AnyLearner> {
        let Part { of, arguments } = self.hedge?;
        (of.builds.learner)(&arguments, limits, self.gate)
    }

    /// The delay after which a query without a response may get a further copy, in ns, if the
    /// policy has one.
    #[must_use]
    pub fn delay_ns(&self) -> Option<u64> {
        self.hedge?.arguments.delay_ns
    }

    /// Whether the service learns the delay after which a query may get a further copy.
    #[must_use]
    pub fn learns_delay(&self) -> bool {
        self.hedge.is_some_and(|hedge| hedge.arguments.percentile.is_some())
    }

    /// Why the policy cannot run on real servers: text that follows its name in a message. It is
    /// `None` if the policy can run on them.
    #[must_use]
    pub fn simulator_only(&self) -> Option<&'static str> {
        self.hedge?.of.builds.simulator_only
    }
}

impl From<Version> for Policy {
    fn from(version: Version) -> Self {
        Self::rescue(version)
    }
}
