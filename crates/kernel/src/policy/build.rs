//! Builds the cells of a policy: their gates, their pick and their hedge.
//!
//! The combinations that simulations and proxies use most are compiled together with the loop of a
//! [`Driver`]. Any other combination is a boxed cell, which costs a call per event.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::{Gate, HedgeSpec, Named as _, PickSpec, Policy};
use crate::Rng;
use crate::balance::{LeastOutstanding, Pick};
use crate::cell::{Cell, Scheduler};
use crate::config::{ConfigError, Limits, Topology};
use crate::hedge::{Hedge, NoHedge};
use crate::rate::{RateSpec, Rates};

/// A driver that can drive the cells of any policy.
pub trait Driver {
    /// The result of driving the cells.
    type Output;

    /// Drives cells. `cell` creates each cell from a random number generator.
    fn drive<S: Scheduler + 'static>(self, cell: impl FnMut(Rng) -> S) -> Self::Output;

    /// Like [`Self::drive`], but with cells that are already boxed.
    fn drive_boxed(self, cell: impl FnMut(Rng) -> Box<dyn Scheduler>) -> Self::Output
    where
        Self: Sized,
    {
        self.drive(cell)
    }
}

impl Policy {
    fn gates(&self, topology: &Topology, limits: &Limits) -> Result<Vec<u32>, ConfigError> {
        let slots = topology.servers.iter().map(|server| server.slots);
        match self.gate {
            Gate::Bound(n) => {
                let most = slots.max().unwrap_or(1);
                if n < most {
                    let least = Self { gate: Gate::Bound(most), ..*self };
                    return Err(ConfigError(format!(
                        "policy {self} holds fewer queries at a server than its {most} slots; use at least {least}"
                    )));
                }
                Ok(topology.servers.iter().map(|_| n).collect())
            }
            Gate::Slots => Ok(slots.collect()),
            Gate::Outstanding => Ok(slots.map(|_| limits.max_outstanding).collect()),
        }
    }

    /// Creates a cell.
    ///
    /// # Errors
    /// The topology or a limit is impossible, a bound is below a server's number of slots, or the
    /// policy needs cancellation but the limits say that servers cannot stop copies.
    pub fn build(
        &self,
        topology: &Topology,
        limits: Limits,
        rng: Rng,
    ) -> Result<Box<dyn Scheduler>, ConfigError> {
        self.drive(topology, limits, Boxed(rng))
    }

    /// Creates cells of this policy and passes them to a driver.
    ///
    /// # Errors
    /// See [`Self::build`].
    pub fn drive<D: Driver>(
        &self,
        topology: &Topology,
        limits: Limits,
        driver: D,
    ) -> Result<D::Output, ConfigError> {
        if self.needs_cancellation() && !limits.cancel {
            return Err(ConfigError(format!(
                "policy {self} cancels copies, but the servers cannot stop them (cancel = \
                 \"none\"); set cancel = \"reset\" if they stop when a connection closes, or use \
                 a policy without cancellation"
            )));
        }
        if self.has_priorities() && self.pulls() {
            return Err(ConfigError(format!(
                "policy {self}: duplicates of low priority wait at their servers, where primaries \
                 overtake them; behind a gate of slots or a bound they would block primaries. \
                 Remove {}",
                self.gate
            )));
        }
        let gates = self.gates(topology, &limits)?;
        let Self { pick, rate, .. } = *self;
        let maker = Maker { topology, gates: &gates, pick, rate, limits, driver };
        match (self.pick, self.hedge) {
            (_, hedge) if rate.is_some() => match hedge {
                Some(hedge) => hedge.drive(maker),
                None => maker.drive_boxed(NoHedge),
            },
            (PickSpec::LeastOutstanding, None) => maker.drive(LeastOutstanding, NoHedge),
            (PickSpec::LeastOutstanding, Some(HedgeSpec::Laedge(cancellation))) => {
                maker.drive(LeastOutstanding, cancellation.hedge(topology, &limits))
            }
            (PickSpec::LeastOutstanding, Some(HedgeSpec::Rescue(version))) => {
                maker.drive(LeastOutstanding, version.hedge(topology, &limits))
            }
            (PickSpec::LeastOutstanding, Some(HedgeSpec::Slotless(slotless))) => {
                maker.drive(LeastOutstanding, slotless.hedge(topology, &limits))
            }
            (_, None) => maker.drive_boxed(NoHedge),
            (_, Some(hedge)) => hedge.drive(maker),
        }
    }
}

impl Policy {
    /// Creates cells behind this policy's gate, but with another hedge, and passes them to a
    /// driver. This is for reference hedges that use more information than a policy may have.
    ///
    /// # Errors
    /// See [`Self::build`].
    pub fn drive_with<D: Driver>(
        &self,
        hedge: impl Hedge + Clone + Send + 'static,
        topology: &Topology,
        limits: Limits,
        driver: D,
    ) -> Result<D::Output, ConfigError> {
        let gates = self.gates(topology, &limits)?;
        let Self { pick, rate, .. } = *self;
        Maker { topology, gates: &gates, pick, rate, limits, driver }.drive_boxed(hedge)
    }
}

pub(super) struct Maker<'a, D> {
    pub(super) topology: &'a Topology,
    gates: &'a [u32],
    pick: PickSpec,
    rate: Option<RateSpec>,
    pub(super) limits: Limits,
    driver: D,
}

impl<D: Driver> Maker<'_, D> {
    fn drive<P, H>(self, pick: P, hedge: H) -> Result<D::Output, ConfigError>
    where
        P: Pick + Clone + Send + 'static,
        H: Hedge + Clone + Send + 'static,
    {
        let Self { topology, gates, limits, driver, .. } = self;
        let cell =
            move |rng| Cell::new(topology, gates, limits, (pick.clone(), hedge.clone()), rng);
        cell(crate::rng(0))?;
        Ok(driver.drive(|rng| cell(rng).expect("one was made of the same")))
    }

    pub(super) fn drive_boxed<H>(self, hedge: H) -> Result<D::Output, ConfigError>
    where
        H: Hedge + Clone + Send + 'static,
    {
        let Self { topology, gates, pick, rate, limits, driver } = self;
        let pick = pick.pick(topology, &limits);
        let rates = rate.map(|spec| Rates::new(spec, limits.tuning, topology.servers.len()));
        let cell = move |rng| {
            let cell = Cell::new(topology, gates, limits, (pick.clone(), hedge.clone()), rng);
            cell.map(|cell| cell.with_rates(rates.clone()))
        };
        cell(crate::rng(0))?;
        let boxed =
            |rng| -> Box<dyn Scheduler> { Box::new(cell(rng).expect("one was made of the same")) };
        Ok(driver.drive_boxed(boxed))
    }
}

struct Boxed(Rng);

impl Driver for Boxed {
    type Output = Box<dyn Scheduler>;

    fn drive<S: Scheduler + 'static>(self, mut cell: impl FnMut(Rng) -> S) -> Self::Output {
        Box::new(cell(self.0))
    }

    fn drive_boxed(self, mut cell: impl FnMut(Rng) -> Box<dyn Scheduler>) -> Self::Output {
        cell(self.0)
    }
}
