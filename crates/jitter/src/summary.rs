//! The columns of Table 6.1 in document 000 for one class, with confidence intervals and the
//! figures that they are computed from.
//!
//! Cost: O(n), plus the cost of a fit, which does not depend on n.

use serde::Serialize;

use super::bias::Bias;
use super::executions::View;
use super::hiccups::{self, Hiccups, Intermediate};
use super::histogram::{LogHistogram, Moments, WIDTH};
use super::kinds::ashman;
use super::mixture::Mixture;
use super::modality::SIGNIFICANT;
use super::modes::Modes;

/// The service time, its parts P and J, and the hiccups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The class. The class, or `None` for all queries.
    pub class: Option<String>,
    /// The number of executed queries.
    pub queries: usize,
    /// The number of executions.
    pub executions: usize,
    /// The mean service time of the executions, in nanoseconds. If there are no executions, all
    /// means are 0.
    pub mean_service_ns: f64,
    /// The mean P of the executions, in nanoseconds. It equals the mean over the queries if all of
    /// them were executed equally often.
    pub mean_p_ns: f64,
    /// The mean J of the executions, which is the service time beyond P, in nanoseconds.
    pub mean_j_ns: f64,
    /// The error by which P is overestimated and J underestimated. `None` if no query was executed
    /// at least 8 times.
    pub bias: Option<Bias>,
    /// Whether J has a slow component.
    pub modality: Modality,
    /// The slow component.
    pub hiccups: Hiccups,
    /// The modes between the body of J and the hiccups, shortest first. Often machine pauses.
    pub intermediate: Vec<Intermediate>,
}

/// Whether the distribution of J is bimodal, and how well the mixture describes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Modality {
    /// Whether there is a valley, at a significance of 1 %. False for any unimodal body, even with
    /// a heavy tail.
    pub bimodal: bool,
    /// An upper bound on the probability that the clearest valley is due to chance, from 0 to 1.
    pub p_value: f64,
    /// Ashman's D between hiccups and other executions, on the logarithmic scale: √2 times the
    /// distance between their means, divided by the root of the sum of their variances. If it
    /// exceeds 2, the two groups are well separated. `None` if J is not bimodal.
    pub ashman_d: Option<f64>,
    /// The number of components of the mixture.
    pub components: usize,
    /// The Kolmogorov–Smirnov distance between the mixture and the data, from 0 to 1. It is 0 if
    /// there are no data.
    pub distance: f64,
}

impl View<'_> {
    /// Summarizes the executions. Without executions, or with a single one per query, the interval
    /// of the hiccup probability is 0 to 1.
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
        ashman_d: from.map(|from| {
            let sides = [0..from, from..histogram.bins.len()];
            let [body, others] = sides.map(|side| {
                let of = LogHistogram::logarithms(&histogram.bins, side);
                // The variance is at least the variance within a bin.
                Moments { squares: of.squares + of.count * WIDTH * WIDTH, ..of }
            });
            ashman(&body, &others)
        }),
        components: mixture.components.len(),
        distance: if histogram.count > 0.0 { mixture.distance(histogram) } else { 0.0 },
    }
}
