//! Attributes hiccups to the machine or to the leaf.
//!
//! The *floor* is a set of gaps during which a loop that only reads the clock did not run. The
//! floor is observed on the same processors while the leaf is idle. Gaps hit any running thread, so
//! the probability that a gap hits an execution of length P is 1 - e^(-rate·P).
//!
//! A gap counts only if it could be mistaken for a hiccup: it must be at least half as long as the
//! mean hiccup, or at least as long as the shortest one. Two tests then decide:
//!
//! - *Is it the leaf?* If the leaf and the loop were hit at the same rate, the leaf's share of the
//!   hits would match its share of the time (the conditional test of two Poisson rates).
//! - *Is it the machine?* If the machine caused none of the hiccups, the floor's share would be
//!   smaller than the uncertainty of the hiccup probability.
//!
//! A third test checks the floor itself. If the loop was hit significantly more often than the
//! leaf, either the machine was busier then, or a loop that never sleeps is interrupted more often
//! than a leaf that does. Such a floor explains nothing.
//!
//! If machine pauses are about as long as the leaf's hiccups, jitter alone cannot separate the two.
//! However, the floor contains the number and the lengths of such pauses. The number of pauses is
//! subtracted from the number of slow executions. Their total length is subtracted from the time by
//! which these executions were delayed.
//!
//! Source: Przyborowski and Wilenski, "Homogeneity of results in testing samples from Poisson
//! series", 1940 (the conditional test); Garwood 1936 (the interval of a rate); the ratio's
//! variance by the delta method (Cochran, "Sampling Techniques", section 6.3). Cost: O(n + gaps).

use serde::Serialize;

use super::Summary;
use super::executions::View;
use super::histogram::Moments;
use curtail_stats::{self as interval, Estimate, at_least, difference, poisson};

/// Hiccups beyond the floor are attributed to the leaf if their p-value is below this.
const SIGNIFICANT: f64 = 0.001;

/// The gaps observed by a loop that only reads the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The time for which the loop ran, excluding gaps.
    ran_ns: u64,
    /// Pairs of a length in nanoseconds and a count.
    gaps: Vec<(u64, u64)>,
}

impl Floor {
    /// Creates a floor from the observations of a loop. `observed_ns` is its run time, summed over
    /// processors and including gaps. Each gap is a pair of a length in nanoseconds and a count.
    /// `None` if the gaps fill the time or exceed it.
    pub fn new(observed_ns: u64, gaps: &[(u64, u64)]) -> Option<Floor> {
        let gaps_ns = gaps.iter().fold(0_u128, |sum, &(length, count)| {
            sum.saturating_add(u128::from(length) * u128::from(count))
        });
        let ran_ns = observed_ns.checked_sub(u64::try_from(gaps_ns).ok()?)?;
        (ran_ns > 0).then(|| Floor { ran_ns, gaps: gaps.to_vec() })
    }

    /// Returns the p-value of `slow` or more slow executions, assuming that the leaf is hit no more
    /// often than the loop.
    fn explains(&self, summary: &Summary, slow: f64, gaps: f64) -> f64 {
        let (slow, share) = self.shares(summary, slow);
        at_least(slow, slow + gaps, share)
    }

    /// Whether the loop was hit more often than the leaf, by more than chance can explain.
    fn exceeds(&self, summary: &Summary, slow: f64, gaps: f64) -> bool {
        let (slow, share) = self.shares(summary, slow);
        at_least(gaps, slow + gaps, 1.0 - share) < SIGNIFICANT
    }

    /// Returns the number of independent slow executions, and the leaf's share of the time.
    fn shares(&self, summary: &Summary, slow: f64) -> (f64, f64) {
        let dispersion = summary.hiccups.dispersion;
        let leaf_ns = summary.mean_p_ns * summary.executions as f64 / dispersion;
        (slow / dispersion, leaf_ns / (leaf_ns + self.ran_ns as f64))
    }

    /// Returns the number and the total length of the gaps of at least `least_ns`.
    fn gaps_from(&self, least_ns: u64) -> (u64, u128) {
        let long = self.gaps.iter().filter(|&&(length, _)| length >= least_ns);
        long.fold((0, 0), |(count, sum), &(length, of)| {
            // The total length of the gaps is less than the observed time, but the number of gaps
            // of length 0 is unbounded.
            (u64::saturating_add(count, of), sum + u128::from(length) * u128::from(of))
        })
    }
}

