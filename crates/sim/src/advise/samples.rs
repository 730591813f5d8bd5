//! Finds hiccups in samples of service times as a dip in the hazard rate.
//!
//! The hazard rate is the share of running queries that end per unit of time. For common service
//! times it rises, stays constant, or falls and never rises again: a heavy tail is not a hiccup. If
//! hiccups are much longer than the other samples (the body), the rate falls and rises again,
//! because few samples end between the body and the samples with a hiccup. The hazard rates before,
//! in and after a possible dip are compared for many positions and lengths. The samples are split
//! at the point in the deepest dip where they are sparsest.
//!
//! Hiccups that are not longer than the width of the body do not cause a dip. The same is true for
//! hiccups whose lengths start at zero, such as exponential hiccups. This method cannot find such
//! hiccups. Repeated executions of the same queries reveal such hiccups (`curtail jitter`).
//!
//! Cost: O(n log n) for sorting, plus a few thousand binary searches.

use std::iter::successors;

use curtail_stats::student;

/// The maximum share and the minimum number of samples beyond the start of a dip.
const MOST_BEYOND: f64 = 0.2;
const LEAST_BEYOND: usize = 8;

/// Factor by which the number of samples beyond the start of a dip falls from one position to the
/// next.
const STEP: f64 = 0.93;

/// The shortest length of a dip, as a multiple of the mean of all samples, and the factor between
/// successive lengths. Lengths go up to the longest sample. Shorter dips may be due to the rounding
/// of samples.
const SHORTEST: f64 = 2.0;
const LONGER: f64 = 1.4;

/// The minimum depth of a dip, which is the hazard rate next to the dip divided by the hazard rate
/// in it.
const DEPTH: f64 = 3.0;

/// A dip is ignored unless it is unlikely under a constant hazard rate. This is the maximum
/// logarithm of the probability that so few samples end in the dip. It is low because a few
/// thousand places are tested.
const CHANCE: f64 = -25.0;

/// Samples, split into body and hiccups.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The samples without a hiccup, sorted.
    pub body: Vec<f64>,
    /// The share of samples with a hiccup.
    pub probability: f64,
    /// The mean length of a hiccup: the mean of samples with a hiccup minus the mean of the body.
    pub duration: f64,
    /// Half the width of the 95 % confidence interval of that length. `None` if only one sample has
    /// a hiccup.
    pub duration_half: Option<f64>,
    /// The number of samples with a hiccup.
    pub count: usize,
}

/// Splits samples into body and hiccups. Returns `None` if there are no visible hiccups.
pub fn find_hiccups(samples: &[f64]) -> Option<Found> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let longest = sorted.last().copied().unwrap_or(0.0);
    let next = |length: &f64| Some(length * LONGER);
    let lengths = successors(Some(SHORTEST * mean(&sorted)), next);
    let lengths: Vec<f64> = lengths.take_while(|&length| length < longest).collect();
    let mut best: Option<(f64, f64, f64)> = None;
    let mut beyond = sorted.len() as f64 * MOST_BEYOND;
    while beyond >= LEAST_BEYOND as f64 {
        let start = sorted[sorted.len() - 1 - beyond as usize];
        for &length in &lengths {
            if let Some(depth) = dip(&sorted, start, length)
                && best.is_none_or(|(deepest, ..)| depth > deepest)
            {
                best = Some((depth, start, length));
            }
        }
        beyond *= STEP;
    }
    let (_, start, length) = best?;
    let count = sorted.len();
    let end = sparsest(&sorted, start, start + length);
    let hit = sorted.split_off(sorted.partition_point(|&x| x <= end));
    Some(Found {
        probability: hit.len() as f64 / count as f64,
        duration: mean(&hit) - mean(&sorted),
        duration_half: student::half_width(&hit),
        count: hit.len(),
        body: sorted,
    })
}

/// Returns the border between body and hiccups: the middle of the sparsest part of the dip. If the
/// hiccups vary in length, the shortest ones end inside the dip.
fn sparsest(sorted: &[f64], start: f64, end: f64) -> f64 {
    let first = sorted.partition_point(|&x| x < start);
    let last = sorted.partition_point(|&x| x <= end);
    // Use several spacings together, because the standard deviation of a single one is as large as
    // its mean.
    let together = (sorted.len() - last).isqrt();
    let width = |at: usize| sorted[at + together] - sorted[at];
    let widest = (first..last).max_by(|&a, &b| width(a).total_cmp(&width(b)));
    widest.map_or(end, |at| sorted[at] + width(at) / 2.0)
}

/// Returns the number of samples longer than `time`.
fn beyond(sorted: &[f64], time: f64) -> f64 {
    (sorted.len() - sorted.partition_point(|&x| x <= time)) as f64
}

