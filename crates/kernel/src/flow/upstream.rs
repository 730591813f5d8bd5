//! The callers of a process, and which part of its rates each of them gets.
//!
//! Source: document 002 §5.2.4: "in proportion to the demand arriving from the parent". The demand is what a caller
//! *wants* to send, before its own limits, which it says with its calls and polls: what arrives is what its limit let
//! pass, and a caller that gets little would get little for ever. What no caller wants is spread evenly, so that each
//! of them may send more at once.
//!
//! Cost: O(callers) per interval and workflow, O(1) per announcement.

use alloc::vec::Vec;

use super::CallerId;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// Requests per second.
    wanted: f64,
    heard: Timestamp,
}

/// The callers.
#[derive(Clone, Debug, Default)]
pub(super) struct Callers {
    /// By caller, by workflow.
    demands: Vec<Vec<Demand>>,
    /// By workflow, of the callers of late: what they want together, and how many they are.
    sums: Vec<(f64, u32)>,
}

impl Callers {
    pub(super) fn new(workflows: usize) -> Self {
        Self { demands: Vec::new(), sums: alloc::vec![(0.0, 0); workflows] }
    }

    /// A caller wants to send so many requests per second of a workflow.
    pub(super) fn wanted(&mut self, now: Timestamp, caller: CallerId, workflow: usize, rate: f64) {
        let at = caller.0 as usize;
        if at >= self.demands.len() {
            self.demands.resize(at + 1, Vec::new());
        }
        let of = &mut self.demands[at];
        if of.is_empty() {
            of.resize(self.sums.len(), Demand::default());
        }
        let wanted = if rate.is_finite() { rate.clamp(0.0, 1e12) } else { 0.0 };
        if let Some(demand) = of.get_mut(workflow) {
            if demand.heard == Timestamp(0) {
                // It is one of them from now on, and not only from the next interval.
                self.sums[workflow].0 += wanted;
                self.sums[workflow].1 += 1;
            }
            *demand = Demand { wanted, heard: now.max(Timestamp(1)) };
        }
    }

    /// Adds up what callers want; those not heard of for so long are forgotten.
    pub(super) fn tick(&mut self, now: Timestamp, forget_ns: u64) {
        self.sums.fill((0.0, 0));
        for demands in &mut self.demands {
            for (demand, sum) in demands.iter_mut().zip(&mut self.sums) {
                if demand.heard == Timestamp(0) {
                    continue;
                }
                if now.since(demand.heard) > forget_ns {
                    *demand = Demand::default();
                } else {
                    sum.0 += demand.wanted;
                    sum.1 += 1;
                }
            }
        }
    }

    /// Does any caller say what it wants of a workflow?
    pub(super) fn are_known(&self, workflow: usize) -> bool {
        self.sums[workflow].1 > 0
    }

    /// What all callers want of a workflow, requests per second.
    pub(super) fn wants(&self, workflow: usize) -> f64 {
        self.sums[workflow].0
    }

    /// A caller's part of a rate.
    pub(super) fn part(&self, caller: CallerId, workflow: usize, rate: f64) -> f64 {
        let Some(&(sum, callers)) = self.sums.get(workflow) else { return rate };
        let demand = self.demands.get(caller.0 as usize).and_then(|of| of.get(workflow));
        let wanted = demand.map_or(0.0, |demand| demand.wanted);
        if !rate.is_finite() {
            return rate;
        }
        let callers = f64::from(callers.max(1));
        if sum <= 0.0 {
            return rate / callers;
        }
        wanted / sum * rate.min(sum) + (rate - sum).max(0.0) / callers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_divided_by_what_is_wanted_and_the_rest_evenly() {
        let mut callers = Callers::new(1);
        let (now, a, b) = (Timestamp(5), CallerId(0), CallerId(3));
        callers.wanted(now, a, 0, 30.0);
        callers.wanted(now, b, 0, 10.0);
        callers.wanted(now, b, 7, 10.0);
        assert_eq!((callers.part(a, 0, 20.0), callers.part(b, 0, 20.0)), (15.0, 5.0));
        callers.tick(now, 100);
        assert_eq!((callers.part(a, 0, 60.0), callers.part(b, 0, 60.0)), (40.0, 20.0));
        assert_eq!(callers.part(b, 0, f64::INFINITY), f64::INFINITY);
        callers.wanted(Timestamp(90), b, 0, f64::NAN);
        callers.tick(Timestamp(150), 100);
        assert_eq!(callers.part(b, 0, 60.0), 60.0, "the other is forgotten");
    }
}
