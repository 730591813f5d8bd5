//! From a policy to its cells: its gates, its pick and its hedge.
//!
//! Policies are dispatched statically: who drives cells in a loop that counts instructions is a
//! [`Driver`], compiled once for each combination of a pick and a hedge. Others take a boxed cell.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::Policy;
use crate::Rng;
use crate::balance::{LeastOutstanding, Pick, Random, RoundRobin, TwoChoices};
use crate::cell::{Cell, Scheduler};
use crate::config::{ConfigError, Limits, Topology};
use crate::hedge::{
    AppTimeout, Cancellation, Cloning, Delayed, Hedge, Laedge, MostRecent, Naive, NoHedge, Oracle,
    Probabilistic, Rescue, Tied,
};

/// Who drives cells of whatever policy, each with code of its own.
pub trait Driver {
    /// What comes of it.
    type Output;

    /// Drives cells. `cell` makes them, each from a generator.
    fn drive<S: Scheduler + 'static>(self, cell: impl FnMut(Rng) -> S) -> Self::Output;
}

impl Policy {
    /// The gate of each server: how many copies it may hold.
    fn gates(&self, topology: &Topology, limits: &Limits) -> Result<Vec<u32>, ConfigError> {
        let slots = topology.servers.iter().map(|server| server.slots);
        match self.bound() {
            Some(n) => {
                let most = slots.max().unwrap_or(1);
                if n < most {
                    let least = match self {
                        Self::LaedgeBounded(_) => Self::LaedgeBounded(most),
                        Self::RescueBounded(_) => Self::RescueBounded(most),
                        _ => Self::Bounded(most),
                    };
                    return Err(ConfigError(format!(
                        "policy {self} holds fewer queries at a server than its {most} slots; use at least {least}"
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
        self.drive(topology, limits, Boxed(rng))
    }

    /// Lets somebody drive cells of this policy.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn drive<D: Driver>(
        &self,
        topology: &Topology,
        limits: Limits,
        driver: D,
    ) -> Result<D::Output, ConfigError> {
        if self.needs_cancellation() && !limits.cancel {
            return Err(ConfigError(format!(
                "policy {self} stops queries, but the servers cannot (cancel = \"none\"); set cancel = \"reset\" if they stop when a connection closes, or use a policy without cancellation"
            )));
        }
        let gates = self.gates(topology, &limits)?;
        let groups = topology.groups.len();
        let jsq = LeastOutstanding;
        let maker = Maker { topology, gates: &gates, limits, driver };
        match *self {
            Self::Random => maker.drive(Random, NoHedge),
            Self::RoundRobin => maker.drive(RoundRobin::new(groups), NoHedge),
            Self::TwoChoices => maker.drive(TwoChoices, NoHedge),
            Self::LeastOutstanding | Self::Bounded(_) | Self::PerShardQueue => {
                maker.drive(jsq, NoHedge)
            }
            Self::Naive => maker.drive(Random, Naive),
            Self::Clone => maker.drive(Random, Cloning),
            Self::Delayed { delay_ns, cleanup } => {
                maker.drive(Random, Delayed { delay_ns, cleanup })
            }
            Self::Probabilistic { delay_ns, probability } => {
                maker.drive(Random, Probabilistic { delay_ns, probability })
            }
            Self::ProbabilisticAuto { .. } => Err(ConfigError(format!(
                "policy {self} must be trained first; the simulator does that, from samples, and says which probabilistic:D:Q to use"
            ))),
            Self::Tied => maker.drive(Random, Tied),
            Self::AppTimeout { delay_ns } => maker.drive(Random, AppTimeout { delay_ns }),
            Self::Laedge(cancellation) => {
                maker.drive(jsq, Laedge::new(groups, cancellation, MostRecent))
            }
            Self::LaedgeBounded(_) => {
                maker.drive(jsq, Laedge::new(groups, Cancellation::Plain, MostRecent))
            }
            Self::Rescue(_) | Self::RescueBounded(_) => {
                let servers = topology.servers.len();
                let version = self.rescues().expect("both do").fit(&limits);
                let rescue = Rescue::new(servers, groups, version, limits.rescue_budget);
                maker.drive(jsq, rescue)
            }
            Self::Idealized => {
                maker.drive(jsq, Laedge::new(groups, Cancellation::Preemptive, Oracle))
            }
        }
    }
}

struct Maker<'a, D> {
    topology: &'a Topology,
    gates: &'a [u32],
    limits: Limits,
    driver: D,
}

impl<D: Driver> Maker<'_, D> {
    fn drive<P, H>(self, pick: P, hedge: H) -> Result<D::Output, ConfigError>
    where
        P: Pick + Clone + Send + 'static,
        H: Hedge + Clone + Send + 'static,
    {
        let Self { topology, gates, limits, driver } = self;
        let cell =
            move |rng| Cell::new(topology, gates, limits, (pick.clone(), hedge.clone()), rng);
        cell(crate::rng(0))?;
        Ok(driver.drive(|rng| cell(rng).expect("one was made of the same")))
    }
}

/// Makes one cell behind a box.
struct Boxed(Rng);

impl Driver for Boxed {
    type Output = Box<dyn Scheduler>;

    fn drive<S: Scheduler + 'static>(self, mut cell: impl FnMut(Rng) -> S) -> Self::Output {
        Box::new(cell(self.0))
    }
}
