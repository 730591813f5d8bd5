//! Tests whether a valley between two modes is statistically significant.
//!
//! Without a second mode, the density of ln(J + offset) never rises after it has fallen. Take two
//! windows, the second no nearer to the mode than the first. If s is the second window's share of
//! their total length, an execution that is in one of them is in the second with a probability of
//! at most s. Chernoff's bound for the binomial distribution yields an upper bound on the
//! probability of the observed count. A window is a valley if it contains significantly fewer
//! executions, for its length, than a window on each side of it. The side with the smaller contrast
//! determines the result. The test tries all windows on a fixed grid and multiplies the smallest
//! probability by their number (Bonferroni), so it holds for any shape of body and tail. Windows
//! too short for the clock's resolution are skipped.
//!
//! A rise of less than [`RISE`] is ignored, because with millions of executions every ripple would
//! be significant.
//!
//! Source: the test problem of Silverman and Hartigan, solved by scanning as in Müller and
//! Sawitzki, "Excess mass estimates and tests for multimodality", 1991; Chernoff, "A measure of
//! asymptotic efficiency", 1952. Cost: about ten thousand windows, O(1) each.

use std::ops::Range;

use super::histogram::{LogHistogram, WIDTH};

/// The grid step in bins, which corresponds to a 16th of an octave.
const GRID: usize = 2;
/// The lengths of valley windows, and of the peak windows on either side, in grid steps.
const VALLEYS: [usize; 12] = [2, 3, 4, 6, 8, 16, 32, 48, 64, 96, 128, 192];
const PEAKS: [usize; 8] = [1, 2, 4, 8, 16, 24, 32, 48];
/// The minimum rise of the density, as a factor.
const RISE: f64 = 1.25;
/// The shortest window, in units of the clock's resolution.
const QUANTA: f64 = 8.0;
/// A valley is significant if its p-value is below this level.
pub(super) const SIGNIFICANT: f64 = 0.01;

/// Counts on the grid, shared by all tests.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// The number of executions below each edge of the grid.
    below: Vec<f64>,
    /// The length of the grid step at each edge, in nanoseconds.
    step_ns: Vec<f64>,
    quantum: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Valley {
    /// The probability that the valley is due to chance, at most 1.
    pub(super) p_value: f64,
    /// The first bin of the valley.
    pub(super) at: usize,
}

impl Scan {
    pub(super) fn of(histogram: &LogHistogram) -> Scan {
        let mut below = vec![0.0];
        let mut sum = 0.0;
        for part in histogram.bins.chunks(GRID) {
            sum += part.iter().map(|bin| bin.count).sum::<f64>();
            below.push(sum);
        }
        let step = WIDTH * GRID as f64;
        let length = |at: usize| (at as f64 * step).exp() * histogram.offset * step;
        let step_ns = (0..below.len()).map(length).collect();
        Scan { below, step_ns, quantum: histogram.quantum }
    }

    /// Returns the clearest valley between the bins `from` and `to`. `None` if no window qualifies
    /// as a valley.
    pub(super) fn valley(&self, from: usize, to: usize) -> Option<Valley> {
        let first = from.div_ceil(GRID);
        let last = (to / GRID + 1).min(self.below.len() - 1);
        let windows = (self.below.len() * VALLEYS.len() * PEAKS.len() * 2) as f64;
        let mut best: Option<(f64, usize)> = None;
        for start in first..last {
            for end in VALLEYS.map(|length| start + length).into_iter().filter(|&end| end <= last) {
                let before = PEAKS.map(|length| start.saturating_sub(length)..start);
                let behind = PEAKS.map(|length| end..(end + length).min(self.below.len() - 1));
                let valley = start..end;
                let clearest = |peaks: [Range<usize>; PEAKS.len()]| {
                    let chances = peaks.iter().filter_map(|peak| self.ln_chance(&valley, peak));
                    chances.min_by(f64::total_cmp)
                };
                let (Some(before), Some(behind)) = (clearest(before), clearest(behind)) else {
                    continue;
                };
                let ln = before.max(behind);
                if best.is_none_or(|(least, _)| ln < least) {
                    best = Some((ln, start));
                }
            }
        }
        best.map(|(ln, at)| Valley { p_value: (ln.exp() * windows).min(1.0), at: at * GRID })
    }

    /// Returns the ln of a bound on the probability of the peak's count. `None` if the count does
    /// not exceed the peak's share, or if the windows are too short.
    fn ln_chance(&self, valley: &Range<usize>, peak: &Range<usize>) -> Option<f64> {
        let long_enough =
            |of: &Range<usize>| of.len() as f64 * self.step_ns[of.start] >= QUANTA * self.quantum;
        // A peak before the valley may be narrower than the clock's resolution, if the body has no
        // noise.
        let is_before = peak.end <= valley.start;
        if peak.is_empty() || !long_enough(valley) || !(is_before || long_enough(peak)) {
            return None;
        }
        let count = |of: &Range<usize>| self.below[of.end] - self.below[of.start];
        let length = |of: &Range<usize>| of.len() as f64;
        let (inside, beside) = (count(valley), count(peak));
        let share = RISE * length(peak) / (length(valley) + RISE * length(peak));
        let all = inside + beside;
        if beside <= share * all {
            return None;
        }
        let few = if inside > 0.0 { inside * (inside / all / (1.0 - share)).ln() } else { 0.0 };
        Some(-(few + beside * (beside / all / share).ln()))
    }
}
