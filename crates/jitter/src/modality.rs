//! Whether a valley between two modes is more than chance.
//!
//! Without a second mode, the density of ln(J + offset) does not rise again once it has fallen. So
//! of what falls into a window and one beside it that is no nearer to the mode, the second gets no
//! more than its share of the two lengths; as many as were seen there, or more, have at most the
//! probability that Chernoff's bound for the binomial distribution gives. A valley is a window that
//! is too empty for what is before it as well as for what is behind it; the less clear of the two
//! counts. All windows on a fixed grid are looked at, and the smallest such probability is
//! multiplied by their number (Bonferroni), so the test holds whatever the shape of body and tail.
//! Windows too short for the clock's resolution are left out.
//!
//! A rise by less than [`RISE`] is none: with millions of executions, every ripple would be real.
//!
//! Source: Silverman's and Hartigan's question, answered by scanning as Müller and Sawitzki,
//! "Excess mass estimates and tests for multimodality", 1991; Chernoff, "A measure of asymptotic
//! efficiency", 1952. Cost: some ten thousand windows, O(1) each.

use super::histogram::{LogHistogram, WIDTH};

/// The windows' edges are so many bins apart: a 16th of an octave.
const GRID: usize = 2;
/// The lengths of the windows, in steps of the grid: of valleys, and of peaks beside them.
const VALLEYS: [usize; 12] = [2, 3, 4, 6, 8, 16, 32, 48, 64, 96, 128, 192];
const PEAKS: [usize; 8] = [1, 2, 4, 8, 16, 24, 32, 48];
/// By what factor the density has to rise.
const RISE: f64 = 1.25;
/// The shortest window, in units of the clock's resolution.
const QUANTA: f64 = 8.0;
/// Below this probability of being chance, a valley is real.
pub(super) const SIGNIFICANT: f64 = 0.01;

/// Counts on the grid, for any number of tests.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// How many are below each edge.
    below: Vec<f64>,
    /// The length of one step from each edge, in nanoseconds.
    step_ns: Vec<f64>,
    quantum: f64,
}

/// The clearest valley.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Valley {
    /// The probability that it is chance, at most 1.
    pub(super) p_value: f64,
    /// The bin at which it begins.
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

    /// The clearest valley that begins at bin `from` or later and ends at bin `to` or before. None
    /// if there is nothing like it.
    pub(super) fn valley(&self, from: usize, to: usize) -> Option<Valley> {
        let first = from.div_ceil(GRID);
        let last = (to / GRID + 1).min(self.below.len() - 1);
        let windows = (self.below.len() * VALLEYS.len() * PEAKS.len() * 2) as f64;
        let mut best: Option<(f64, usize)> = None;
        for start in first..last {
            for end in VALLEYS.map(|length| start + length).into_iter().filter(|&end| end <= last) {
                let before = PEAKS.map(|length| (start.saturating_sub(length), start));
                let behind = PEAKS.map(|length| (end, (end + length).min(self.below.len() - 1)));
                let clearest = |peaks: [(usize, usize); PEAKS.len()]| {
                    let chances =
                        peaks.into_iter().filter_map(|peak| self.ln_chance((start, end), peak));
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

    /// The ln of a bound on the chance of as many in the peak as there are; none where there are no
    /// more than their share, or the windows are too short.
    fn ln_chance(&self, valley: (usize, usize), peak: (usize, usize)) -> Option<f64> {
        let long_enough = |(start, end): (usize, usize)| {
            (end - start) as f64 * self.step_ns[start] >= QUANTA * self.quantum
        };
        // What is before a valley may be narrower than the clock's resolution: a body without any
        // noise.
        let is_before = peak.1 <= valley.0;
        if peak.0 >= peak.1 || !long_enough(valley) || !(is_before || long_enough(peak)) {
            return None;
        }
        let count = |(start, end): (usize, usize)| self.below[end] - self.below[start];
        let length = |(start, end): (usize, usize)| (end - start) as f64;
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
