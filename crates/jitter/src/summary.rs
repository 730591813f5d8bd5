//! What Table 6.1 of document 000 has of a class, with intervals, and what it rests on.
//!
//! Cost: O(n), and a fit whose cost does not grow with n.

use serde::Serialize;

use super::bias::Bias;
use super::executions::View;
use super::hiccups::{self, Hiccups, Intermediate};
use super::histogram::{LogHistogram, Moments, WIDTH};
use super::kinds::ashman;
use super::mixture::Mixture;
use super::modality::SIGNIFICANT;
use super::modes::Modes;

/// Service time, its parts P and J, and hiccups. Serializes to JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

impl View<'_> {
    /// Summarizes the executions. Of none, or of a single one of each query, all that can be told
    /// is that the probability of hiccups is from 0 to 1.
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
                // A variance is that of a bin at least.
                Moments { squares: of.squares + of.count * WIDTH * WIDTH, ..of }
            });
            ashman(&body, &others)
        }),
        components: mixture.components.len(),
        distance: if histogram.count > 0.0 { mixture.distance(histogram) } else { 0.0 },
    }
}
