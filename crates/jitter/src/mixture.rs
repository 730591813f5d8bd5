//! Fits a mixture of log-normal components: normal distributions of the logarithms of jitter.
//!
//! Expectation maximization runs on the bins. The Bayesian information criterion selects the number
//! of components. Each further component starts where the current mixture fits worst, and the best
//! of several starts is kept. No random numbers are used.
//!
//! Source: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM
//! algorithm", 1977; Verbeek, Vlassis and Kröse, "Efficient greedy learning of Gaussian mixture
//! models", 2003; Schwarz, "Estimating the dimension of a model", 1978. Cost: at most about ten
//! thousand passes over at most 2,100 bins, for any number of executions.

use statrs::distribution::{ContinuousCDF as _, Normal};

use super::histogram::{LogHistogram, Moments, WIDTH};

/// The maximum number of components.
const MOST: usize = 8;
/// The minimum standard deviation of a component. At this value, the density at a bin's middle
/// equals the component's share in the bin.
const NARROWEST: f64 = 0.4 * WIDTH;
/// The number of passes that compare starts, and the number of passes that refine the best start.
const TRIAL: u32 = 25;
const FULL: u32 = 400;
/// Passes stop when the ln likelihood increases by less than this, which is about a hundredth of
/// the smallest difference that affects a decision.
const GAIN: f64 = 0.02;
/// A component has no share in bins that are more than this number of standard deviations away.
const FAR: f64 = 12.0;

/// The number of starts that are tried for each further component.
const TRIED: usize = 3;
/// Window lengths in bins, from a 16th of an octave to eight octaves.
const LENGTHS: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// A log-normal component, on the scale of the histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Component {
    pub(super) weight: f64,
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Component {
    /// Returns the component's density at `y`, multiplied by its weight.
    pub(super) fn density(&self, y: f64) -> f64 {
        const ROOT_TAU: f64 = 2.506_628_274_631_000_7;
        let z = (y - self.mean) / self.deviation;
        if z.abs() > FAR {
            return 0.0;
        }
        self.weight * (-0.5 * z * z).exp() / (ROOT_TAU * self.deviation)
    }
}

/// The components, ordered by mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mixture {
    pub(super) components: Vec<Component>,
}

impl Mixture {
    /// Fits the best mixture. It has no components if the histogram is empty.
    pub(super) fn fit(histogram: &LogHistogram) -> Mixture {
        let mut best = Mixture { components: Vec::new() };
        if histogram.count <= 0.0 {
            return best;
        }
        let penalty = 1.5 * histogram.count.ln();
        let mut current = best.clone();
        let mut best_score = f64::NEG_INFINITY;
        let mut failures = 0;
        while current.components.len() < MOST && failures < 2 {
            let Some(grown) = current.grown(&histogram.bins) else {
                break;
            };
            let likelihood;
            (current, likelihood) = grown.maximized(&histogram.bins, FULL);
            let score = likelihood - penalty * current.components.len() as f64;
            failures += 1;
            if score > best_score {
                (best, best_score, failures) = (current.clone(), score, 0);
            }
        }
        best.components.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        best
    }

