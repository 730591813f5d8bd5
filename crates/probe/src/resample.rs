//! 95 % intervals for a profile's statistics, by bootstrap over its windows.
//!
//! Source: Efron, "Bootstrap methods", 1979. Whole blocks of time are drawn (Carlstein 1986),
//! because requests that are close in time are correlated. With few blocks, bootstrap intervals are
//! too short, by about the ratio of the quantiles of Student's t and the normal distribution
//! (Hesterberg 2015, "What teachers should know about the bootstrap"). They are therefore stretched
//! by that ratio.
//!
//! Cost: 1,000 merges per window, for at most 256 windows. Moments are merged once for all
//! statistics, and a histogram is merged only if its quantiles are needed.

use curtail_dist::seed;
use curtail_stats::student_quantile;

use crate::histogram::Histogram;
use crate::moments::Moments;
use crate::profile::Window;

/// The minimum number of windows for an interval.
pub const WINDOWS_MIN: usize = 8;
/// The number of resamples.
pub const RESAMPLES: usize = 1_000;
/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// Returns a statistic of the merged moments for each resample. The result is empty if there are
/// too few windows.
pub fn moments<S>(windows: &[Window], seed: u64, statistic: impl Fn(&Moments) -> S) -> Vec<S> {
    let values = windows.first().map_or(0, |window| window.moments.values());
    let merged = draws(windows.len(), seed).map(|drawn| {
        let mut merged = Moments::new(values);
        drawn.iter().for_each(|&at| merged.merge(&windows[at].moments));
        statistic(&merged)
    });
    merged.collect()
}

/// Returns two quantiles of a merged histogram for each resample. The result is empty if there are
/// too few windows. With the same seed, this draws the same windows as [`moments`].
#[must_use]
pub fn quantiles(windows: &[Window], histogram: usize, seed: u64, q: [f64; 2]) -> Vec<[f64; 2]> {
    let counts = windows.iter().map(|window| window.histograms[histogram].filled().collect());
    let counts: Vec<Vec<(usize, u64)>> = counts.collect();
    let merged = draws(windows.len(), seed).map(|drawn| {
        let mut merged = Histogram::default();
        let counts = drawn.iter().flat_map(|&at| &counts[at]);
        counts.for_each(|&(bucket, count)| merged.add(bucket, count));
        q.map(|q| merged.quantile(q).unwrap_or(f64::NAN))
    });
    merged.collect()
}

/// Returns the interval of a statistic from its resampled values. `None` if no value is finite.
#[must_use]
pub fn interval(point: f64, mut values: Vec<f64>, windows: usize) -> Option<[f64; 2]> {
    values.retain(|value| value.is_finite());
    if values.is_empty() || !point.is_finite() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let n = windows.max(2) as f64;
    let stretch = student_quantile(n - 1.0) / NORMAL * (n / (n - 1.0)).sqrt();
    let last = (values.len() - 1) as f64;
    let at = |q: f64| point + (values[(last * q).round() as usize] - point) * stretch;
    Some([at(0.025).min(point), at(0.975).max(point)])
}

/// Draws the windows of each resample.
fn draws(windows: usize, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let mut rng = seed::rng(seed::stream(seed, &[b"windows"]));
    let resamples = if windows < WINDOWS_MIN { 0 } else { RESAMPLES };
    let mut one = move || (seed::unit(&mut rng) * windows as f64) as usize;
    (0..resamples).map(move |_| (0..windows).map(|_| one()).collect())
}
