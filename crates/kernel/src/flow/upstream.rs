//! The callers of a process, and the part of its rates that each of them gets.
//!
//! Source: document 002 §5.2.4: "in proportion to the demand arriving from the parent". The demand
//! of a caller is the rate at which it *wants* to send, before its own limits apply. It claims this
//! rate with its calls and polls. The arrival rate would be wrong: it is the rate that the caller's
//! limit let through, so a caller with a small part would always keep a small part. The part of the
//! rate that no caller wants is divided evenly, so that every caller may send more immediately.
//!
//! Deviation: the source trusts claims. Here a claim counts only up to a bound: twice the arrivals
//! from that caller, times the *squeeze* of the workflow. The squeeze is the lowest ratio of claims
//! to arrivals among the callers of the workflow, but at least 1. Honest callers that are limited
//! by the same bottleneck have about the same ratio, so their claims count in full. A caller that
//! claims 1,000 requests per second but sends only 2 can reserve no more than a caller that sends
//! 4. Requests beyond a caller's part do not count, so a caller that ignores its limit gets no
//!    larger part. Callers choose their own ids, so nothing here is granted per caller: traffic
//!    that is split over many ids reserves no more.
//!
//! Cost: O(callers) per interval and workflow, O(1) per call and claim.

use alloc::vec::Vec;

use super::meter::{Meter, Weight};
use super::{CallerId, Config};
use crate::time::Timestamp;

/// The factor by which a caller may reserve more than it sends, so that its rate can grow in each
/// interval.
const GROWTH: f64 = 2.0;

#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// The rate that the caller claims to want, in requests per second.
    claim: f64,
    /// The part of the claim that counts, as of the last interval.
    wanted: f64,
    claimed_at: Timestamp,
    /// Requests that arrived. The slow meter is for callers with few requests.
    fast: Meter,
    slow: Meter,
}

/// The total demand of the callers of a workflow.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Requests per second.
    wanted: f64,
    /// Number of recent callers.
    callers: u32,
}

impl Sum {
    /// Returns the part of a rate that a caller gets if it wants `wanted`.
    fn part(&self, wanted: f64, rate: f64) -> f64 {
        if !rate.is_finite() {
            return rate;
        }
        let callers = f64::from(self.callers.max(1));
        if self.wanted <= 0.0 {
            return rate / callers;
        }
        wanted / self.wanted * rate.min(self.wanted) + (rate - self.wanted).max(0.0) / callers
    }
}

/// The callers of a process.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    /// The demands, by caller and workflow.
    demands: Vec<Vec<Demand>>,
    /// By workflow.
    sums: Vec<Sum>,
    /// The lowest ratio of claims to arrivals for each workflow, but at least 1.
    squeezes: Vec<f64>,
    fast: Weight,
    slow: Weight,
    /// The rate that a caller may always send, in requests per second.
    least_rate: f64,
}

impl Callers {
    pub(super) fn new(workflows: usize, config: &Config) -> Self {
        Self {
            demands: Vec::new(),
            sums: alloc::vec![Sum::default(); workflows],
            squeezes: alloc::vec![1.0; workflows],
            fast: Weight::new(config.decay, config.interval_ns),
            slow: Weight::new(config.slow_decay, config.interval_ns),
            least_rate: config.least_rate,
        }
    }

    fn demand(&mut self, caller: CallerId, workflow: usize) -> Option<&mut Demand> {
        let at = caller.0 as usize;
        if at >= self.demands.len() {
            self.demands.resize(at + 1, Vec::new());
        }
        let of = &mut self.demands[at];
        if of.is_empty() {
            of.resize(self.sums.len(), Demand::default());
        }
        of.get_mut(workflow)
    }

    /// Records a request from a caller.
    pub(super) fn arrived(&mut self, caller: CallerId, workflow: usize) {
        if let Some(demand) = self.demand(caller, workflow) {
            demand.fast.add(1.0);
            demand.slow.add(1.0);
        }
    }