    /// Returns the best mixture with one more component.
    fn grown(&self, bins: &[Moments]) -> Option<Mixture> {
        let candidates = starts(bins, self).into_iter().map(|start| {
            let others = self.components.iter();
            let mut components: Vec<Component> = others
                .map(|&other| Component { weight: other.weight * (1.0 - start.weight), ..other })
                .collect();
            components.push(start);
            Mixture { components }.maximized(bins, TRIAL)
        });
        candidates.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(mixture, _)| mixture)
    }

    pub(super) fn density(&self, y: f64) -> f64 {
        self.components.iter().map(|component| component.density(y)).sum()
    }

    /// Runs expectation maximization. The second value is the ln likelihood before the last pass.
    fn maximized(mut self, bins: &[Moments], passes: u32) -> (Mixture, f64) {
        let mut last = f64::NEG_INFINITY;
        let filled: Vec<(f64, f64)> = bins
            .iter()
            .enumerate()
            .filter(|(_, bin)| bin.count > 0.0)
            .map(|(at, bin)| (LogHistogram::middle(at), bin.count))
            .collect();
        for _ in 0..passes {
            let likelihood = self.pass(&filled);
            let gain = likelihood - last;
            last = likelihood;
            if gain.abs() < GAIN {
                break;
            }
        }
        (self, last)
    }

    /// Runs one pass over positions and counts. Returns the ln likelihood before it.
    fn pass(&mut self, filled: &[(f64, f64)]) -> f64 {
        let mut sums = vec![[0.0; 3]; self.components.len()];
        let mut densities = vec![0.0; self.components.len()];
        let mut likelihood = 0.0;
        let mut count = 0.0;
        for &(y, of) in filled {
            let mut all = 0.0;
            for (density, component) in densities.iter_mut().zip(&self.components) {
                *density = component.density(y);
                all += *density;
            }
            count += of;
            // A bin far from all components contributes the logarithm of the smallest positive
            // number, so the next component starts there.
            likelihood += of * all.max(f64::MIN_POSITIVE).ln();
            if all <= 0.0 {
                continue;
            }
            for (sum, density) in sums.iter_mut().zip(&densities) {
                let share = of * density / all;
                sum[0] += share;
                sum[1] += share * y;
                sum[2] += share * y * y;
            }
        }
        for (component, [share, first, second]) in self.components.iter_mut().zip(sums) {
            component.weight = share / count;
            // A component without any share keeps its position, with weight 0.
            if share > 1e-9 {
                component.mean = first / share;
                let variance = second / share - component.mean.powi(2);
                component.deviation = variance.max(NARROWEST * NARROWEST).sqrt();
            }
        }
        likelihood
    }

    /// Returns the Kolmogorov–Smirnov distance between the mixture and its data, from 0 to 1. The
    /// distance is evaluated at the bin edges.
    pub(super) fn distance(&self, histogram: &LogHistogram) -> f64 {
        let normal = Normal::standard();
        let mut below = 0.0;
        let mut distance: f64 = 0.0;
        for (at, bin) in histogram.bins.iter().enumerate() {
            below += bin.count;
            let y = (at + 1) as f64 * WIDTH;
            let expected: f64 = self
                .components
                .iter()
                .map(|part| part.weight * normal.cdf((y - part.mean) / part.deviation))
                .sum();
            distance = distance.max((below / histogram.count - expected).abs());
        }
        distance.min(1.0)
    }
}

/// Returns the most promising start positions, the best one first. Without a mixture, returns one
/// component over all bins.
fn starts(bins: &[Moments], mixture: &Mixture) -> Vec<Component> {
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
            // The minimum expectation, a thousandth, bounds the deviance.
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
        // Windows around one position would lead to the same component, unless their lengths differ
        // by a factor of three.
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

/// Creates a mixture of two components, which are fitted to the bins below `at` and to the bins
/// from `at` on.
pub(super) fn two_sides(histogram: &LogHistogram, at: usize) -> Mixture {
    let bins = &histogram.bins;
    let beyond = histogram.count_in(at..bins.len()) / histogram.count.max(1.0);
    let sides = [over(bins, 0, at, 1.0 - beyond), over(bins, at, bins.len(), beyond)];
    Mixture { components: sides.into_iter().flatten().collect() }
}

/// Creates a component with the mean and the deviation of these bins.
fn over(bins: &[Moments], start: usize, end: usize, weight: f64) -> Option<Component> {
    let of = LogHistogram::logarithms(bins, start..end);
    let deviation = of.variance().sqrt().max(WIDTH);
    (of.count > 0.0).then(|| Component { weight, mean: of.mean(), deviation })
}
