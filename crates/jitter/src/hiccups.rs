//! Probability and duration of hiccups, and how sure they are.
//!
//! An execution belongs to the hiccups with the posterior probability of the components beyond the
//! last valley. The estimates weigh all executions so. The intervals hold those of these weights
//! and those of a cut at the valley, so that they widen where it matters who belongs to whom.
//! Clusters reduce the sample size.
//!
//! The bias of P is in the jitter of hiccups as much as in that of the others, so that it is not in
//! the duration, their difference. Where nothing is found, the probability has an upper bound: as
//! many as are behind the clearest valley, however doubtful, might be hiccups.
//!
//! Cost: O(n) for the dispersion, O(bins) else.

use serde::Serialize;

use super::executions::View;
use super::histogram::{LogHistogram, Moments, WIDTH};
use super::interval::{self, Estimate, student_quantile};
use super::kinds::Reading;
use super::mixture::Mixture;
use super::modes::Modes;

/// The slow executions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hiccups {
    /// How many executions have one: the sum of the probabilities that each has. 0 if J is not
    /// bimodal.
    pub count: f64,
    /// The probability that an execution has one. If J is not bimodal, 0 with an upper bound.
    pub probability: Estimate,
    /// Their mean J minus that of the others, in nanoseconds; none if J is not bimodal.
    pub duration_ns: Option<Estimate>,
    /// The jitter from which on an execution is more likely to have one than not, in nanoseconds;
    /// none if J is not bimodal.
    pub from_ns: Option<f64>,
    /// The jitter at the last valley, in nanoseconds: less where other slow executions overlap with
    /// the hiccups; none if J is not bimodal.
    pub valley_ns: Option<f64>,
    /// By what factor their counts, over time or by query, vary more than those of independent
    /// ones; 1 or more. The intervals allow for it.
    pub dispersion: f64,
}

/// A mode between the body and the hiccups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Intermediate {
    /// The share of the executions that are in it.
    pub probability: f64,
    /// Their mean J minus that of the body, in nanoseconds.
    pub duration_ns: f64,
}

/// What there is to know for intervals.
struct Side {
    hiccups: Moments,
    others: Moments,
}

impl Side {
    /// Hiccups have these weights by bin; the executions that P is from are `least` more others.
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
        // A hiccup comes on top of what the others have, too: rare pauses, of which few hiccups may
        // have seen any.
        let hiccups = self.hiccups.variance().max(others);
        let squares = hiccups / freedom(&self.hiccups) + others / freedom(&self.others);
        let chance = interval::mean(value, squares.sqrt(), self.hiccups.count / dispersion);
        // What an execution's measurement adds (the network, a wake-up) is in the jitter of the others.
        // After a hiccup it may be another: who has slept for long wakes up slowly. Up to nothing, or
        // to twice as much.
        chance.widened(self.others.mean())
    }
}

/// The hiccups beyond the last valley.
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
    // What any of them allows.
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

/// The hiccups of a reading: by posterior probabilities; by a cut; and with those that the body
/// hides.
fn sides(histogram: &LogHistogram, mixture: &Mixture, least: f64, reading: &Reading) -> [Side; 3] {
    let cut = |at: usize| f64::from(u8::from(at >= reading.from));
    let posterior = |at: usize| match at >= reading.least {
        // What no component comes near is on its side of the cut.
        true => {
            let share = reading.mixture.share_from(reading.component, LogHistogram::middle(at));
            share.unwrap_or_else(|| cut(at))
        }
        false => 0.0,
    };
    let soft = Side::of(histogram, least, posterior);
    let hard = Side::of(histogram, least, cut);
    // Hiccups whose density is as high down to no length as it is at the cut: exponential ones.
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
    // And those that the body hides, as above.
    let (dispersion, hidden) = match count > 0.0 {
        true => (
            dispersion(view, histogram.edge_ns(doubtful)),
            histogram.count * mixture.density(doubtful as f64 * WIDTH),
        ),
        false => (1.0, 0.0),
    };
    let count = (count + hidden).min(histogram.count);
    // Without repetitions there is no jitter to find any in.
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

/// The modes between body and hiccups, by cuts at the valleys.
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

/// Stretches of time: long ones, so that whatever is correlated within one counts.
const BATCHES: usize = 30;
/// The 97.5 % quantile of the standard normal.
const NORMAL: f64 = 1.959_964;

/// Whether hiccups come in clusters: the index of dispersion of the counts in [`BATCHES`] stretches of time,
/// and of the counts by query; the larger of the two. So many executions tell as little as that many fewer
/// independent ones would. The index is itself uncertain: it is increased by what Student's t has over the
/// normal distribution.
///
/// Source: the method of batch means (Law and Kelton, section 9.5), on indicators; effective sample size of
/// Kish, "Survey Sampling", 1965.
///
/// By what factor counts of executions with a jitter of at least `from_ns` vary more than
/// independent ones; 1 or more.
fn dispersion(view: View<'_>, from_ns: f64) -> f64 {
    let all = view.iter().count();
    // How many there are in each group, and how many of them are slow.
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
