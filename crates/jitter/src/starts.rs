//! Where a further component of a mixture starts: in the windows that hold most beyond what the
//! mixture expects, by the deviance of Poisson counts.
//!
//! Source: the residual of a fit as the place of the next component, as in Vlassis and Likas, "A
//! greedy EM algorithm for Gaussian mixture learning", 2002. Cost: O(bins) for each of some window
//! lengths.

use super::histogram::{Bin, LogHistogram, WIDTH};
use super::mixture::{Component, Mixture};

/// Starts that are tried.
const TRIED: usize = 3;
/// The lengths of the windows in bins, from a 16th of an octave to eight octaves.
const LENGTHS: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// The best places, the best first; of no mixture, one over all.
pub(super) fn starts(bins: &[Bin], mixture: &Mixture) -> Vec<Component> {
    let count: f64 = bins.iter().map(|bin| bin.count).sum();
    if mixture.components.is_empty() {
        return over(bins, 0, bins.len(), 1.0).into_iter().collect();
    }
    let mut excess = Vec::new();
    for length in LENGTHS {
        for start in (0..bins.len()).step_by(length / 2) {
            let end = (start + length).min(bins.len());
            let seen: f64 = bins[start..end].iter().map(|bin| bin.count).sum();
            if seen < 2.0 {
                continue;
            }
            let expected: f64 = (start..end)
                .map(|at| mixture.density(LogHistogram::middle(at)) * WIDTH * count)
                .sum();
            // What is not expected at all is not infinitely surprising: a thousandth may have been.
            let expected = expected.max(1e-3);
            if seen > expected {
                let deviance = seen * (seen / expected).ln() - (seen - expected);
                excess.push((deviance, start, end, (seen - expected) / count));
            }
        }
    }
    excess.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    let mut starts = Vec::new();
    for (_, start, end, weight) in excess {
        // Windows around the same place would start the same component: one of twice the length
        // may.
        let alike = |&(from, to): &(usize, usize)| {
            start < to
                && from < end
                && (to - from) < 3 * (end - start)
                && (end - start) < 3 * (to - from)
        };
        if chosen.iter().any(alike) {
            continue;
        }
        chosen.push((start, end));
        starts.extend(over(bins, start, end, weight.min(0.5)));
        if starts.len() == TRIED {
            break;
        }
    }
    starts
}

/// A mixture of what is below a bin and what is beyond it.
pub(super) fn two_sides(bins: &[Bin], at: usize) -> Mixture {
    let count = |bins: &[Bin]| bins.iter().map(|bin| bin.count).sum::<f64>();
    let beyond = count(&bins[at..]) / count(bins).max(1.0);
    let sides = [over(bins, 0, at, 1.0 - beyond), over(bins, at, bins.len(), beyond)];
    Mixture { components: sides.into_iter().flatten().collect() }
}

/// A component with the mean and the deviation of these bins.
fn over(bins: &[Bin], start: usize, end: usize, weight: f64) -> Option<Component> {
    let places = || (start..end).zip(&bins[start..end]);
    let count: f64 = places().map(|(_, bin)| bin.count).sum();
    let average = |of: &dyn Fn(f64) -> f64| {
        places().map(|(at, bin)| bin.count * of(LogHistogram::middle(at))).sum::<f64>() / count
    };
    let mean = (count > 0.0).then(|| average(&|y| y))?;
    let deviation = average(&|y| (y - mean).powi(2)).sqrt().max(WIDTH);
    Some(Component { weight, mean, deviation })
}
