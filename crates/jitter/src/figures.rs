//! What Figures 6.1 and 6.2 of document 000 show: how often P, J and their sum are so long or longer,
//! for logarithmic scales; and the jitter of executions over their queries, which are in order of P.
//!
//! All executions would be too many dots, so there is a uniform random sample of them, without
//! replacement, that a seed decides: selection sampling, Knuth, "The Art of Computer Programming"
//! 3.4.2, algorithm S. Cost: O(n log n) to sort.

use curtail_dist::seed;
use rand_distr::{Distribution as _, StandardUniform};

use super::executions::View;

/// A complementary distribution function: times in nanoseconds, ascending, and the shares of the
/// samples that are as long or longer, above 0, at most 1.
pub type Curve = Vec<(u64, f64)>;

/// The three curves, at shares that are evenly spread over a logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Ccdf {
    /// Of the queries: P.
    pub p: Curve,
    /// Of the executions: J.
    pub j: Curve,
    /// Of the executions: P + J, the service time.
    pub service: Curve,
}

/// The line and the dots. A query's rank is its place in the order of P: 0 has the least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Queries: their ranks, and P in nanoseconds. Evenly spread over the ranks if there are more than
    /// were asked for.
    pub queries: Vec<(usize, u64)>,
    /// Executions, in the order in which they ran: the ranks of their queries, and J in nanoseconds.
    pub executions: Vec<(usize, u64)>,
}

impl View<'_> {
    /// The curves, of at most `points` points each; always with the longest, and with the shortest
    /// if `points` is 2 or more.
    pub fn ccdf(&self, points: usize) -> Ccdf {
        Ccdf {
            p: curve(self.queries().map(|(_, query)| query.p_ns).collect(), points),
            j: curve(self.iter().map(|execution| execution.jitter_ns()).collect(), points),
            service: curve(self.iter().map(|execution| execution.service_ns).collect(), points),
        }
    }

    /// At most `points` queries and as many executions. The same seed gives the same ones.
    pub fn ranked(&self, points: usize, seed: u64) -> Ranked {
        let mut order: Vec<_> = self.queries().map(|(query, of)| (of.p_ns, query)).collect();
        order.sort_unstable();
        let mut ranks = vec![0; self.numbers()];
        for (rank, &(_, query)) in order.iter().enumerate() {
            ranks[query] = rank;
        }
        let line = points.min(order.len());
        // With the first and the last.
        let places = (0..line).map(|at| at * (order.len() - 1) / line.saturating_sub(1).max(1));
        let queries = places.map(|rank| (rank, order[rank].0)).collect();
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
    // From the longest, whose share is the smallest; never more points than there are samples.
    let points = points.min(count);
    let steps = points.saturating_sub(1).max(1) as f64;
    let rank = |point: usize| (count as f64).powf(point as f64 / steps).round() as usize;
    let mut curve: Curve = (0..points)
        .map(|point| {
            let ns = times[count - rank(point)];
            // Equal ones are one point, with all of them.
            let first = times.partition_point(|&other| other < ns);
            (ns, (count - first) as f64 / count as f64)
        })
        .collect();
    curve.dedup();
    curve.reverse();
    curve
}