/// Returns the depth of the dip that begins at `start`, or `None` if there is no dip.
fn dip(sorted: &[f64], start: f64, length: f64) -> Option<f64> {
    // The body may be shorter than the dip.
    let lead = length.min(start / 2.0);
    if lead <= 0.0 {
        return None;
    }
    let borders = [start - lead, start, start + length, start + 2.0 * length]
        .map(|time| beyond(sorted, time));
    let [all, before, inside, behind] = borders;
    if inside < LEAST_BEYOND as f64 {
        return None;
    }
    // If no sample is left, half a sample is used instead, because a larger set would probably
    // contain some.
    let ended = |from: f64, to: f64| (from / to.max(0.5)).ln();
    let beside = (ended(all, before) / lead).min(ended(inside, behind) / length) * length;
    let (seen, expected) = (before - inside, inside * (beside.exp() - 1.0));
    // Chernoff's bound on the probability of at most `seen` events if their number had a Poisson
    // distribution with mean `expected`.
    let few = if seen > 0.0 { seen * (expected / seen).ln() } else { 0.0 };
    let chance = seen + few - expected;
    // A dip without samples is treated as if half a sample ended in it.
    let depth = beside / ended(before.max(inside + 0.5), inside);
    (seen < expected && chance < CHANCE && depth >= DEPTH).then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_dist::{Spec, seed};

    fn drawn(text: &str, count: usize) -> Vec<f64> {
        let spec: Spec = text.parse().expect("a distribution");
        let from = spec.resolve(1.0).expect("a distribution");
        let mut rng = seed::rng(11);
        (0..count).map(|_| from.sample(&mut rng)).collect()
    }

    #[test]
    fn hiccups_are_found_with_their_length_and_probability() {
        for (body, probability, duration) in [
            ("exp:1", 0.001, 15.0),
            ("exp:1", 0.003, 10.0),
            ("exp:1", 0.05, 30.0),
            ("lognormal:1:0.5", 0.002, 15.0),
            ("gamma:2:0.7", 0.01, 30.0),
            ("det:1", 0.001, 15.0),
            ("erlang:3:5", 0.005, 100.0),
            ("exp:1", 0.001, 200.0),
            ("exp:1", 0.001, 5_000.0),
            ("lognormal:1:1", 0.002, 1_000.0),
        ] {
            let text = format!("{body}+bimodal:{probability}:{duration}");
            let found = find_hiccups(&drawn(&text, 50_000)).unwrap_or_else(|| panic!("{text}"));
            assert!((found.duration / duration - 1.0).abs() < 0.1, "{text}: {}", found.duration);
            let error = 4.0 * (probability / 50_000.0_f64).sqrt();
            assert!(
                (found.probability - probability).abs() < error,
                "{text}: {}",
                found.probability
            );
            assert_eq!(found.body.len() + found.count, 50_000);
        }
    }

    #[test]
    fn hiccups_of_varying_length_are_counted_in_full() {
        for (body, probability, hiccup) in [
            ("exp:1", 0.003, "uniform:10:20"),
            ("exp:1", 0.05, "uniform:10:50"),
            ("exp:1", 0.003, "gamma:20:0.2"),
            ("lognormal:1:1", 0.002, "uniform:50:100"),
            ("det:1", 0.001, "uniform:5:20"),
        ] {
            let text = format!("{body} + {probability} of {hiccup}");
            let hit = drawn(&format!("bimodal:{probability}:1"), 50_000);
            let count = hit.iter().filter(|&&hit| hit > 0.0).count();
            let lengths = drawn(hiccup, count);
            let mean = lengths.iter().sum::<f64>() / count as f64;
            let mut lengths = lengths.into_iter();
            let with =
                |(time, hit)| time + if hit > 0.0 { lengths.next().unwrap_or(0.0) } else { 0.0 };
            let samples: Vec<f64> = drawn(body, 50_000).into_iter().zip(hit).map(with).collect();
            let found = find_hiccups(&samples).unwrap_or_else(|| panic!("{text}"));
            let of_all = found.count as f64 / count as f64;
            assert!((0.95..1.05).contains(&of_all), "{text}: {} of {count}", found.count);
            assert!((found.duration / mean - 1.0).abs() < 0.05, "{text}: {}", found.duration);
        }
    }

    #[test]
    fn tails_are_no_hiccups() {
        for text in [
            "exp:1",
            "det:1",
            "uniform:1:3",
            "lognormal:1:3",
            "gamma:1:2",
            "h2:1:4",
            "erlang:4:1",
            "weibull:0.5:1",
            "pareto:1.5:1",
            "pareto:1.5:1:100",
            "exp:1+exp:1",
        ] {
            let found = find_hiccups(&drawn(text, 50_000));
            assert_eq!(found.map(|found| (found.probability, found.duration)), None, "{text}");
        }
    }

    #[test]
    fn rounded_samples_have_no_hiccups_for_being_rounded() {
        for quantum in [0.01, 0.2, 1.0, 3.0] {
            let rounded: Vec<f64> =
                drawn("exp:1", 50_000).iter().map(|x| (x / quantum).ceil() * quantum).collect();
            assert!(find_hiccups(&rounded).is_none(), "{quantum}");
        }
    }

    #[test]
    fn few_samples_and_equal_ones_are_no_trouble() {
        for samples in [&[][..], &[1.0], &[0.0; 100], &[5.0; 100], &[1.0, 100.0]] {
            assert_eq!(find_hiccups(samples), None);
        }
    }
}
