//! The data of Figures 6.1 and 6.2 of document 000: the complementary distributions of P, J and
//! their sum on logarithmic axes, and a plot of the jitter of executions against their queries,
//! which are ordered by P.
//!
//! A dot for each execution would be too many, so the second figure shows a uniform random sample
//! without replacement. A seed determines the sample. Source: selection sampling, Knuth, "The Art
//! of Computer Programming" 3.4.2, algorithm S. Cost: O(n log n) to sort.

use curtail_dist::seed;
use rand_distr::{Distribution as _, StandardUniform};

use super::executions::View;

/// A complementary distribution function: pairs of a time in nanoseconds, in ascending order, and
/// the share of samples that are at least as long (above 0, at most 1).
pub type Curve = Vec<(u64, f64)>;

/// The three curves. The shares of their points are evenly spaced on a logarithmic axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Ccdf {
    /// The distribution of P over the queries.
    pub p: Curve,
    /// The distribution of J over the executions.
    pub j: Curve,
    /// The distribution of the service time, P + J, over the executions.
    pub service: Curve,
}

/// The line and the dots of Figure 6.2. The rank of a query is its position in ascending order of
/// P, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Queries as pairs of rank and P in nanoseconds. If there are more queries than requested, the
    /// selected ones are evenly spaced by rank.
    pub queries: Vec<(usize, u64)>,
    /// Executions in execution order, as pairs of their query's rank and J in nanoseconds.
    pub executions: Vec<(usize, u64)>,
}

impl View<'_> {
    /// Returns the curves, with at most `points` points each. Each curve includes the longest time,
    /// and also the shortest time if `points` is 2 or more.
    pub fn ccdf(&self, points: usize) -> Ccdf {
        Ccdf {
            p: curve(self.queries().map(|(_, query)| query.p_ns).collect(), points),
            j: curve(self.iter().map(|execution| execution.jitter_ns()).collect(), points),
            service: curve(self.iter().map(|execution| execution.service_ns).collect(), points),
        }
    }

    /// Returns at most `points` queries and at most `points` executions. The same seed always
    /// selects the same executions.
    pub fn ranked(&self, points: usize, seed: u64) -> Ranked {
        let mut order: Vec<_> = self.queries().map(|(query, of)| (of.p_ns, query)).collect();
        order.sort_unstable();
        let mut ranks = vec![0; self.numbers()];
        for (rank, &(_, query)) in order.iter().enumerate() {
            ranks[query] = rank;
        }
        let line = points.min(order.len());
        // The selection includes the first and the last query.
        let shown = (0..line).map(|at| at * (order.len() - 1) / line.saturating_sub(1).max(1));
        let queries = shown.map(|rank| (rank, order[rank].0)).collect();
        let class = self.class().unwrap_or_default();
        let mut rng = seed::rng(seed::stream(seed, &[b"jitter", b"ranked", class.as_bytes()]));
        let mut left = self.iter().count();
        let mut wanted = points.min(left);
        let mut executions = Vec::with_capacity(wanted);
        for execution in self.iter() {
            let draw: f64 = StandardUniform.sample(&mut rng);
            if draw * (left as f64) < wanted as f64 {
                executions.push((ranks[execution.query], execution.jitter_ns()));
                wanted -= 1;
            }
            left -= 1;
        }
        Ranked { queries, executions }
    }
}

fn curve(mut times: Vec<u64>, points: usize) -> Curve {
    times.sort_unstable();
    let count = times.len();
    // The first point is the longest time, which has the smallest share. A curve never has more
    // points than there are samples.
    let points = points.min(count);
    let steps = points.saturating_sub(1).max(1) as f64;
    let rank = |point: usize| (count as f64).powf(point as f64 / steps).round() as usize;
    let mut curve: Curve = (0..points)
        .map(|point| {
            let ns = times[count - rank(point)];
            // Equal times form one point, which counts all of them.
            let first = times.partition_point(|&other| other < ns);
            (ns, (count - first) as f64 / count as f64)
        })
        .collect();
    curve.dedup();
    curve.reverse();
    curve
}
