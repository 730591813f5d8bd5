//! What Table 6.1 of document 000 has of a class, with intervals, and what it rests on.
//!
//! Cost: O(n), and a fit whose cost does not grow with n.

use serde::Serialize;

use super::bias::Bias;
use super::executions::View;
use super::hiccups;
use super::histogram::{LogHistogram, WIDTH};
use super::interval::Estimate;
use super::mixture::Mixture;
use super::modality::SIGNIFICANT;
use super::modes::Modes;

/// Service time, its parts P and J, and hiccups. Serializes to JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The class; none for all queries.
    pub class: Option<String>,
    /// Queries that were executed.
    pub queries: usize,
    /// Executions of them.
    pub executions: usize,
    /// Mean service time of the executions, in nanoseconds; 0 without any, as the other means.
    pub mean_service_ns: f64,
    /// Mean P of the executions, in nanoseconds: the mean over the queries if each was executed as
    /// often.
    pub mean_p_ns: f64,
    /// Mean J of the executions, in nanoseconds: what the service time has beyond P.
    pub mean_j_ns: f64,
    /// By how much P is still too large, and J too small; none if no query was executed 8 times.
    pub bias: Option<Bias>,
    /// Whether J has a slow component.
    pub modality: Modality,
    /// That component.
    pub hiccups: Hiccups,
    /// Modes between the body of J and the hiccups, the shortest first: often pauses of the
    /// machine.
    pub intermediate: Vec<Intermediate>,
}

/// Whether the distribution of J is bimodal, and how well the mixture describes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Modality {
    /// There is a valley, at a significance of 1 %. False for any unimodal body, however heavy its
    /// tail.
    pub bimodal: bool,
    /// A bound on the probability that the clearest valley is chance, from 0 to 1.
    pub p_value: f64,
    /// Ashman's D, on the logarithmic scale: √2 times the distance of the means of hiccups and
    /// others over the root of the sum of their variances. Above 2 they are well apart. None if not
    /// bimodal.
    pub ashman_d: Option<f64>,
    /// Components of the mixture.
    pub components: usize,
    /// The distance of Kolmogorov and Smirnov between the mixture and the data, from 0 to 1; 0
    /// without data.
    pub distance: f64,
}

/// The slow executions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Intermediate {
    /// The share of the executions that are in it.
    pub probability: f64,
    /// Their mean J minus that of the body, in nanoseconds.
    pub duration_ns: f64,
}

impl View<'_> {
    /// Summarizes the executions. Of none, or of a single one of each query, all that can be told
    /// is that the probability of hiccups is from 0 to 1.
    #[must_use]
    pub fn summarize(&self) -> Summary {
        let histogram = LogHistogram::of(*self);
        let mixture = Mixture::fit(&histogram);
        let modes = Modes::find(&histogram, &mixture);
        let executions = self.iter().count();
        let sum = |of: &dyn Fn(u64, u64) -> u64| -> u128 {
            self.iter().map(|execution| u128::from(of(execution.service_ns, execution.p_ns))).sum()
        };
        let mean = |sum: u128| sum as f64 / executions.max(1) as f64;
        let (service, p) = (sum(&|service, _| service), sum(&|_, p| p));
        Summary {
            class: self.class().map(str::to_owned),
            queries: self.queries().count(),
            executions,
            mean_service_ns: mean(service),
            mean_p_ns: mean(p),
            mean_j_ns: mean(service - p),
            bias: self.bias(),
            modality: modality(&histogram, &mixture, &modes),
            hiccups: hiccups::estimate(*self, &histogram, &mixture, &modes),
            intermediate: hiccups::intermediate(&histogram, &modes, executions.max(1) as f64),
        }
    }
}

fn modality(histogram: &LogHistogram, mixture: &Mixture, modes: &Modes) -> Modality {
    let from = modes.hiccups_from();
    Modality {
        bimodal: from.is_some() && modes.p_value < SIGNIFICANT,
        p_value: modes.p_value,
        ashman_d: from.map(|from| ashman(histogram, from)),
        components: mixture.components.len(),
        distance: if histogram.count > 0.0 { mixture.distance(histogram) } else { 0.0 },
    }
}

/// Source: Ashman, Bird and Zepf, "Detecting bimodality in astronomical datasets", 1994; of the two
/// sides of the valley. A variance is that of a bin at least.
fn ashman(histogram: &LogHistogram, from: usize) -> f64 {
    let moments = |start: usize, end: usize| {
        let places = (start..end).map(|at| (LogHistogram::middle(at), histogram.bins[at].count));
        let (count, sum, squares) = places
            .fold((0.0, 0.0, 0.0), |(count, sum, squares), (y, of)| {
                (count + of, sum + of * y, squares + of * y * y)
            });
        let mean = sum / f64::max(count, 1.0);
        let variance: f64 = squares / f64::max(count, 1.0) - mean * mean;
        (mean, variance.max(WIDTH * WIDTH))
    };
    let (body, others) = (moments(0, from), moments(from, histogram.bins.len()));
    std::f64::consts::SQRT_2 * (others.0 - body.0).abs() / (body.1 + others.1).sqrt()
}