    /// Records a caller's claim for a workflow, in requests per second. It takes effect in the next
    /// interval, but the first claim of a caller takes effect immediately.
    pub(super) fn wanted(&mut self, now: Timestamp, caller: CallerId, workflow: usize, rate: f64) {
        let claim = if rate.is_finite() { rate.clamp(0.0, 1e12) } else { 0.0 };
        let Some(demand) = self.demand(caller, workflow) else { return };
        let is_new = demand.claimed_at == Timestamp(0);
        (demand.claim, demand.claimed_at) = (claim, now.max(Timestamp(1)));
        if is_new {
            let arrived = demand.fast.present();
            let bound = GROWTH * self.squeezes[workflow] * self.fast.rate_with(arrived);
            let wanted = claim.min(bound);
            self.sums[workflow].wanted += wanted;
            self.sums[workflow].callers += 1;
            if let Some(demand) = self.demand(caller, workflow) {
                demand.wanted = wanted;
            }
        }
    }

    /// Forgets a caller, because its id now belongs to another process.
    pub(super) fn forget(&mut self, caller: CallerId) {
        if let Some(of) = self.demands.get_mut(caller.0 as usize) {
            of.clear();
        }
    }

    /// Ends an interval, and adds up the demand. `rates` are the announced rates of the workflows.
    /// A caller is forgotten `forget_ns` after its last claim.
    pub(super) fn tick(&mut self, now: Timestamp, rates: &[f64], forget_ns: u64) {
        self.fast.roll();
        self.slow.roll();
        self.squeezes.fill(f64::INFINITY);
        for demands in &mut self.demands {
            for (at, demand) in demands.iter_mut().enumerate() {
                if demand.claimed_at == Timestamp(0) || now.since(demand.claimed_at) > forget_ns {
                    *demand = Demand::default();
                    continue;
                }
                demand.fast.roll(self.fast.decay);
                demand.slow.roll(self.slow.decay);
                let arrived = self.fast.rate(&demand.fast).max(self.slow.rate(&demand.slow));
                let part = self.sums[at].part(demand.wanted, rates[at]);
                // For now, store the bound. The claim replaces it when the squeeze is known.
                demand.wanted = arrived.min(part.max(self.least_rate));
                if demand.wanted > 0.0 {
                    self.squeezes[at] = self.squeezes[at].min(demand.claim / demand.wanted);
                }
            }
        }
        self.sums.fill(Sum::default());
        for squeeze in self.squeezes.iter_mut() {
            *squeeze = if squeeze.is_finite() { squeeze.max(1.0) } else { 1.0 };
        }
        for demands in &mut self.demands {
            let of = demands.iter_mut().zip(&mut self.sums).zip(&self.squeezes);
            for ((demand, sum), squeeze) in of.filter(|((of, _), _)| of.claimed_at > Timestamp(0)) {
                demand.wanted = demand.claim.min(GROWTH * squeeze * demand.wanted);
                sum.wanted += demand.wanted;
                sum.callers += 1;
            }
        }
    }

    /// Whether any caller has claimed a rate for a workflow.
    pub(super) fn are_known(&self, workflow: usize) -> bool {
        self.sums[workflow].callers > 0
    }

    /// Returns the total demand of a workflow, in requests per second.
    pub(super) fn wants(&self, workflow: usize) -> f64 {
        self.sums[workflow].wanted
    }

