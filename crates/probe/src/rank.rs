//! Ranks the stages of a profile by their contribution to the variability of latency.
//!
//! Source: document 004, part 2, "Computing Variability of Service Time at Each Stage", which ranks
//! by Var(dᵢ). Stages are rarely independent, so this module defines the share of stage i as
//! Cov(dᵢ, T)/Var(T). If the total T is the sum of its stages, the shares add up to 1. The stage's
//! own variance divided by Var(T) is also reported.
//!
//! Cost: that of the intervals (`resample`), plus a few divisions per stage.

use serde::Serialize;

use crate::causes::{Cause, Pressure, of_machine, of_stage};
use crate::moments::Moments;
use crate::profile::{Profile, Whole, Window};
use crate::resample;

/// The minimum share of the variance for which the causes of a stage are computed.
pub const SHARE_MIN: f64 = 0.1;

/// A profile's stages, ordered by their share of the variance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// The number of stamped requests.
    pub requests: u64,
    /// The number of windows, from which the intervals are computed.
    pub windows: usize,
    /// The mean and spread of the whole request's duration.
    pub total: Spread,
    /// The stages, in descending order of their share of the variance.
    pub stages: Vec<Stage>,
    /// 1 minus the sum of the stages' shares. This is 0 if the total is the sum of its stages.
    pub unattributed_share: f64,
    /// Whether the mean and the variance point to the same stage.
    #[serde(skip)]
    pub guide: Guide,
    /// The share of the resamples in which the first stage of this ranking is also first. `None` if
    /// there are too few windows.
    pub first_in: Option<f64>,
    /// The pressures from the machine on the whole process.
    pub machine: Vec<Pressure>,
}

/// A duration and its variability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names of the fields document them")]
pub struct Spread {
    pub mean_ns: f64,
    pub sd_ns: f64,
    /// The coefficient of variation: the standard deviation divided by the mean.
    pub cv: f64,
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
}

/// A stage of a ranking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// The index among the profile's stages.
    #[serde(skip)]
    pub at: usize,
    /// The name.
    pub name: String,
    /// The duration and its variability.
    #[serde(flatten)]
    pub spread: Spread,
    /// The mean divided by the total's mean.
    pub mean_share: f64,
    /// The stage's own variance divided by the total's, which ignores correlation with other
    /// stages.
    pub own_share: f64,
    /// The stage's covariance with the total, divided by the total's variance. The share is
    /// negative if the stage tends to be short when the request is long.
    pub variance_share: f64,
    /// The 95 % interval of `variance_share`. `None` if there are too few windows.
    pub variance_share_ci95: Option<[f64; 2]>,
    /// The stage's share of the time by which the slowest requests exceed the mean duration. `None`
    /// if no slow requests were kept.
    pub excess_share: Option<f64>,
    /// The share of the variance, computed without correcting the clocks. It exists only for traces
    /// whose clocks were corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_share: Option<f64>,
    /// An upper bound on the part of the share that may belong to other stages. This field is set
    /// only for traces.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncertain_share: f64,
    /// The likely causes, the most likely first.
    pub causes: Vec<Cause>,
}

/// Whether the mean is a good guide to the stage that varies most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Guide {
    /// All requests took the same time.
    Steady,
    /// The stage with the longest mean also has the largest share of the variance.
    Agree {
        /// That stage.
        stage: String,
    },
    /// The mean points to a different stage than the variance does.
    Disagree {
        /// The stage with the longest mean.
        by_mean: String,
        /// The stage with the largest share of the variance.
        by_variance: String,
    },
    /// The uncertainty of the spans may be larger than the lead of the first stage.
    CannotTell {
        /// The first stage.
        by_variance: String,
        /// The part of its share of the variance that may belong to other stages.
        uncertain_share: f64,
    },
}

