//! Finds the delay and the probability of a second copy that minimize a percentile of response
//! times in a log, within a budget of second copies.
//!
//! Source: Kaler, He, Elnikety (SPAA 2017), for the best SingleR policy with correlated copies. For
//! a delay d, the budget B allows the probability q = min(1, B / Pr(X > d)), and the percentile is
//! the least t with Pr(X ≤ t) + q·Pr(X > t, Y ≤ t − d) ≥ k. A query's copies share its service
//! time, so X and Y are not independent. If they were treated as independent, it would seem that a
//! second copy can avoid a slow query as well as a hiccup.
//!
//! Choices: only queries that had a second copy provide samples of Y, and there are few such
//! queries. Each of the other queries uses the Y of the query with the nearest X. All counts are
//! therefore over whole queries, so the share is a distribution function of t, and bisection finds
//! t. Between two response times only t − d changes, so only the response times and 0 are
//! candidates for the delay.
//!
//! Deviation: the source moves d and t past each other over all samples. Here the candidate delays
//! are sparser in the bulk, where Pr(X > d) differs little from one to the next (by at most
//! 1/[`FINENESS`]). The highest 2 · [`FINENESS`] samples are all candidates, so the search there is
//! exact. Cost: O(n log n), and O(samples above t) per candidate.

use super::log::Sample;
use super::setting::Setting;

/// The number of candidate delays over which the share of queries above the delay falls by a factor
/// of e.
const FINENESS: usize = 64;

/// Rounding must not lose a sample.
const ROUNDING: f64 = 1e-9;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Optimum {
    pub(super) delay_ns: u64,
    /// The percentile, on the assumption that the policy does not change the copies' response
    /// times.
    pub(super) percentile_ns: u64,
}

/// Both response times of each query, sorted by the first.
#[derive(Debug)]
pub(super) struct Joint {
    first_ns: Vec<u64>,
    second_ns: Vec<u64>,
}

impl Joint {
    pub(super) fn new(mut samples: Vec<Sample>) -> Self {
        samples.sort_unstable_by_key(|sample| (sample.first_ns, sample.second_ns));
        let first_ns: Vec<u64> = samples.iter().map(|sample| sample.first_ns).collect();
        let pairs: Vec<(u64, u64)> = samples
            .iter()
            .filter_map(|sample| sample.second_ns.map(|second| (sample.first_ns, second)))
            .collect();
        let mut next = 0;
        let second_of = |sample: &Sample| {
            if let Some(known) = sample.second_ns {
                return known;
            }
            let x = sample.first_ns;
            while pairs.get(next).is_some_and(|pair| pair.0 < x) {
                next += 1;
            }
            let before = next.checked_sub(1).map(|at| pairs[at]);
            let after = pairs.get(next).copied();
            let nearest = before.into_iter().chain(after).min_by_key(|pair| pair.0.abs_diff(x));
            // Without any sample of Y, a second copy never helps.
            nearest.map_or(u64::MAX, |pair| pair.1)
        };
        let second_ns = samples.iter().map(second_of).collect();
        Self { first_ns, second_ns }
    }

    fn count(&self) -> usize {
        self.first_ns.len()
    }

    fn above(&self, ns: u64) -> usize {
        self.count() - self.first_ns.partition_point(|&first| first <= ns)
    }

    pub(super) fn probability(&self, delay_ns: u64, budget: f64) -> f64 {
        let share = self.above(delay_ns) as f64 / self.count().max(1) as f64;
        if budget < share { budget / share } else { 1.0 }
    }

    /// Whether at least a share `k` of the queries gets a response within `ns`.
    fn reaches(&self, ns: u64, hedge: Setting, k: f64) -> bool {
        let Setting { delay_ns, probability, .. } = hedge;
        let done = self.count() - self.above(ns);
        let needed = k * self.count() as f64 - done as f64 - ROUNDING;
        // Most calls return before the second copies are examined.
        if needed <= 0.0 || ns < delay_ns {
            return needed <= 0.0;
        }
        if needed > probability * (self.count() - done) as f64 {
            return false;
        }
        let late = &self.second_ns[done..];
        let cured = late.iter().filter(|&&second| second <= ns - delay_ns).count();
        needed <= probability * cured as f64
    }

    /// Returns the best delay with this budget for the share `k` of queries, or `None` if no second
    /// copy helps.
    pub(super) fn optimum(&self, k: f64, budget: f64) -> Option<Optimum> {
        let mut best = Optimum { delay_ns: 0, percentile_ns: *self.first_ns.last()? };
        let alone = self.least(Setting::NONE, k, best.percentile_ns);
        best.percentile_ns = alone;
        // The longest delay comes first, so that among equally good delays, the one with the fewest
        // copies is kept.
        for delay_ns in self.delays() {
            let probability = self.probability(delay_ns, budget);
            let hedge = Setting { delay_ns, probability, budget };
            if best.percentile_ns > 0 && self.reaches(best.percentile_ns - 1, hedge, k) {
                let percentile_ns = self.least(hedge, k, best.percentile_ns - 1);
                best = Optimum { delay_ns, percentile_ns };
            }
        }
        (best.percentile_ns < alone).then_some(best)
    }