fn mean(count: u64, total: u128) -> Option<f64> {
    (count > 0).then(|| total as f64 / count as f64)
}

/// How often gaps hit executions, and how long these gaps are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FloorHits {
    /// The probability that a gap hits an execution, from 0 to 1.
    pub probability: f64,
    /// The mean length of the gaps, in nanoseconds. `None` without gaps.
    pub duration_ns: Option<f64>,
}

/// The cause of the hiccups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// There are no hiccups.
    None,
    /// Gaps on the machine explain all hiccups.
    Machine,
    /// There are more hiccups than the floor explains, and the floor's share is smaller than the
    /// uncertainty of the hiccup probability.
    Leaf,
    /// There are more hiccups than the floor explains, and the floor's share exceeds the
    /// uncertainty of the hiccup probability.
    Both,
    /// There are too few hiccups or gaps to decide, the floor was not observed for long enough, or
    /// the loop was hit significantly more often than the leaf.
    Undecided,
}

/// The cause of the hiccups, and the share of them that the floor explains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Attribution {
    /// The cause.
    pub blame: Blame,
    /// The effect that the floor alone would have on these executions. It counts only gaps that
    /// would pass for hiccups, or all gaps if there are no hiccups.
    pub floor: FloorHits,
    /// The shortest gap that is counted, in nanoseconds.
    pub gaps_from_ns: u64,
    /// Whether the loop was hit more often than the leaf. The floor then does not apply to these
    /// executions.
    pub floor_exceeds: bool,
    /// The leaf's own hiccups, after the floor is subtracted. `None` without hiccups.
    pub leaf: Option<LeafHiccups>,
    /// The p-value, from 0 to 1: the probability of at least the observed number of hits on the
    /// leaf, assuming that it is hit no more often than the loop. The p-value is 1 if there are no
    /// hiccups.
    pub p_value: f64,
}

impl View<'_> {
    /// Compares the hiccups in `summary`, which must describe these executions, with a floor.
    pub fn attribute(&self, summary: &Summary, floor: &Floor) -> Attribution {
        let hiccups = &summary.hiccups;
        let (Some(duration), Some(from_ns)) = (hiccups.duration_ns, hiccups.from_ns) else {
            let floor = self.expected(floor, 0);
            return Attribution {
                blame: Blame::None,
                floor,
                gaps_from_ns: 0,
                floor_exceeds: false,
                leaf: None,
                p_value: 1.0,
            };
        };
        let gaps_from_ns = (0.5 * duration.value).min(from_ns).floor() as u64;
        let (gaps, _) = floor.gaps_from(gaps_from_ns);
        let gaps = gaps as f64;
        let p_value = floor.explains(summary, hiccups.count, gaps);
        let expected = self.expected(floor, gaps_from_ns);
        // The lower bound on the number of gaps in the floor, as a share of the estimated number.
        let sure = if gaps > 0.0 { poisson(gaps).low / gaps } else { 0.0 };
        let lost = hiccups.probability.value - hiccups.probability.low;
        let shows = expected.probability * sure > lost;
        let start_ns = self.start(summary, from_ns, floor);
        let leaf = leaf(*self, summary, start_ns, floor);
        let floor_exceeds = floor.exceeds(summary, hiccups.count, gaps);
        let blame = match (p_value < SIGNIFICANT, shows) {
            _ if floor_exceeds => Blame::Undecided,
            (true, true) => Blame::Both,
            (true, false) => Blame::Leaf,
            // The excess is not significant, but if the interval is above zero, some hiccups may
            // have a cause other than the machine.
            (false, true) if leaf.probability.low <= 0.0 => Blame::Machine,
            (false, _) => Blame::Undecided,
        };
        let leaf = Some(leaf);
        Attribution { blame, floor: expected, gaps_from_ns, floor_exceeds, leaf, p_value }
    }

    /// Returns the smallest jitter of the executions that are the leaf's hiccups or machine pauses.
    /// This is the jitter at the last valley, if the floor explains the executions beyond it that
    /// are not hiccups. Otherwise it is the jitter at which the hiccups start, because those
    /// executions are then neither hiccups nor machine pauses.
    fn start(self, summary: &Summary, from_ns: f64, floor: &Floor) -> f64 {
        let hiccups = &summary.hiccups;
        let Some(valley_ns) = hiccups.valley_ns.filter(|valley| *valley < from_ns) else {
            return from_ns;
        };
        let beyond = self.iter().filter(|execution| execution.jitter_ns() as f64 >= valley_ns);
        let others = (beyond.count() as f64 - hiccups.count).max(0.0);
        let (gaps, _) = floor.gaps_from(valley_ns as u64);
        match floor.explains(summary, others, gaps as f64) < SIGNIFICANT {
            true => from_ns,
            false => valley_ns,
        }
    }

    /// Returns the mean effect of the floor on the executions, assuming that each one runs for P.
    pub(super) fn expected(self, floor: &Floor, least_ns: u64) -> FloorHits {
        let (count, total_ns) = floor.gaps_from(least_ns);
        let rate = count as f64 / floor.ran_ns as f64;
        let (mut hit, mut all) = (0.0, 0.0);
        for (_, query) in self.queries() {
            let executions = f64::from(query.executions);
            hit -= executions * (-rate * query.p_ns as f64).exp_m1();
            all += executions;
        }
        let probability = if all > 0.0 { hit / all } else { 0.0 };
        FloorHits { probability, duration_ns: mean(count, total_ns) }
    }
}

