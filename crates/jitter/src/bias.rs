//! Estimates the difference between the minimum of k service times and their infimum.
//!
//! Sorted, the k times of a query determine the mean minimum over all subsets of m times exactly:
//! the i-th smallest time (counted from 0) is the minimum in a fraction C(k-1-i, m-1)/C(k, m) of
//! the subsets. These means show how far the minimum drops when m grows from k/4 to k/2, and from
//! k/2 to k. If the minimum approaches its limit as a power of k, each drop is a constant share of
//! the previous one, and the remaining drops form a geometric series. This holds for distributions
//! that follow a power law near their infimum (exponential, gamma, Weibull, uniform). For other
//! distributions, such as the log-normal, this share grows each time k doubles. The estimate
//! therefore adds the most recent growth of the share to it once. This growth is measured from
//! subsets of k/8 or more times. A log-normal approaches its infimum only for astronomically large
//! k, so the estimate is about a third too low.
//!
//! Source: U-statistics (Hoeffding 1948), and Richardson extrapolation of a power law. Cost: O(n
//! log n).

use serde::Serialize;

use super::executions::{Executions, View};

/// Subset sizes are multiples of an eighth of k, so a query needs at least this many executions.
const PARTS: usize = 8;
/// The largest ratio of a drop to the previous one that is extrapolated. At this ratio, the
/// remaining drops add up to 19 times the last one.
const SLOWEST: f64 = 0.95;
/// The smallest ratio of a drop to the previous one that is extrapolated. At this ratio, the
/// remaining drops add up to about a twentieth of the last one.
const FASTEST: f64 = 0.05;

/// The remaining error by which P is overestimated and J underestimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bias {
    /// The mean over the queries, in nanoseconds, 0 or more.
    pub ns: f64,
    /// The standard error of the mean over the queries, in nanoseconds. It equals `ns` for a single
    /// query.
    pub standard_error_ns: f64,
    /// The bias as a share of the mean P. A mean P below 1 ns counts as 1 ns.
    pub share: f64,
    /// The power of k with which the bias declines: 1 for an exponential body.
    pub power: f64,
}

impl Bias {
    /// Whether the bias plus two standard errors is at most this share of the mean P.
    pub fn is_within(&self, tolerance: f64) -> bool {
        self.ns == 0.0 || self.share * (1.0 + 2.0 * self.standard_error_ns / self.ns) <= tolerance
    }
}

impl View<'_> {
    /// Estimates the remaining bias of P. `None` if no query was executed at least 8 times.
    pub fn bias(&self) -> Option<Bias> {
        let mut drops: Vec<[f64; 3]> = Vec::new();
        let mut p_ns = 0.0;
        let mut rest = 0.0;
        for times in self.times_by_query() {
            // Each subset size is twice the previous one. The largest subsets omit at most seven of
            // the times.
            let whole = times.len() / PARTS * PARTS;
            let Some(&least) = times.first().filter(|_| whole > 0) else {
                continue;
            };
            let excess = [8, 4, 2, 1].map(|part| mean_excess(&times, whole / part));
            drops.push([excess[0] - excess[1], excess[1] - excess[2], excess[2] - excess[3]]);
            rest += whole as f64 / times.len() as f64;
            p_ns += least as f64;
        }
        if drops.is_empty() {
            return None;
        }
        let count = drops.len() as f64;
        let mean = |at: usize| drops.iter().map(|drop| drop[at]).sum::<f64>() / count;
        let [early, late, last] = [mean(0), mean(1), mean(2)];
        let ratio = |later: f64, earlier: f64| if earlier > 0.0 { later / earlier } else { 0.5 };
        let growth = (ratio(last, late) - ratio(late, early)).max(0.0);
        let declines = (ratio(last, late) + growth).clamp(FASTEST, SLOWEST);
        let power = -declines.log2();
        let series = declines / (1.0 - declines) * (rest / count).powf(power);
        let variance = drops.iter().map(|drop| (drop[2] - last).powi(2)).sum::<f64>();
        let standard_error = match drops.len() {
            1 => last,
            _ => (variance / (count - 1.0) / count).sqrt(),
        };
        Some(Bias {
            ns: last * series,
            standard_error_ns: standard_error * series,
            share: last * series / (p_ns / count).max(1.0),
            power,
        })
    }

    /// Returns the sorted service times of each query.
    fn times_by_query(self) -> Vec<Vec<u64>> {
        let mut times = vec![Vec::new(); self.numbers()];
        for (number, query) in self.queries() {
            if let Some(of) = times.get_mut(number) {
                of.reserve_exact(query.executions as usize);
            }
        }
        for execution in self.iter() {
            if let Some(of) = times.get_mut(execution.query) {
                of.push(execution.service_ns);
            }
        }
        for of in &mut times {
            of.sort_unstable();
        }
        times
    }
}

/// Returns the mean difference between a subset's minimum and the overall minimum, over all subsets
/// of `size` of the sorted times.
fn mean_excess(sorted: &[u64], size: usize) -> f64 {
    let Some(&least) = sorted.first() else {
        return 0.0;
    };
    let count = sorted.len();
    let mut weight = size as f64 / count as f64;
    let mut excess = 0.0;
    for (rank, &time) in sorted.iter().enumerate().take(count - size + 1) {
        excess += weight * (time - least) as f64;
        if rank + 1 < count {
            weight *= (count - size - rank) as f64 / (count - 1 - rank) as f64;
        }
    }
    excess
}

/// The rule that determines how often each query is executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetitions {
    /// The minimum number of executions per query.
    pub least: u32,
    /// The maximum number of executions per query, even if P has not converged by then.
    pub most: u32,
    /// The acceptable bias of P, as a share of its mean.
    pub tolerance: f64,
}

/// Whether more executions are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Each query must be executed more often.
    NotYet,
    /// The bias of P is within the tolerance.
    Converged,
    /// Each query was executed `most` times, but the bias of P is not within the tolerance.
    AtMost,
}

impl Repetitions {
    /// Decides whether a view contains enough executions.
    pub fn stop(&self, executions: &Executions) -> Stop {
        let is_known = |bias: Bias| bias.is_within(self.tolerance);
        match executions.repetitions() {
            done if done < self.least => Stop::NotYet,
            _ if executions.all().bias().is_some_and(is_known) => Stop::Converged,
            done if done < self.most => Stop::NotYet,
            _ => Stop::AtMost,
        }
    }
}
