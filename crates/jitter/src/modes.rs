//! Finds the modes of a mixture: body, intermediate modes, hiccups.
//!
//! Valleys separate the peaks of the mixture's density. The body is the largest part, or the part
//! that contains the median if that part comes first. Each valley beyond the body must pass the
//! test of `modality`. If it fails, the parts on either side are merged. The last mode contains the
//! hiccups, and the modes between it and the body are intermediate. A few outliers beyond the
//! hiccups do not form a mode. A mode with less than [`LEAST_TIME`] of the time of all slow
//! executions is merged into the one before it.
//!
//! If the last mode may contain two overlapping kinds (`kinds`), it has two readings.
//!
//! Source: section 6.1 of document 000, which finds the valley by eye. Cost: O(bins).

use super::histogram::LogHistogram;
use super::kinds::{FAR_APART, LEAST_TIME, Reading, cut};
use super::mixture::{Mixture, two_sides};
use super::modality::{SIGNIFICANT, Scan};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Modes {
    /// The first bin of each mode beyond the body, in ascending order. Empty if there are no such
    /// modes.
    pub(super) valleys: Vec<usize>,
    /// The possible classifications of executions as hiccups, the best one first. Empty if J is not
    /// bimodal.
    pub(super) readings: Vec<Reading>,
    /// A bound on the probability that the clearest valley is due to chance.
    pub(super) p_value: f64,
    /// The first bin that might contain hiccups if no valley is significant.
    pub(super) doubtful: usize,
}

impl Modes {
    pub(super) fn find(histogram: &LogHistogram, mixture: &Mixture) -> Modes {
        let parts = parts(histogram, mixture);
        let mass = |part: &Part| histogram.count_in(part.start..part.end);
        let body = (0..parts.len()).max_by(|&a, &b| mass(&parts[a]).total_cmp(&mass(&parts[b])));
        // At least half of all executions are not hiccups, even if these form several parts.
        let middle = median(histogram);
        let holds_middle = parts.iter().position(|part| middle < part.end).unwrap_or(0);
        let body = body.unwrap_or(0).min(holds_middle);
        let body_peak = parts[body].peak;
        let scan = Scan::of(histogram);
        let mut valleys = Vec::new();
        let mut p_value: f64 = 1.0;
        let mut peak = body_peak;
        for part in &parts[body + 1..] {
            // If the test fails, a later valley behind the same peak may still be significant.
            if let Some(valley) = scan.valley(peak, part.peak)
                && valley.p_value < SIGNIFICANT
            {
                p_value = p_value.min(valley.p_value);
                valleys.push(part.start);
                peak = part.peak;
            }
        }
        merge_outliers(histogram, &mut valleys);
        let mut found = Modes { valleys, readings: Vec::new(), p_value, doubtful: 0 };
        match found.valleys.last() {
            Some(&last) => found.read(histogram, mixture, last, body_peak + 1),
            None => match scan.valley(body_peak.max(middle), histogram.bins.len()) {
                // In this case, the data have a valley that the mixture does not have.
                Some(valley) if valley.p_value < SIGNIFICANT => {
                    found.p_value = valley.p_value;
                    found.valleys.push(valley.at);
                    let sides = two_sides(histogram, valley.at);
                    found.read(histogram, &sides, valley.at, valley.at);
                }
                valley => {
                    let end = histogram.bins.len();
                    let apart = cut(histogram, mixture, 0).map_or(end, |(_, cut)| cut.from);
                    found.p_value = valley.map_or(1.0, |valley| valley.p_value);
                    found.doubtful = apart.min(valley.map_or(end, |valley| valley.at));
                }
            },
        }
        found
    }

    /// Adds the readings of the hiccups beyond the valley at bin `from`. No execution below bin
    /// `least` is a hiccup.
    fn read(&mut self, histogram: &LogHistogram, mixture: &Mixture, from: usize, least: usize) {
        let (mixture, component) = (mixture.clone(), mixture.first_beyond(from));
        self.readings.push(Reading { from, least, has_valley: true, mixture, component });
        let own = Mixture::fit(&histogram.beyond(from));
        match cut(histogram, &own, from) {
            Some((distance, cut)) if distance > FAR_APART => {
                self.valleys.push(cut.from);
                self.readings.insert(0, cut);
            }
            Some((_, cut)) => self.readings.push(cut),
            None => {}
        }
    }

    /// Returns the first bin of the hiccups. `None` without hiccups.
    pub(super) fn hiccups_from(&self) -> Option<usize> {
        self.readings.first().map(|reading| reading.from)
    }
}

/// The bins from one valley to the next.
struct Part {
    start: usize,
    peak: usize,
    end: usize,
}

/// Splits the density into one or more parts.
fn parts(histogram: &LogHistogram, mixture: &Mixture) -> Vec<Part> {
    let end = histogram.bins.len();
    let densities: Vec<f64> =
        (0..end).map(|at| mixture.density(LogHistogram::middle(at))).collect();
    let mut parts = Vec::new();
    let mut part = Part { start: 0, peak: 0, end };
    let mut lowest = 0;
    for (at, &density) in densities.iter().enumerate() {
        // While the density falls from the peak, the lowest bin so far is a potential valley.
        if density > densities[part.peak] && lowest <= part.peak {
            part.peak = at;
            lowest = at;
        } else if density <= densities[lowest] {
            lowest = at;
        } else if lowest > part.peak {
            // If a valley has several bins of equal density, the cut is in the middle.
            let flat = (part.peak..=lowest).rev();
            let flat = flat.take_while(|&other| densities[other] <= densities[lowest]);
            let cut = flat.last().map_or(lowest, |from| usize::midpoint(from, lowest)) + 1;
            parts.push(Part { start: part.start, peak: part.peak, end: cut });
            part = Part { start: cut, peak: at, end };
            lowest = at;
        }
    }
    parts.push(part);
    parts
}

/// Returns the bin that contains the median.
fn median(histogram: &LogHistogram) -> usize {
    let mut below = 0.0;
    let reaches = histogram.bins.iter().position(|bin| {
        below += bin.count;
        2.0 * below >= histogram.count
    });
    reaches.unwrap_or(0)
}

fn merge_outliers(histogram: &LogHistogram, valleys: &mut Vec<usize>) {
    while let [first, .., last] = valleys[..] {
        if histogram.time_from(last) >= LEAST_TIME * histogram.time_from(first) {
            break;
        }
        valleys.pop();
    }
}