/// Ranks the stages of a profile. `seed` determines the resamples.
#[must_use]
pub fn rank(profile: &Profile, seed: u64) -> Ranking {
    let whole = profile.whole();
    let (moments, total, count) = (&whole.moments, profile.total(), profile.stages.len());
    let shares = |of: &Moments| -> Vec<f64> {
        let variance = of.variance(total);
        (0..count).map(|at| over(of.covariance(at, total), variance)).collect()
    };
    let points = shares(moments);
    let resampled = resample::moments(&profile.windows, seed, shares);
    let excess = excess(profile, &whole);
    let uncorrected = profile.traces.as_ref().map_or(&[][..], |traces| &traces.uncorrected);
    let mut stages: Vec<Stage> = (0..count)
        .map(|at| {
            let values = resampled.iter().map(|shares| shares[at]).collect();
            Stage {
                at,
                name: profile.stages[at].clone(),
                spread: spread(&whole, at, at),
                mean_share: over(moments.mean(at), moments.mean(total)),
                own_share: over(moments.variance(at), moments.variance(total)),
                variance_share: points[at],
                variance_share_ci95: resample::interval(points[at], values, profile.windows.len()),
                excess_share: excess.as_ref().map(|shares| shares[at]),
                uncorrected_share: uncorrected.get(at).copied(),
                uncertain_share: uncertain(profile, at),
                causes: match points[at] >= SHARE_MIN {
                    true => of_stage(profile, moments, at),
                    false => Vec::new(),
                },
            }
        })
        .collect();
    stages.sort_by(|a, b| b.variance_share.total_cmp(&a.variance_share));
    let first = stages.first().map(|stage| stage.at);
    let is_first = |shares: &&Vec<f64>| first == top(shares.iter().copied());
    let firsts = resampled.iter().filter(is_first).count();
    Ranking {
        requests: moments.requests(),
        windows: profile.windows.len(),
        total: spread(&whole, total, count),
        unattributed_share: rounded(1.0 - points.iter().sum::<f64>()),
        guide: guide(&stages, moments.variance(total)),
        first_in: (!resampled.is_empty()).then(|| firsts as f64 / resampled.len() as f64),
        stages,
        machine: of_machine(profile),
    }
}

/// Returns the duration of a request: the sum of its stages.
#[must_use]
pub fn total_ns(of: &Whole) -> u64 {
    of.stages_ns.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
}

/// Returns the spread of a value, from its moments and its histogram.
pub(crate) fn spread(window: &Window, value: usize, histogram: usize) -> Spread {
    let (mean_ns, sd_ns) = (window.moments.mean(value), window.moments.variance(value).sqrt());
    let quantile = |q| window.histograms[histogram].quantile(q);
    let (p50_ns, p99_ns) = (quantile(0.5), quantile(0.99));
    Spread { mean_ns, sd_ns, cv: over(sd_ns, mean_ns), p50_ns, p99_ns }
}

/// Returns each stage's share of the time by which the slowest requests exceed the mean duration.
fn excess(profile: &Profile, whole: &Window) -> Option<Vec<f64>> {
    let slow = |at: usize| profile.slow.iter().map(|of| of.stages_ns[at] as f64).sum::<f64>();
    let n = profile.slow.len() as f64;
    let beyond = |at| slow(at) / n - whole.moments.mean(at);
    let beyond: Vec<f64> = (0..profile.stages.len()).map(beyond).collect();
    let all: f64 = beyond.iter().sum();
    (n > 0.0 && all > 0.0).then(|| beyond.iter().map(|ns| ns / all).collect())
}

/// Returns the part of a stage's share of the variance that may belong to other stages.
fn uncertain(profile: &Profile, stage: usize) -> f64 {
    let uncertain = profile.traces.iter().flat_map(|traces| &traces.uncertain);
    let of_stage =
        uncertain.filter(|uncertainty| uncertainty.stage == stage && uncertainty.why.is_open());
    of_stage.map(|uncertainty| uncertainty.variance_share.max(0.0)).sum()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

fn guide(stages: &[Stage], variance: f64) -> Guide {
    let second = stages.get(1).map_or(0.0, |stage| stage.variance_share.max(0.0));
    let unsure = stages.first().filter(|first| {
        first.uncertain_share > 0.0
            && first.variance_share - first.uncertain_share < second.max(first.uncertain_share)
    });
    if let Some(first) = unsure.filter(|_| variance > 0.0) {
        let (by_variance, uncertain_share) = (first.name.clone(), first.uncertain_share);
        return Guide::CannotTell { by_variance, uncertain_share };
    }
    let by_mean = top(stages.iter().map(|stage| stage.spread.mean_ns));
    match (stages.first(), by_mean) {
        (Some(first), Some(0)) if variance > 0.0 => Guide::Agree { stage: first.name.clone() },
        (Some(first), Some(mean)) if variance > 0.0 => {
            Guide::Disagree { by_mean: stages[mean].name.clone(), by_variance: first.name.clone() }
        }
        _ => Guide::Steady,
    }
}

/// Returns the index of the largest value. If several values are equal, this is the first one.
fn top(of: impl Iterator<Item = f64>) -> Option<usize> {
    of.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(at, _)| at)
}

/// Sets the rounding errors of floating-point sums to 0.
fn rounded(share: f64) -> f64 {
    if share.abs() < 1e-9 { 0.0 } else { share }
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub(crate) fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
