//! Builds the cells of a policy: their gates, their pick and their hedge.
//!
//! The combinations that simulations and proxies use most are compiled together with the loop of a
//! [`Driver`]. Any other combination is a boxed cell with a boxed pick and a boxed hedge, which costs
//! a call per event and per hook.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::ops::DerefMut;

use super::Policy;
use crate::Rng;
use crate::balance::{Checked, LEAST_OUTSTANDING, LeastOutstanding, NewPick, PICKS};
use crate::cell::{Cell, Inline, Parts, Scheduler};
use crate::config::{ConfigError, Gate, Limits, Site, Topology};
use crate::descriptor::{Compiled, Needs, Part};
use crate::hedge::{Hedge, LAEDGE, Laedge, NoHedge, RESCUE, Rescue};
use crate::rate::{NewRate, Rates};

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
        let Self { gate, rate, pick, hedge } = *self;
        let site = Site { topology, limits: &limits, gate };
        let maker = Maker { site, gates: &gates, pick, rate, needs: self.needs(), driver };
        let has_pair = rate.is_none() && pick.is(&LEAST_OUTSTANDING);
        let Some(hedge) = hedge else {
            let none = || Inline(NoHedge);
            return if has_pair { maker.drive(none) } else { maker.drive_boxed(none) };
        };
        let Part { of, arguments } = hedge;
        if has_pair && hedge.is(&LAEDGE) {
            maker.drive(|| Inline(Laedge::named(&arguments, site)))
        } else if has_pair && hedge.is(&RESCUE) {
            maker.drive(|| Inline(Rescue::named(&arguments, site)))
        } else {
            let new = || (of.builds.hedge)(&arguments, site);
            self.check_learner(&mut *new(), &limits)?;
            maker.drive_boxed(new)
        }
    }

    /// Checks that the service gets the learner with which the hedge exchanges records.
    fn check_learner(&self, hedge: &mut dyn Hedge, limits: &Limits) -> Result<(), ConfigError> {
        let needed = hedge.learns().map(|learns| learns.learner());
        let learner = self.learner(limits);
        if needed == learner.as_ref().map(|learner| learner.as_any().type_id()) {
            return Ok(());
        }
        Err(ConfigError(format!(
            "policy {self}: its descriptor creates {}, which is not the learner of its hedge; set \
             NewHedge::learner to create Learns::Learner",
            if learner.is_some() { "a learner" } else { "no learner" }
        )))
    }
}

struct Maker<'a, D> {
    site: Site<'a>,
    gates: &'a [u32],
    pick: Part<NewPick>,
    rate: Option<Part<NewRate>>,
    needs: Needs,
    driver: D,
}

impl<D: Driver> Maker<'_, D> {
    /// Drives cells that are compiled for `least-outstanding` and a hedge.
    fn drive<H>(self, hedge: impl Fn() -> Inline<H>) -> Result<D::Output, ConfigError>
    where
        H: Hedge<LeastOutstanding> + Compiled + 'static,
    {
        let Self { site, gates, needs, driver, .. } = self;
        let cell = |rng| {
            let parts = Parts { pick: Inline(LeastOutstanding), hedge: hedge(), needs };
            Cell::new(site.topology, gates, *site.limits, parts, rng)
        };
        cell(crate::rng(0))?;
        Ok(driver.drive(|rng| cell(rng).expect("one was made of the same")))
    }

    /// Drives boxed cells with any pick.
    fn drive_boxed<H>(self, hedge: impl Fn() -> H) -> Result<D::Output, ConfigError>
    where
        H: DerefMut<Target: Hedge + Compiled> + Send + 'static,
    {
        let Self { site, gates, pick, rate, needs, driver } = self;
        let Site { topology, limits, .. } = site;
        let cell = |rng| {
            let ours = PICKS.iter().any(|of| pick.is(of));
            let pick = (pick.of.builds)(&pick.arguments, site);
            let pick = if ours { pick } else { Box::new(Checked(pick)) };
            let parts = Parts { pick, hedge: hedge(), needs };
            let cell = Cell::new(topology, gates, *limits, parts, rng);
            let rates = |how| Rates::new(how, limits.tuning, topology.servers.len());
            cell.map(|cell| cell.with_rates(rate.map(rates)))
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
