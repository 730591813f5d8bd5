//! Figure 6.1 of document 000: how often P, J and their sum are so long or longer, for logarithmic
//! scales. Cost: O(n log n) to sort, and as many points as asked for.

use serde::Serialize;

use super::executions::View;

/// A point of a complementary distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CcdfPoint {
    /// A time, in nanoseconds.
    pub ns: u64,
    /// The share of the samples that are as long or longer, above 0, at most 1.
    pub at_least: f64,
}

/// The three curves, each from the shortest to the longest, at shares that are evenly spread over a
/// logarithmic scale.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ccdf {
    /// Of the queries: P.
    pub p: Vec<CcdfPoint>,
    /// Of the executions: J.
    pub j: Vec<CcdfPoint>,
    /// Of the executions: P + J, the service time.
    pub service: Vec<CcdfPoint>,
}

impl View<'_> {
    /// The curves, of at most `points` points each; always with the longest, and with the shortest
    /// if `points` is 2 or more.
    #[must_use]
    pub fn ccdf(&self, points: usize) -> Ccdf {
        Ccdf {
            p: curve(self.queries().map(|(_, query)| query.p_ns).collect(), points),
            j: curve(self.iter().map(|execution| execution.jitter_ns()).collect(), points),
            service: curve(self.iter().map(|execution| execution.service_ns).collect(), points),
        }
    }
}

fn curve(mut times: Vec<u64>, points: usize) -> Vec<CcdfPoint> {
    times.sort_unstable();
    let count = times.len();
    let steps = points.saturating_sub(1).max(1) as f64;
    let mut curve: Vec<CcdfPoint> = Vec::new();
    // From the longest, whose share is the smallest; never more points than there are samples.
    for point in 0..points.min(count) {
        let places = if points > count { count.saturating_sub(1).max(1) as f64 } else { steps };
        let rank = (count as f64).powf(point as f64 / places).round() as usize;
        let Some(&ns) = count.checked_sub(rank).and_then(|at| times.get(at)) else {
            continue;
        };
        // Equal ones are one point, with all of them.
        let first = times.partition_point(|&other| other < ns);
        let at_least = (count - first) as f64 / count as f64;
        if curve.last().is_none_or(|last| last.ns != ns) {
            curve.push(CcdfPoint { ns, at_least });
        }
    }
    curve.reverse();
    curve
}
