//! Which stage the latency owes its variability to.
//!
//! Source: document 004, part 2, "Computing Variability of Service Time at Each Stage", which ranks by Var(dᵢ). Stages
//! are rarely independent, so here the share of stage i is Cov(dᵢ, T)/Var(T): where the total T is the sum of its
//! stages, the shares add up to 1. The stage's own variance over Var(T) stands beside it.
//!
//! Cost: that of the intervals (`resample`); all else is a few divisions per stage.

use serde::Serialize;

use crate::causes::{Cause, Pressure, of_machine, of_stage};
use crate::moments::Moments;
use crate::profile::{Profile, Whole, Window};
use crate::resample;

/// Stages with less of the variance are not asked for their causes.
pub const SHARE_MIN: f64 = 0.1;

/// A profile's stages by their share of the variance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// Requests that were stamped.
    pub requests: u64,
    /// Windows of time, over which intervals are taken.
    pub windows: usize,
    /// Of the whole request.
    pub total: Spread,
    /// The largest share of the variance first.
    pub stages: Vec<Stage>,
    /// What the stages' shares lack to 1; 0 where the total is the sum of its stages.
    pub unattributed_share: f64,
    /// If mean and variance point at the same stage.
    #[serde(skip)]
    pub guide: Guide,
    /// In which share of the resamples the first stage comes first, too; none of too few windows.
    pub first_in: Option<f64>,
    /// What the machine did to the whole process meanwhile.
    pub machine: Vec<Pressure>,
}

/// How long something takes, and how much that varies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub sd_ns: f64,
    /// The coefficient of variation: the standard deviation over the mean.
    pub cv: f64,
    /// The median.
    pub p50_ns: Option<f64>,
    /// The 99th percentile.
    pub p99_ns: Option<f64>,
}

/// A stage of a ranking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Where it is among the profile's stages.
    #[serde(skip)]
    pub at: usize,
    /// What it is called.
    pub name: String,
    /// How long it takes.
    #[serde(flatten)]
    pub spread: Spread,
    /// Its mean over the total's.
    pub mean_share: f64,
    /// Its own variance over the total's, as if it were independent of the others.
    pub own_share: f64,
    /// Its covariance with the total over the total's variance. Below 0 if it is short where others are long.
    pub variance_share: f64,
    /// The 95 % interval of this share; none of too few windows.
    pub variance_share_ci95: Option<[f64; 2]>,
    /// Its part of what the slowest requests take beyond the mean; none where no slow ones were kept.
    pub excess_share: Option<f64>,
    /// Of traces whose clocks were corrected: its share of the variance without that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_share: Option<f64>,
    /// Of traces: how much of its share may be other stages', at most.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncertain_share: f64,
    /// What likely makes it vary, the most likely first.
    pub causes: Vec<Cause>,
}

/// Where mean and variance point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Guide {
    /// Every request took the same time.
    Steady,
    /// The longest stage also has the most of the variance.
    Agree {
        /// That stage.
        stage: String,
    },
    /// The mean is the wrong guide.
    Disagree {
        /// The stage that is the longest on average.
        by_mean: String,
        /// The stage with the most of the variance.
        by_variance: String,
    },
    /// What spans lack may be more than what sets the first stage apart.
    CannotTell {
        /// The first stage.
        by_variance: String,
        /// How much of its share of the variance may be other stages'.
        uncertain_share: f64,
    },
}

/// Ranks the stages of a profile; `seed` decides the resamples.
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

/// How long a request took: the sum of its stages.
#[must_use]
pub fn total_ns(of: &Whole) -> u64 {
    of.stages_ns.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
}

/// Of a value of the moments, and its histogram.
pub(crate) fn spread(window: &Window, value: usize, histogram: usize) -> Spread {
    let (mean_ns, sd_ns) = (window.moments.mean(value), window.moments.variance(value).sqrt());
    let quantile = |q| window.histograms[histogram].quantile(q);
    let (p50_ns, p99_ns) = (quantile(0.5), quantile(0.99));
    Spread { mean_ns, sd_ns, cv: over(sd_ns, mean_ns), p50_ns, p99_ns }
}

/// Per stage, its part of what the slowest requests take beyond the mean.
fn excess(profile: &Profile, whole: &Window) -> Option<Vec<f64>> {
    let slow = |at: usize| profile.slow.iter().map(|of| of.stages_ns[at] as f64).sum::<f64>();
    let n = profile.slow.len() as f64;
    let beyond = |at| slow(at) / n - whole.moments.mean(at);
    let beyond: Vec<f64> = (0..profile.stages.len()).map(beyond).collect();
    let all: f64 = beyond.iter().sum();
    (n > 0.0 && all > 0.0).then(|| beyond.iter().map(|ns| ns / all).collect())
}

/// How much of a stage's share of the variance may be other stages'.
fn uncertain(profile: &Profile, stage: usize) -> f64 {
    let uncertain = profile.traces.iter().flat_map(|traces| &traces.uncertain);
    let of_stage =
        uncertain.filter(|uncertainty| uncertainty.stage == stage && uncertainty.why.is_open());
    of_stage.map(|uncertainty| uncertainty.variance_share.max(0.0)).sum()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
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

/// Where the largest is; the first of equals.
fn top(of: impl Iterator<Item = f64>) -> Option<usize> {
    of.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(at, _)| at)
}

/// Without what sums of floating-point numbers leave.
fn rounded(share: f64) -> f64 {
    if share.abs() < 1e-9 { 0.0 } else { share }
}

/// A share of something; of nothing, none.
pub(crate) fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
