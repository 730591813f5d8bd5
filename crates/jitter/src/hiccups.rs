//! Estimates the probability and duration of hiccups, with confidence intervals.
//!
//! The probability that an execution is a hiccup is the posterior probability of the components
//! beyond the last valley. The estimates use these probabilities as weights. The intervals also
//! cover the estimates that result from a cut at the valley, so they are wider if the two
//! classifications disagree. If hiccups occur in clusters, the effective sample size is smaller.
//!
//! The bias of P affects the jitter of hiccups and of other executions equally, so it cancels in
//! the duration, which is their difference. If no hiccups are found, the probability has an upper
//! bound: all executions beyond the clearest valley could be hiccups, even if that valley is not
//! significant.
//!
//! Cost: O(n) for the dispersion, O(bins) otherwise.

use serde::Serialize;

use super::executions::View;
use super::histogram::{LogHistogram, Moments, WIDTH};
use super::kinds::Reading;
use super::mixture::Mixture;
use super::modes::Modes;
use curtail_stats::{self as interval, Estimate, student_quantile};

/// The slow executions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hiccups {
    /// The number of hiccups: the sum of the executions' probabilities. 0 if J is not bimodal.
    pub count: f64,
    /// The probability that an execution has a hiccup. If J is not bimodal, this is 0 with an upper
    /// bound.
    pub probability: Estimate,
    /// The mean J of the hiccups minus the mean J of the other executions, in nanoseconds. `None`
    /// if J is not bimodal.
    pub duration_ns: Option<Estimate>,
    /// The smallest jitter at which an execution is more likely a hiccup than not, in nanoseconds.
    /// `None` if J is not bimodal.
    pub from_ns: Option<f64>,
    /// The jitter at the last valley, in nanoseconds. This is lower than `from_ns` if other slow
    /// executions overlap with the hiccups. `None` if J is not bimodal.
    pub valley_ns: Option<f64>,
    /// The index of dispersion, 1 or more: the variance of the hiccup counts, over time or by
    /// query, divided by the variance that independent hiccups would have. The intervals allow for
    /// this dispersion.
    pub dispersion: f64,
}

/// A mode between the body and the hiccups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Intermediate {
    /// The share of the executions in this mode.
    pub probability: f64,
    /// The mean J of this mode minus the mean J of the body, in nanoseconds.
    pub duration_ns: f64,
}

/// The moments of hiccups and of other executions.
struct Side {
    hiccups: Moments,
    others: Moments,
}

impl Side {
    /// Weights each bin by the share of its executions that are hiccups. The `least` executions
    /// whose time is P count as other executions.
    fn of(histogram: &LogHistogram, least: f64, weight: impl Fn(usize) -> f64) -> Side {
        let bins = || histogram.bins.iter().enumerate();
        let hiccups = Moments::sum(bins().map(|(at, bin)| (weight(at), bin)));
        let mut others = Moments::sum(bins().map(|(at, bin)| (1.0 - weight(at), bin)));
        others.count += least;
        Side { hiccups, others }
    }

    fn probability(&self, dispersion: f64) -> Estimate {
        let all = self.hiccups.count + self.others.count;
        interval::probability(self.hiccups.count / dispersion, all / dispersion)
    }

    fn duration(&self, dispersion: f64) -> Estimate {
        let value = (self.hiccups.mean() - self.others.mean()).max(0.0);
        let freedom = |side: &Moments| (side.count / dispersion - 1.0).max(1.0);
        let others = self.others.variance();
        // A hiccup adds to the usual jitter. The variance of that jitter includes rare pauses,
        // which may have affected only a few hiccups.
        let hiccups = self.hiccups.variance().max(others);
        let squares = hiccups / freedom(&self.hiccups) + others / freedom(&self.others);
        let chance = interval::mean(value, squares.sqrt(), self.hiccups.count / dispersion);
        // The jitter of the other executions includes measurement overhead (the network, a wakeup).
        // After a hiccup, the overhead may be anything from zero to twice as much, because a thread
        // that slept for a long time wakes up slowly.
        chance.widened(self.others.mean())
    }
}

/// Estimates the hiccups beyond the last valley.
pub(super) fn estimate(
    view: View<'_>,
    histogram: &LogHistogram,
    mixture: &Mixture,
    modes: &Modes,
) -> Hiccups {
    let least = view.iter().filter(|execution| execution.is_least).count() as f64;
    let Some(best) = modes.readings.first() else {
        return none(view, histogram, mixture, modes, least);
    };
    let from_ns = histogram.edge_ns(best.from);
    let dispersion = dispersion(view, from_ns);
    let readings = modes.readings.iter();
    let sides: Vec<Side> = readings.flat_map(|of| sides(histogram, mixture, least, of)).collect();
    // The resulting interval covers the intervals of all readings.
    let hull = |of: fn(&Side, f64) -> Estimate| {
        let [first, others @ ..] = &sides[..] else { return None };
        let first = of(first, dispersion);
        Some(others.iter().fold(first, |hull, side| hull.hull(of(side, dispersion))))
    };
    let Some(probability) = hull(Side::probability) else {
        return none(view, histogram, mixture, modes, least);
    };
    let valley = modes.readings.iter().map(|reading| reading.from).min();
    Hiccups {
        count: sides[0].hiccups.count,
        probability,
        duration_ns: hull(Side::duration),
        from_ns: Some(from_ns),
        valley_ns: valley.map(|bin| histogram.edge_ns(bin)),
        dispersion,
    }
}

