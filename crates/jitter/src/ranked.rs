//! Figure 6.2 of document 000: the jitter of executions over their queries, which are in order of
//! P.
//!
//! All executions would be too many dots, so there is a uniform random sample of them, without
//! replacement, that a seed decides.
//!
//! Source: selection sampling, Knuth, "The Art of Computer Programming" 3.4.2, algorithm S. Cost:
//! O(n + q log q) for n executions of q queries.

use curtail_dist::seed;
use rand_distr::{Distribution as _, StandardUniform};
use serde::Serialize;

use super::executions::View;

/// A query in order of P.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankedQuery {
    /// Its place: 0 has the least P.
    pub rank: usize,
    /// Its number, as it was declared.
    pub query: usize,
    /// Its P, in nanoseconds.
    pub p_ns: u64,
}

/// An execution over its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankedExecution {
    /// The place of its query.
    pub rank: usize,
    /// Its J, in nanoseconds.
    pub j_ns: u64,
}

/// The line and the dots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ranked {
    /// Queries, in order; evenly spread over the ranks if there are more than were asked for.
    pub queries: Vec<RankedQuery>,
    /// Executions, in the order in which they ran.
    pub executions: Vec<RankedExecution>,
}

impl View<'_> {
    /// At most `points` queries and as many executions. The same seed gives the same ones.
    #[must_use]
    pub fn ranked(&self, points: usize, seed: u64) -> Ranked {
        let mut order: Vec<(u64, usize)> =
            self.queries().map(|(query, of)| (of.p_ns, query)).collect();
        order.sort_unstable();
        let mut ranks = vec![0; self.numbers()];
        for (rank, &(_, query)) in order.iter().enumerate() {
            if let Some(place) = ranks.get_mut(query) {
                *place = rank;
            }
        }
        let line = points.min(order.len());
        let queries = (0..line).filter_map(|point| {
            // With the first and the last.
            let rank = point * (order.len() - 1) / line.saturating_sub(1).max(1);
            order.get(rank).map(|&(p_ns, query)| RankedQuery { rank, query, p_ns })
        });
        Ranked { queries: queries.collect(), executions: self.sampled(&ranks, points, seed) }
    }

    fn sampled(self, ranks: &[usize], points: usize, seed: u64) -> Vec<RankedExecution> {
        let class = self.class().unwrap_or_default();
        let mut rng = seed::rng(seed::stream(seed, &[b"jitter", b"ranked", class.as_bytes()]));
        let mut left = self.iter().count();
        let mut wanted = points.min(left);
        let mut sample = Vec::with_capacity(wanted);
        for execution in self.iter() {
            let draw: f64 = StandardUniform.sample(&mut rng);
            if draw * (left as f64) < wanted as f64 {
                let rank = ranks.get(execution.query).copied().unwrap_or_default();
                sample.push(RankedExecution { rank, j_ns: execution.jitter_ns() });
                wanted -= 1;
            }
            left -= 1;
        }
        sample
    }
}
