//! The policies, and the cells that they make.

mod build;
mod names;

pub use build::Driver;
pub use names::PolicyError;

use crate::config::Limits;
use crate::hedge::{Cancellation, Learner, Version};

/// A policy that a person can name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// `random`
    Random,
    /// `round-robin`
    RoundRobin,
    /// `least-outstanding` (JSQ)
    LeastOutstanding,
    /// `two-choices`
    TwoChoices,
    /// `bounded:N` (JBSQ): a server holds at most N.
    Bounded(u32),
    /// `psq`: per-shard queuing.
    PerShardQueue,
    /// `naive`
    Naive,
    /// `clone`
    Clone,
    /// `delayed:D[:cc]`
    Delayed {
        /// In nanoseconds.
        delay_ns: u64,
        /// With cleanup cancellation.
        cleanup: bool,
    },
    /// `probabilistic:D:Q`
    Probabilistic {
        /// In nanoseconds.
        delay_ns: u64,
        /// From 0 to 1.
        probability: f64,
    },
    /// `probabilistic:auto[:BUDGET]`: a `probabilistic:D:Q` whose D and Q are yet to be trained.
    ProbabilisticAuto {
        /// The share of queries that may get a second copy, 0 to 1; none where that is trained, too.
        budget: Option<f64>,
    },
    /// `tied`: needs to hear when copies begin, so the simulator only.
    Tied,
    /// `app-timeout:D`
    AppTimeout {
        /// In nanoseconds.
        delay_ns: u64,
    },
    /// `laedge`, `laedge:cc`, `laedge:cc+pc`
    Laedge(Cancellation),
    /// `laedge+bounded:N`: plain LÆDGE over JBSQ.
    LaedgeBounded(u32),
    /// `rescue`, which does without cancellation where there is none; `rescue:preempt`,
    /// `rescue:no-cancel`
    Rescue(Version),
    /// `rescue+bounded:N`: `rescue` over JBSQ, so that a server has its next query at once.
    RescueBounded(u32),
    /// `idealized`: needs forecasts, so the simulator only.
    Idealized,
}

impl Policy {
    /// Does it send second copies? Else it only balances.
    #[must_use]
    pub fn hedges(&self) -> bool {
        use Policy::{Bounded, LeastOutstanding, PerShardQueue, Random, RoundRobin, TwoChoices};
        !matches!(
            self,
            Random | RoundRobin | LeastOutstanding | TwoChoices | Bounded(_) | PerShardQueue
        )
    }

    /// Does the hedge budget limit its duplicates? Not those of the baselines.
    #[must_use]
    pub fn is_budgeted(&self) -> bool {
        !matches!(self, Self::Naive | Self::Clone)
    }

    /// Does it order servers to stop copies?
    #[must_use]
    pub fn needs_cancellation(&self) -> bool {
        match self {
            Self::Delayed { cleanup, .. } => *cleanup,
            Self::Laedge(cancellation) => *cancellation != Cancellation::Plain,
            Self::Rescue(version) => *version == Version::Preempt,
            Self::Tied | Self::AppTimeout { .. } | Self::Idealized => true,
            _ => false,
        }
    }

    /// Does it let queries wait in the cell until a server has a free slot? Then it must know the
    /// servers' slots, and be the only one that sends to them.
    #[must_use]
    pub fn pulls(&self) -> bool {
        use Policy::{Idealized, Laedge, PerShardQueue, Rescue};
        matches!(self, PerShardQueue | Laedge(_) | Idealized | Rescue(_)) || self.bound().is_some()
    }

    /// How many queries it lets a server hold, where its name says that: at least its slots.
    #[must_use]
    pub fn bound(&self) -> Option<u32> {
        match *self {
            Self::Bounded(n) | Self::LaedgeBounded(n) | Self::RescueBounded(n) => Some(n),
            _ => None,
        }
    }

    /// Which version of `rescue` it asks for ([`Version::fit`] says which it gets), if it is one at all.
    #[must_use]
    pub fn rescues(&self) -> Option<Version> {
        match *self {
            Self::Rescue(version) => Some(version),
            Self::RescueBounded(_) => Some(Version::Cleanup),
            _ => None,
        }
    }

    /// What a service with this policy learns with, where it does.
    #[must_use]
    pub fn learner(&self, limits: &Limits) -> Option<Learner> {
        let version = self.rescues()?.fit(limits);
        Some(Learner::new(version, limits.rescue_budget))
    }

    /// The delay after which a query without an answer may get a further copy, in nanoseconds, where
    /// the policy has one.
    #[must_use]
    pub fn delay_ns(&self) -> Option<u64> {
        match *self {
            Self::Delayed { delay_ns, .. }
            | Self::Probabilistic { delay_ns, .. }
            | Self::AppTimeout { delay_ns } => Some(delay_ns),
            _ => None,
        }
    }

    /// What keeps it from real servers, where only the simulator can run it: a clause that goes on
    /// from its name.
    #[must_use]
    pub fn simulator_only(&self) -> Option<&'static str> {
        match self {
            Self::Idealized => Some("needs to know the future, which only the simulator does"),
            Self::Tied => Some(
                "needs servers that tell when they begin with a query, which only the simulator's do",
            ),
            Self::ProbabilisticAuto { .. } => {
                Some("must be trained first, which only the simulator does")
            }
            _ => None,
        }
    }
}