/// Returns three versions of a reading's moments: with executions weighted by posterior
/// probability, with a cut, and with the hiccups that the body hides.
fn sides(histogram: &LogHistogram, mixture: &Mixture, least: f64, reading: &Reading) -> [Side; 3] {
    let cut = |at: usize| f64::from(u8::from(at >= reading.from));
    let posterior = |at: usize| match at >= reading.least {
        // A bin that is far from every component is classified by the side of the cut on which it
        // lies.
        true => {
            let share = reading.mixture.share_from(reading.component, LogHistogram::middle(at));
            share.unwrap_or_else(|| cut(at))
        }
        false => 0.0,
    };
    let soft = Side::of(histogram, least, posterior);
    let hard = Side::of(histogram, least, cut);
    // If the length of hiccups is exponential, its density at any length below the cut is at least
    // as high as at the cut.
    let hidden = match reading.has_valley {
        true => histogram.count * mixture.density(reading.from as f64 * WIDTH),
        false => 0.0,
    };
    let hidden = hidden.min(hard.others.count);
    let cut_ns = histogram.edge_ns(reading.from);
    let most = Moments {
        count: hard.hiccups.count + hidden,
        sum: hard.hiccups.sum + 0.5 * hidden * cut_ns,
        squares: hard.hiccups.squares + hidden * cut_ns.powi(2) / 3.0,
    };
    let others = Moments { count: hard.others.count - hidden, ..hard.others };
    [soft, hard, Side { hiccups: most, others }]
}

fn none(
    view: View<'_>,
    histogram: &LogHistogram,
    mixture: &Mixture,
    modes: &Modes,
    least: f64,
) -> Hiccups {
    let doubtful = modes.doubtful.min(histogram.bins.len());
    let count = histogram.count_in(doubtful..histogram.bins.len());
    // As above, this includes the hiccups that the body hides.
    let (dispersion, hidden) = match count > 0.0 {
        true => (
            dispersion(view, histogram.edge_ns(doubtful)),
            histogram.count * mixture.density(doubtful as f64 * WIDTH),
        ),
        false => (1.0, 0.0),
    };
    let count = (count + hidden).min(histogram.count);
    // Without repetitions there is no jitter.
    let trials = if histogram.count > 0.0 { histogram.count + least } else { 0.0 };
    let high = interval::probability(count / dispersion, trials / dispersion).high;
    Hiccups {
        count: 0.0,
        probability: Estimate { value: 0.0, low: 0.0, high },
        duration_ns: None,
        from_ns: None,
        valley_ns: None,
        dispersion: 1.0,
    }
}

/// Returns the modes between the body and the hiccups, separated at the valleys.
pub(super) fn intermediate(
    histogram: &LogHistogram,
    modes: &Modes,
    executions: f64,
) -> Vec<Intermediate> {
    let within = |bins: std::ops::Range<usize>| {
        Moments::sum(histogram.bins[bins].iter().map(|bin| (1.0, bin)))
    };
    let body = within(0..modes.valleys.first().copied().unwrap_or(0));
    let between = modes.valleys.windows(2).map(|pair| {
        let part = within(pair[0]..pair[1]);
        Intermediate {
            probability: part.count / executions,
            duration_ns: (part.mean() - body.mean()).max(0.0),
        }
    });
    between.collect()
}

/// The number of time intervals. Each interval is long enough to contain correlated executions.
const BATCHES: usize = 30;
/// The 97.5 % quantile of the standard normal distribution.
const NORMAL: f64 = 1.959_964;

/// Returns the index of dispersion, 1 or more: the variance of the counts of slow executions,
/// divided by the variance that independent executions would have. An execution is slow if its
/// jitter is at least `from_ns`.
///
/// This is the larger of two indices of dispersion: one for the counts in [`BATCHES`] time
/// intervals, and one for the counts by query. The effective sample size is the number of
/// executions divided by the index. The index is itself uncertain, so it is increased by the
/// squared ratio of Student's t to the normal quantile.
///
/// Source: the method of batch means (Law and Kelton, section 9.5), applied to indicators; Kish,
/// "Survey Sampling", 1965, for the effective sample size.
fn dispersion(view: View<'_>, from_ns: f64) -> f64 {
    let all = view.iter().count();
    // Each pair contains the number of executions in a group and the number of slow ones.
    let mut by_query = vec![(0.0, 0.0); view.numbers()];
    let mut by_time = vec![(0.0, 0.0); BATCHES.min(all)];
    for (at, execution) in view.iter().enumerate() {
        let slow = f64::from(u8::from(execution.jitter_ns() as f64 >= from_ns));
        let batch = (at as u128 * by_time.len() as u128 / all as u128) as usize;
        for counts in [&mut by_query[execution.query], &mut by_time[batch]] {
            counts.0 += 1.0;
            counts.1 += slow;
        }
    }
    index(by_query).max(index(by_time)).max(1.0)
}

fn index(mut groups: Vec<(f64, f64)>) -> f64 {
    groups.retain(|(all, _)| *all > 0.0);
    let all: f64 = groups.iter().map(|group| group.0).sum();
    let share = groups.iter().map(|group| group.1).sum::<f64>() / all.max(1.0);
    if groups.len() < 2 || share <= 0.0 || share >= 1.0 {
        return 1.0;
    }
    let freedom = (groups.len() - 1) as f64;
    let squares = groups.iter().map(|(all, slow)| (slow - all * share).powi(2) / all);
    let index = squares.sum::<f64>() / (share * (1.0 - share)) / freedom;
    if index > 1.0 { index * (student_quantile(freedom) / NORMAL).powi(2) } else { 1.0 }
}
