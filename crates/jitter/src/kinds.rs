//! Kinds of slow executions between which there is no valley.
//!
//! Kinds may overlap, as pauses of 1 to 4 ms and hiccups of about 5 ms. So the last mode is fitted
//! by a mixture of its own. Where its components are far apart by Ashman's D ([`FAR_APART`]), those
//! beyond are the hiccups; where they may be two kinds ([`APART`]), all are. As no test backs
//! either, the other reading is kept for the intervals.
//!
//! Source: Ashman, Bird and Zepf, "Detecting bimodality in astronomical datasets", 1994, for D, and
//! for 2 as the least that parts. Cost: a fit, and O(bins) for each component.

use super::histogram::{LogHistogram, WIDTH};
use super::mixture::{Component, Mixture};
use super::modes::{LEAST_TIME, Reading, count, time};

/// Groups of components whose D is larger are of different kinds; or may be.
pub(super) const FAR_APART: f64 = 2.5;
const APART: f64 = 2.0;
/// And they are longer by this factor: what follows a sharp peak, for all have the jitter of the
/// body, is no other kind.
const LONGER: f64 = 1.5;
/// A kind has at least so many executions.
const LEAST_COUNT: f64 = 4.0;

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
        let enough = count(histogram, bin, histogram.bins.len()) >= LEAST_COUNT
            && time(histogram, bin) >= LEAST_TIME * time(histogram, from);
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
        let weight: f64 = group.iter().map(|part| part.weight).sum();
        let average = |of: &dyn Fn(&Component) -> f64| {
            group.iter().map(|part| part.weight * of(part)).sum::<f64>() / weight
        };
        let mean = average(&|part| part.mean);
        (mean, average(&|part| part.deviation.powi(2) + (part.mean - mean).powi(2)))
    });
    let further = beyond.0 - below.0;
    (std::f64::consts::SQRT_2 * further / (below.1 + beyond.1).sqrt(), further.exp())
}
