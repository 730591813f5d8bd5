//! Separates kinds of slow executions that overlap without a valley.
//!
//! Kinds may overlap, such as pauses of 1 to 4 ms and hiccups of about 5 ms. The last mode is
//! therefore fitted with a mixture of its own. If Ashman's D shows that two groups of its
//! components are far apart ([`FAR_APART`]), only the components beyond the gap are hiccups. If D
//! is smaller but still suggests two kinds ([`APART`]), all components count as hiccups. In neither
//! case does a significance test support the choice, so the intervals also cover the opposite
//! choice.
//!
//! Source: Ashman, Bird and Zepf, "Detecting bimodality in astronomical datasets", 1994, for D and
//! its separation threshold of 2. Cost: a fit, and O(bins) per component.

use super::histogram::{LogHistogram, Moments, WIDTH};
use super::mixture::{Component, Mixture};

/// If the D of two groups of components exceeds `FAR_APART`, they are different kinds. If it
/// exceeds `APART`, they may be different kinds.
pub(super) const FAR_APART: f64 = 2.5;
const APART: f64 = 2.0;
/// The minimum ratio of the lengths of two kinds. With a smaller ratio, the second group may be
/// only the tail of a sharp peak, because every execution includes the jitter of the body.
const LONGER: f64 = 1.5;
/// The minimum number of executions of a kind.
const LEAST_COUNT: f64 = 4.0;
/// The minimum share of the time of all slow executions that the last mode must account for.
pub(super) const LEAST_TIME: f64 = 0.1;

/// One classification of executions as hiccups.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// The first bin from which on most executions are hiccups.
    pub(super) from: usize,
    /// No execution below this bin is a hiccup.
    pub(super) least: usize,
    /// Whether there is a valley below the hiccups. If so, the body may hide some of the hiccups.
    pub(super) has_valley: bool,
    /// The mixture, and the first component of the hiccups.
    pub(super) mixture: Mixture,
    pub(super) component: usize,
}

impl Mixture {
    /// Returns the first component whose mean is beyond the lower edge of `bin`.
    pub(super) fn first_beyond(&self, bin: usize) -> usize {
        self.components.partition_point(|component| component.mean <= bin as f64 * WIDTH)
    }

    /// Returns the share of the density at `y` that `component` and all later components
    /// contribute. `None` if the density is 0.
    pub(super) fn share_from(&self, component: usize, y: f64) -> Option<f64> {
        let density = |of: &[Component]| of.iter().map(|part| part.density(y)).sum::<f64>();
        let (below, beyond) = self.components.split_at(component.min(self.components.len()));
        let (below, beyond) = (density(below), density(beyond));
        (below + beyond > 0.0).then(|| beyond / (below + beyond))
    }
}

/// Returns the cut beyond bin `from` that separates two groups of components best, and the distance
/// between the groups. `None` if no cut separates groups that might be two kinds.
pub(super) fn cut(
    histogram: &LogHistogram,
    mixture: &Mixture,
    from: usize,
) -> Option<(f64, Reading)> {
    let first = mixture.first_beyond(from);
    let mut best: Option<(f64, Reading)> = None;
    for component in first + 1..mixture.components.len() {
        let (below, beyond) = mixture.components.split_at(component);
        let (distance, longer) = distance(&below[first..], beyond);
        let middle = beyond.first().map_or(0.0, |part| part.mean);
        // The loop moves down from the first mean for as long as most executions belong to
        // components beyond the cut.
        let most = |&at: &usize| {
            let share = mixture.share_from(component, LogHistogram::middle(at));
            share.is_none_or(|share| share > 0.5)
        };
        let top = ((middle / WIDTH) as usize).min(histogram.bins.len() - 1);
        let Some(bin) = (from..=top).rev().take_while(most).last() else {
            continue;
        };
        let reading = Reading {
            from: bin,
            least: from,
            has_valley: false,
            mixture: mixture.clone(),
            component,
        };
        let enough = histogram.count_in(bin..histogram.bins.len()) >= LEAST_COUNT
            && histogram.time_from(bin) >= LEAST_TIME * histogram.time_from(from);
        if distance > APART
            && longer > LONGER
            && enough
            && best.as_ref().is_none_or(|(furthest, _)| distance > *furthest)
        {
            best = Some((distance, reading));
        }
    }
    best
}

/// Returns Ashman's D of two groups of components, and the ratio of their mean lengths.
fn distance(below: &[Component], beyond: &[Component]) -> (f64, f64) {
    let [below, beyond] = [below, beyond].map(|group| {
        group.iter().fold(Moments::default(), |sums, part| {
            let spread = part.weight * part.deviation.powi(2);
            let sums = sums.with(part.mean, part.weight);
            Moments { squares: sums.squares + spread, ..sums }
        })
    });
    (ashman(&below, &beyond), (beyond.mean() - below.mean()).exp())
}

/// Returns Ashman's D: √2 times the distance between the means, divided by the root of the sum of
/// the variances.
pub(super) fn ashman(one: &Moments, other: &Moments) -> f64 {
    let apart = std::f64::consts::SQRT_2 * (other.mean() - one.mean());
    apart / (one.variance() + other.variance()).sqrt()
}