    /// Returns the least time within which a share `k` of the queries gets a response. `most` is an
    /// upper bound on this time.
    fn least(&self, hedge: Setting, k: f64, most: u64) -> u64 {
        let (mut from, mut to) = (0, most);
        while from < to {
            let middle = u64::midpoint(from, to);
            if self.reaches(middle, hedge, k) {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        to
    }

    fn delays(&self) -> impl Iterator<Item = u64> + '_ {
        let next = |&above: &usize| Some(above + 1 + above / (2 * FINENESS));
        let aboves = std::iter::successors(Some(1), next);
        let aboves = aboves.take_while(|&above| above < self.count());
        aboves.map(|above| self.first_ns[self.count() - 1 - above]).chain(std::iter::once(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_dist::seed;
    use rand_core::Rng as _;

    const K: f64 = 0.9;

    /// Creates a small log of whole numbers, which are the sum of a part that copies share and, for
    /// some copies, a hiccup.
    fn log(seed: u64, paired: u64) -> Vec<Sample> {
        let mut rng = seed::rng(seed);
        let mut below = |n: u64| rng.next_u64() % n;
        let mut samples = Vec::new();
        for _ in 0..60 {
            let own = below(20);
            let mut copy = || own + below(5) + if below(6) == 0 { 30 } else { 0 };
            let (first_ns, second) = (copy(), copy());
            let second_ns = (below(100) < paired).then_some(second);
            samples.push(Sample { first_ns, second_ns });
        }
        samples
    }

    /// Returns the share with a response by `t`, directly from the definition.
    fn share(joint: &Joint, t: u64, delay: u64, q: f64) -> f64 {
        let each = joint.first_ns.iter().zip(&joint.second_ns).map(|(&x, &y)| {
            let cured = y.checked_add(delay).is_some_and(|end| end <= t);
            if x <= t { 1.0 } else { q * f64::from(u8::from(cured)) }
        });
        each.sum::<f64>() / joint.count() as f64
    }

    #[test]
    fn no_delay_and_no_probability_within_the_budget_is_better() {
        let mut helped = 0;
        for seed in 0..60 {
            for (paired, budget) in [(100, 0.05), (100, 0.3), (30, 0.1), (100, 1.0), (0, 0.5)] {
                let joint = Joint::new(log(seed, paired));
                let alone = (0..=60).find(|&t| share(&joint, t, 0, 0.0) >= K - ROUNDING);
                let alone = alone.expect("a percentile");
                let found = joint.optimum(K, budget);
                helped += u32::from(found.is_some());
                let promised = found.map_or(alone, |found| found.percentile_ns);
                if let Some(Optimum { delay_ns, percentile_ns }) = found {
                    let q = joint.probability(delay_ns, budget);
                    let copies = q * joint.above(delay_ns) as f64 / joint.count() as f64;
                    assert!(copies <= budget + ROUNDING, "seed {seed}: {copies} of {budget}");
                    let is = share(&joint, percentile_ns, delay_ns, q);
                    assert!(is >= K - 1e-6, "seed {seed}: {is}");
                }
                for delay in 0..60 {
                    for q in (0..=50).map(|q| f64::from(q) / 50.0) {
                        let copies = q * joint.above(delay) as f64 / joint.count() as f64;
                        let allowed = copies <= budget + ROUNDING;
                        let better =
                            promised > 0 && share(&joint, promised - 1, delay, q) >= K + ROUNDING;
                        assert!(
                            !(allowed && better),
                            "seed {seed}, {paired}, {budget}: {delay} {q}"
                        );
                    }
                }
            }
        }
        assert!(helped > 100, "{helped}");
    }

    #[test]
    fn a_query_without_a_second_copy_borrows_from_the_nearest() {
        let sample = |first_ns, second_ns| Sample { first_ns, second_ns };
        let joint = Joint::new(vec![
            sample(30, None),
            sample(10, Some(1)),
            sample(14, None),
            sample(20, Some(2)),
            sample(18, None),
            sample(3, None),
        ]);
        assert_eq!(joint.second_ns, [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn rare_hiccups_are_hedged_after_the_bulk() {
        // One query in 100 takes 30, and the others take 0 to 9. A second copy takes 5.
        let samples = (0..10_000).map(|i| Sample {
            first_ns: if i % 100 == 0 { 30 } else { i % 10 },
            second_ns: Some(5),
        });
        let joint = Joint::new(samples.collect());
        let found = joint.optimum(0.995, 0.02).expect("it helps");
        assert_eq!((found.delay_ns, found.percentile_ns), (9, 14));
        assert_eq!(joint.probability(9, 0.02), 1.0);
    }
}