/// The duration of the leaf's hiccups is estimated only if their number is at least this multiple
/// of its standard error.
const ENOUGH: f64 = 3.0;

/// The leaf's own hiccups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LeafHiccups {
    /// The probability that an execution has a hiccup.
    pub probability: Estimate,
    /// The mean length of the leaf's hiccups, in nanoseconds. `None` if too few hiccups remain
    /// after the subtraction.
    pub duration_ns: Option<Estimate>,
}

/// Subtracts the floor from the executions with a jitter of `from_ns` or more.
fn leaf(view: View<'_>, summary: &Summary, from_ns: f64, floor: &Floor) -> LeafHiccups {
    let is_slow = |ns: u64| ns as f64 >= from_ns;
    let all = summary.executions.max(1) as f64;
    let (mut slow, mut others) = (Moments::default(), Moments::default());
    for execution in view.iter() {
        let ns = execution.jitter_ns();
        let side = if is_slow(ns) { &mut slow } else { &mut others };
        *side = side.with(ns as f64, 1.0);
    }
    // A slow execution also has the usual jitter, so the mean of that jitter is subtracted.
    let usual = others.mean();
    let seen = Moments {
        count: slow.count,
        sum: slow.sum - usual * slow.count,
        // This includes the variance of the other executions. Rare pauses increase that variance
        // even if they affected few slow executions.
        squares: slow.squares - 2.0 * usual * slow.sum
            + (usual * usual + others.variance()) * slow.count,
    };
    let long = floor.gaps.iter().filter(|&&(length, _)| is_slow(length));
    let gaps = Moments::of(long.map(|&(length, times)| (length as f64, times as f64)));
    // The leaf's run time divided by the loop's.
    let scale = summary.mean_p_ns * all / floor.ran_ns as f64;
    let dispersion = summary.hiccups.dispersion;
    let seen_probability = interval::probability(seen.count / dispersion, all / dispersion);
    LeafHiccups {
        probability: difference(seen_probability, poisson(gaps.count).scaled(scale / all)),
        // The measurement overhead after a hiccup may differ from the usual overhead, so the
        // interval is widened.
        duration_ns: duration(seen, gaps, scale, dispersion).map(|of| of.widened(usual)),
    }
}

fn duration(seen: Moments, gaps: Moments, scale: f64, dispersion: f64) -> Option<Estimate> {
    let left = |of: fn(&Moments) -> f64| of(&seen) - scale * of(&gaps);
    // Variances add even where values are subtracted.
    let spread = |of: fn(&Moments) -> f64| dispersion * of(&seen) + scale * scale * of(&gaps);
    let (count, time) = (left(|sums| sums.count), left(|sums| sums.sum));
    let count_variance = spread(|sums| sums.count);
    if count <= 0.0 || time <= 0.0 || count < ENOUGH * count_variance.sqrt() {
        return None;
    }
    let mean = time / count;
    let variance = spread(|sums| sums.squares) - 2.0 * mean * spread(|sums| sums.sum)
        + mean * mean * count_variance;
    Some(interval::mean(mean, variance.max(0.0).sqrt() / count, count / dispersion))
}
