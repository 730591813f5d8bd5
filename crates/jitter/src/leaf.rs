//! The leaf's own hiccups: those that were seen, without those that the floor explains.
//!
//! Where pauses of the machine are about as long as hiccups of the leaf, no look at the jitter
//! alone can part them. But the floor tells how many such pauses there were, and how long they
//! were. Both are subtracted: counts from counts, time from time.
//!
//! Source: the difference of two Poisson processes; the ratio's variance by the delta method
//! (Cochran, "Sampling Techniques", section 6.3). Cost: O(n + gaps).

use serde::Serialize;

use super::Summary;
use super::executions::View;
use super::floor::Floor;
use super::interval::{self, Estimate, difference, poisson};

/// With fewer standard errors than this above 0, the leaf's count says nothing about durations.
const ENOUGH: f64 = 3.0;

/// The leaf's own hiccups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafHiccups {
    /// The probability that an execution has one.
    pub probability: Estimate,
    /// Their mean length, in nanoseconds; none if too few are left to tell.
    pub duration_ns: Option<Estimate>,
}

/// A count, and the sums of lengths and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    time: f64,
    squares: f64,
}

impl Sums {
    fn add(self, length: f64, times: f64) -> Sums {
        Sums {
            count: self.count + times,
            time: self.time + times * length,
            squares: self.squares + times * length * length,
        }
    }
}

/// What is left of executions with a jitter of `from_ns` or more. From the valley on where the floor
/// explains what is between it and hiccups that were cut off from pauses.
pub(super) fn leaf(view: View<'_>, summary: &Summary, from_ns: f64, floor: &Floor) -> LeafHiccups {
    let is_slow = |ns: u64| ns as f64 >= from_ns;
    let all = summary.executions.max(1) as f64;
    let (mut slow, mut others) = (Sums::default(), Sums::default());
    for execution in view.iter() {
        let ns = execution.jitter_ns();
        let side = if is_slow(ns) { &mut slow } else { &mut others };
        *side = side.add(ns as f64, 1.0);
    }
    // A slow execution is one that has the jitter of the others, too.
    let usual = others.time / others.count.max(1.0);
    let varies = others.squares / others.count.max(1.0) - usual * usual;
    let seen = Sums {
        count: slow.count,
        time: slow.time - usual * slow.count,
        // Varying as that does: rare pauses, of which few slow ones may have seen any.
        squares: slow.squares - 2.0 * usual * slow.time
            + (usual * usual + varies.max(0.0)) * slow.count,
    };
    let long = floor.gaps.iter().filter(|&&(length, _)| is_slow(length));
    let gaps =
        long.fold(Sums::default(), |sums, &(length, times)| sums.add(length as f64, times as f64));
    // The loop's time in units of the leaf's.
    let scale = summary.mean_p_ns * all / floor.ran_ns as f64;
    let dispersion = summary.hiccups.dispersion;
    let seen_probability = interval::probability(seen.count / dispersion, all / dispersion);
    LeafHiccups {
        probability: difference(seen_probability, poisson(gaps.count).scaled(scale / all)),
        // As for all hiccups: what the measurement adds may be another after one.
        duration_ns: duration(seen, gaps, scale, dispersion).map(|of| of.widened(usual)),
    }
}

fn duration(seen: Sums, gaps: Sums, scale: f64, dispersion: f64) -> Option<Estimate> {
    let left = |of: fn(&Sums) -> f64| of(&seen) - scale * of(&gaps);
    // Variances add, whether the parts do or not.
    let spread = |of: fn(&Sums) -> f64| dispersion * of(&seen) + scale * scale * of(&gaps);
    let (count, time) = (left(|sums| sums.count), left(|sums| sums.time));
    let count_variance = spread(|sums| sums.count);
    if count <= 0.0 || time <= 0.0 || count < ENOUGH * count_variance.sqrt() {
        return None;
    }
    let mean = time / count;
    let variance = spread(|sums| sums.squares) - 2.0 * mean * spread(|sums| sums.time)
        + mean * mean * count_variance;
    Some(interval::mean(mean, variance.max(0.0).sqrt() / count, count / dispersion))
}
