//! Kinds of slow executions between which there is no valley.
//!
//! Kinds may overlap, as pauses of 1 to 4 ms and hiccups of about 5 ms. So the last mode is fitted
//! by a mixture of its own. Where its components are far apart by Ashman's D ([`FAR_APART`]), those
//! beyond are the hiccups; where they may be two kinds ([`APART`]), all are. As no test backs
//! either, the other reading is kept for the intervals.
//!
//! Source: Ashman, Bird and Zepf, "Detecting bimodality in astronomical datasets", 1994, for D, and
//! for 2 as the least that parts. Cost: a fit, and O(bins) for each component.

use super::histogram::{LogHistogram, Moments, WIDTH};
use super::mixture::{Component, Mixture};

/// Groups of components whose D is larger are of different kinds; or may be.
pub(super) const FAR_APART: f64 = 2.5;
const APART: f64 = 2.0;
/// And they are longer by this factor: what follows a sharp peak, for all have the jitter of the
/// body, is no other kind.
const LONGER: f64 = 1.5;
/// A kind has at least so many executions.
const LEAST_COUNT: f64 = 4.0;
/// The share of the time of all slow executions that the last mode holds.
pub(super) const LEAST_TIME: f64 = 0.1;

/// Which executions are hiccups.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// The bin from which on most are.
    pub(super) from: usize,
    /// No execution below this bin is one.
    pub(super) least: usize,
    /// There is a valley before them, beyond which the body may hide some.
    pub(super) has_valley: bool,
    /// The mixture, and the first component of theirs.
    pub(super) mixture: Mixture,
    pub(super) component: usize,
}

impl Mixture {
    /// The first component whose mean is beyond the lower edge of this bin.
    pub(super) fn first_beyond(&self, bin: usize) -> usize {
        self.components.partition_point(|component| component.mean <= bin as f64 * WIDTH)
    }

    /// The share of the components from this one on in the density at `y`; none where it is 0.
    pub(super) fn share_from(&self, component: usize, y: f64) -> Option<f64> {
        let density = |of: &[Component]| of.iter().map(|part| part.density(y)).sum::<f64>();
        let (below, beyond) = self.components.split_at(component.min(self.components.len()));
        let (below, beyond) = (density(below), density(beyond));
        (below + beyond > 0.0).then(|| beyond / (below + beyond))
    }
}

/// The cut between components beyond bin `from` that are furthest apart, if they may be of two
/// kinds; with their distance.
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
        // Down from the first mean, as long as most are beyond the cut.
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

/// Ashman's D of two groups of components, and by what factor the second is longer.
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

/// Ashman's D: √2 times the distance of the means over the root of the sum of the variances.
pub(super) fn ashman(one: &Moments, other: &Moments) -> f64 {
    let apart = std::f64::consts::SQRT_2 * (other.mean() - one.mean());
    apart / (one.variance() + other.variance()).sqrt()
}
