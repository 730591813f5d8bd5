//! The policies, and the cells that they make.

mod names;

pub use names::PolicyError;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use crate::Rng;
use crate::balance::{LeastOutstanding, Pick, Random, RoundRobin, TwoChoices};
use crate::cell::{Cell, Scheduler};
use crate::config::{ConfigError, Limits, Topology};
use crate::hedge::{
    AppTimeout, Cancellation, Cloning, Delayed, Hedge, Laedge, MostRecent, Naive, NoHedge, Oracle,
    Probabilistic, Tied,
};

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
    /// `idealized`: needs forecasts, so the simulator only.
    Idealized,
}

impl Policy {
    /// Does it order servers to stop copies?
    #[must_use]
    pub fn needs_cancellation(&self) -> bool {
        match self {
            Self::Delayed { cleanup, .. } => *cleanup,
            Self::Laedge(cancellation) => *cancellation != Cancellation::Plain,
            Self::Tied | Self::AppTimeout { .. } | Self::Idealized => true,
            _ => false,
        }
    }

    /// Does it let queries wait in the cell until a server has a free slot? Then it must know the
    /// servers' slots, and be the only one that sends to them.
    #[must_use]
    pub fn pulls(&self) -> bool {
        use Policy::{Bounded, Idealized, Laedge, LaedgeBounded, PerShardQueue};
        matches!(self, PerShardQueue | Bounded(_) | Laedge(_) | LaedgeBounded(_) | Idealized)
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

    /// The gate of each server: how many copies it may hold.
    fn gates(&self, topology: &Topology, limits: &Limits) -> Result<Vec<u32>, ConfigError> {
        let slots = topology.servers.iter().map(|server| server.slots);
        match *self {
            Self::Bounded(n) | Self::LaedgeBounded(n) => {
                let most = slots.max().unwrap_or(1);
                if n < most {
                    return Err(ConfigError(format!(
                        "policy {self} holds fewer queries at a server than its {most} slots; use at least bounded:{most}"
                    )));
                }
                Ok(topology.servers.iter().map(|_| n).collect())
            }
            _ if self.pulls() => Ok(slots.collect()),
            _ => Ok(slots.map(|_| limits.max_outstanding).collect()),
        }
    }

    /// Makes a cell.
    ///
    /// # Errors
    /// An impossible topology or limit, a bound below the servers' slots, a policy that needs
    /// cancellation where the limits say that servers cannot stop, or one that must be trained first.
    pub fn build(
        &self,
        topology: &Topology,
        limits: Limits,
        rng: Rng,
    ) -> Result<Box<dyn Scheduler>, ConfigError> {
        if self.needs_cancellation() && !limits.cancel {
            return Err(ConfigError(format!(
                "policy {self} stops queries, but the servers cannot (cancel = \"none\"); set cancel = \"reset\" if they stop when a connection closes, or use a policy without cancellation"
            )));
        }
        let gates = self.gates(topology, &limits)?;
        let groups = topology.groups.len();
        let jsq = LeastOutstanding;
        let maker = Maker { topology, gates: &gates, limits, rng };
        match *self {
            Self::Random => maker.cell(Random, NoHedge),
            Self::RoundRobin => maker.cell(RoundRobin::new(groups), NoHedge),
            Self::TwoChoices => maker.cell(TwoChoices, NoHedge),
            Self::LeastOutstanding | Self::Bounded(_) | Self::PerShardQueue => {
                maker.cell(jsq, NoHedge)
            }
            Self::Naive => maker.cell(Random, Naive),
            Self::Clone => maker.cell(Random, Cloning),
            Self::Delayed { delay_ns, cleanup } => {
                maker.cell(Random, Delayed { delay_ns, cleanup })
            }
            Self::Probabilistic { delay_ns, probability } => {
                maker.cell(Random, Probabilistic { delay_ns, probability })
            }
            Self::ProbabilisticAuto { .. } => Err(ConfigError(format!(
                "policy {self} must be trained first; the simulator does that, from samples, and says which probabilistic:D:Q to use"
            ))),
            Self::Tied => maker.cell(Random, Tied),
            Self::AppTimeout { delay_ns } => maker.cell(Random, AppTimeout { delay_ns }),
            Self::Laedge(cancellation) => {
                maker.cell(jsq, Laedge::new(groups, cancellation, MostRecent))
            }
            Self::LaedgeBounded(_) => {
                maker.cell(jsq, Laedge::new(groups, Cancellation::Plain, MostRecent))
            }
            Self::Idealized => {
                maker.cell(jsq, Laedge::new(groups, Cancellation::Preemptive, Oracle))
            }
        }
    }
}

struct Maker<'a> {
    topology: &'a Topology,
    gates: &'a [u32],
    limits: Limits,
    rng: Rng,
}

impl Maker<'_> {
    fn cell<P, H>(self, pick: P, hedge: H) -> Result<Box<dyn Scheduler>, ConfigError>
    where
        P: Pick + Send + 'static,
        H: Hedge + Send + 'static,
    {
        let parts = (pick, hedge);
        Ok(Box::new(Cell::new(self.topology, self.gates, self.limits, parts, self.rng)?))
    }
}