    /// Returns a caller's part of a rate.
    pub(super) fn part(&self, caller: CallerId, workflow: usize, rate: f64) -> f64 {
        let Some(sum) = self.sums.get(workflow) else { return rate };
        let demand = self.demands.get(caller.0 as usize).and_then(|of| of.get(workflow));
        sum.part(demand.map_or(0.0, |demand| demand.wanted), rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: usize = 0;

    fn callers() -> Callers {
        Callers::new(1, &Config::DEFAULT)
    }

    /// Simulates intervals in which callers send and claim. Returns their parts of the rate.
    fn parts<const N: usize>(
        callers: &mut Callers,
        rate: f64,
        of: impl Fn(CallerId, f64) -> (f64, f64),
    ) -> [f64; N] {
        let ids = core::array::from_fn::<_, N, _>(|at| CallerId(at as u32));
        for interval in 1..=100 {
            let now = Timestamp(interval * Config::DEFAULT.interval_ns);
            for id in ids {
                let (sends, claims) = of(id, callers.part(id, W, rate));
                if let Some(demand) = callers.demand(id, W) {
                    demand.fast.add(sends / 10.0);
                    demand.slow.add(sends / 10.0);
                }
                callers.wanted(now, id, W, claims);
            }
            callers.tick(now, &[rate], 1_000_000_000);
        }
        ids.map(|id| callers.part(id, W, rate))
    }

    fn near(is: f64, expected: f64) {
        assert!((is - expected).abs() < 1e-3 * expected.max(1.0), "{is}, not {expected}");
    }

    #[test]
    fn rates_are_divided_by_demand_and_the_rest_evenly() {
        // Both callers are limited to half of their demand, and each sends exactly its part.
        let honest = |id: CallerId, part: f64| {
            let wants = [30.0, 10.0][id.0 as usize];
            (part.clamp(1.0, wants), wants)
        };
        let mut callers = callers();
        let [a, b] = parts(&mut callers, 20.0, honest);
        near(a, 15.0);
        near(b, 5.0);
        let [a, b] = parts(&mut callers, 60.0, honest);
        near(a, 40.0);
        near(b, 20.0);
        assert_eq!(callers.part(CallerId(1), W, f64::INFINITY), f64::INFINITY);
        callers.wanted(Timestamp(1), CallerId(1), 7, 10.0);
    }

    #[test]
    fn a_caller_that_got_little_gets_its_part() {
        let (first, second) = (CallerId(0), CallerId(1));
        let mut callers = callers();
        // The second caller starts at the lowest rate, while the first one has the whole rate.
        let [_, _] = parts(&mut callers, 20.0, |id, part| match id {
            _ if id == first => (part.min(40.0), 40.0),
            _ => (0.0, 0.0),
        });
        let [a, b] = parts(&mut callers, 20.0, |_, part| (part.clamp(1.0, 40.0), 40.0));
        near(a, 10.0);
        near(b, 10.0);
        callers.forget(second);
        near(callers.part(second, W, 20.0), 0.0);
    }

    #[test]
    fn a_caller_that_ignores_its_part_gets_no_more() {
        let [a, b] = parts(&mut callers(), 20.0, |id, part| match id.0 {
            0 => (part.clamp(1.0, 100.0), 100.0),
            _ => (100.0, 100.0),
        });
        near(a, 10.0);
        near(b, 10.0);
    }

    #[test]
    fn a_claim_counts_up_to_twice_the_arrivals_however_many_ids_it_uses() {
        // One caller wants 40 requests per second. Nine others claim 1,000 each, but send only 2
        // per second in total.
        let [honest, liars @ ..]: [f64; 10] = parts(&mut callers(), 20.0, |id, part| match id.0 {
            0 => (part.clamp(1.0, 40.0), 40.0),
            _ => (2.0 / 9.0, 1_000.0),
        });
        near(honest, 16.0);
        near(liars.iter().sum(), 4.0);
    }

    #[test]
    fn callers_are_forgotten_and_invalid_claims_do_not_count() {
        let mut callers = callers();
        for (id, rate) in [(0, 30.0), (1, f64::NAN)] {
            callers.arrived(CallerId(id), W);
            callers.wanted(Timestamp(5), CallerId(id), W, rate);
        }
        assert_eq!(callers.part(CallerId(1), W, 10.0), 0.0);
        callers.tick(Timestamp(100), &[10.0], 50);
        assert!(!callers.are_known(W));
    }
}
