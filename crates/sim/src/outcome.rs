//! The results of an experiment: point estimates over all replications, with confidence intervals.
//!
//! A percentile is taken over all measured requests together. Its confidence interval is Student's,
//! computed from the percentiles of the independent replications. Differences between policies are
//! paired: both policies meet the same arrivals and the same draws, so most of the noise cancels.

use std::collections::BTreeSet;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::candidate::Candidate;
use crate::error::Error;
use crate::experiment::UNIT_NS;
use crate::figures::{Figures, by_name, histogram, name};
use crate::load::ServerLoad;
use crate::stability::{self, Unstable};
use crate::tally::{Accuracy, Tally, Windowed};
use crate::train::Trained;
use curtail_stats::student;

/// Checks that percentiles are above 0 and below 100 and have different names.
pub fn check_percentiles(percentiles: &[f64]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for &percentile in percentiles {
        let why = if !(percentile > 0.0 && percentile < 100.0) {
            "use numbers above 0 and below 100, like 50,99,99.9".to_owned()
        } else if !names.insert(name(percentile)) {
            // Different percentiles can have the same name, such as 99.9 and 9.99.
            format!("another one is also called {}; remove one", name(percentile))
        } else {
            continue;
        };
        return Err(Error::Percentile { percentile, why });
    }
    Ok(())
}

/// The utilizations of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilization {
    /// The utilization that was requested.
    pub offered: f64,
    /// λ·S̄ divided by the capacity, for the measured requests.
    pub with_jitter: f64,
    /// The share of time for which slots were busy with copies of any kind.
    pub busy: Option<f64>,
}

/// The queues of the shards, in front of their servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// The mean time from arrival to the start of the first copy, in the unit of the experiment.
    pub mean_wait: f64,
    /// The mean number of waiting queries.
    pub mean_length: f64,
}

/// The differences from the first policy of an experiment, in the unit of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Versus {
    /// The first policy.
    pub policy: String,
    /// The differences between the figures that both policies have.
    pub difference: Figures,
    /// Half the width of the 95 % confidence interval of the differences, which are paired by
    /// replication.
    pub ci95: Figures,
}

/// The result of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The name of the policy.
    pub policy: String,
    /// For a trained policy, the policy that training chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<String>,
    /// For a trained policy, the share of queries that may get a second copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// The utilization of the servers under this policy.
    pub utilization: Utilization,
    /// Whether the runs reach a steady state.
    pub stable: bool,
    /// The reason why there is no steady state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unstable_because: Option<Unstable>,
    /// The unit of latencies: `ms`, or `1` for the experiment's own unit.
    pub unit: &'static str,
    /// The latencies of requests. `None` if the policy is unstable.
    pub request: Option<Figures>,
    /// Half the width of the 95 % confidence intervals of the latencies. `None` if there is only
    /// one replication.
    pub ci95: Option<Figures>,
    /// The latencies of queries.
    pub query: Option<Figures>,
    /// The latencies of this policy minus those of the first policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus_first: Option<Versus>,
    /// The mean number of copies per query.
    pub copies_per_query: Option<f64>,
    /// The share of queries with more than one copy.
    pub hedged_fraction: Option<f64>,
    /// The share of the busy time spent on copies whose response was not used.
    pub wasted_fraction: Option<f64>,
    /// Queues in front of the servers.
    pub queue: Option<Queue>,
    /// The accuracy of pre-emptive cancellations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<Accuracy>,
    /// The windows, beginning at the change. The windows have no percentiles if a queue overflowed,
    /// because the overflow ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<Window>>,
    /// The load of servers that clients share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerLoad>,
    /// The number of measured requests without a response.
    pub requests_failed: u64,
    /// The number of queries in all replications, including the warm-up.
    pub queries_simulated: u64,
    /// The time that the simulation took, in seconds, summed over the cores.
    pub elapsed_s: f64,
    /// The figures of each replication, for paired differences.
    #[serde(skip)]
    pub replications: Vec<Figures>,
    /// All latencies of requests, in ns.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) experiment: &'a crate::Experiment,
    pub(crate) candidate: Candidate,
    pub(crate) trained: Option<Trained>,
    pub(crate) percentiles: &'a [f64],
    pub(crate) elapsed_s: f64,
}

impl Outcome {
    pub(crate) fn new(about: About<'_>, runs: &[Tally]) -> Self {
        let About { experiment, candidate, trained, percentiles, elapsed_s } = about;
        let mut all = Tally::new();
        runs.iter().for_each(|run| all.add(run));
        let unstable_because = stability::judge(experiment, candidate, runs);
        let stable = unstable_because.is_none();
        let figures = |run: &Tally| Figures::of(&run.requests, run.request_ns as f64, percentiles);
        let replications: Vec<Figures> = runs.iter().map(figures).collect();
        let queries = all.queries.len() as f64;
        let per = |count: f64, of: f64| (of > 0.0).then_some(count / of);
        let when_stable = |figure: Option<f64>| figure.filter(|_| stable);
        let unit = UNIT_NS as f64;
        let (gap_ns, with_jitter) = experiment.measured_load();
        let queue = per(all.waited_ns as f64, queries).map(|wait| Queue {
            mean_wait: wait / unit,
            // According to Little's law, the mean length is the product of the rate and the mean
            // wait.
            mean_length: wait / gap_ns,
        });
        Self {
            policy: candidate.to_string(),
            trained: trained.map(|trained| trained.policy.to_string()),
            budget: trained.map(|trained| trained.budget),
            utilization: Utilization {
                offered: experiment.utilization,
                with_jitter,
                busy: per(all.busy_ns as f64, all.capacity_ns as f64),
            },
            stable,
            unstable_because,
            unit: if experiment.has_units { "ms" } else { "1" },
            request: stable.then(|| Figures::of(&all.requests, all.request_ns as f64, percentiles)),
            ci95: (stable && runs.len() > 1)
                .then(|| Figures::across(&replications, student::half_width)),
            query: stable.then(|| Figures::of(&all.queries, all.query_ns as f64, percentiles)),
            versus_first: None,
            copies_per_query: when_stable(per(all.copies as f64, queries)),
            hedged_fraction: when_stable(per(all.hedged as f64, queries)),
            wasted_fraction: when_stable(
                // Responses to copies from before the measured period add useful work, so the ratio
                // can exceed 1.
                per(all.useful_ns as f64, all.busy_ns as f64).map(|useful| (1.0 - useful).max(0.0)),
            ),
            queue: queue.filter(|_| stable),
            predictor: (all.accuracy.overall.all > 0).then_some(all.accuracy),
            windows: all
                .windows
                .as_ref()
                .map(|windows| by_window(windows, percentiles, !all.overflowed)),
            servers: all.load.as_ref().map(|load| load.figures(percentiles)),
            requests_failed: all.failed,
            queries_simulated: runs.len() as u64
                * experiment.requests
                * u64::from(experiment.world.shards()),
            elapsed_s,
            replications,
            histogram: all.requests,
        }
    }

    /// Compares this outcome with another one of the same experiment. Does nothing if either
    /// outcome is unstable.
    pub(crate) fn compare(&mut self, first: &Self) {
        let Some((ours, theirs)) = self.request.as_ref().zip(first.request.as_ref()) else {
            return;
        };
        let pairs = self.replications.iter().zip(&first.replications);
        let differences: Vec<Figures> = pairs.map(|(a, b)| a.minus(b)).collect();
        self.versus_first = Some(Versus {
            policy: first.policy.clone(),
            difference: ours.minus(theirs),
            ci95: Figures::across(&differences, student::half_width),
        });
    }
}

/// The requests of one window, over all replications.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// The first request of the window, counted from the change.
    pub from: u64,
    /// The number of requests with a response.
    pub requests: u64,
    /// The percentiles of their latencies, in the unit of the experiment. A figure is `None` if
    /// fewer than ten samples are above it.
    #[serde(flatten, serialize_with = "by_name")]
    pub percentiles: Vec<(f64, Option<f64>)>,
}

/// Returns the figures of each window, with percentiles if `known` is true.
fn by_window(of: &Windowed, percentiles: &[f64], known: bool) -> Vec<Window> {
    let mut all = histogram();
    let each = of.counts.iter().enumerate().map(|(index, window)| {
        all.reset();
        for (&class, &count) in window {
            all.saturating_record_n(class, count);
        }
        let Figures { mut percentiles, .. } = Figures::of(&all, 0.0, percentiles);
        percentiles.iter_mut().for_each(|(_, figure)| *figure = figure.filter(|_| known));
        Window { from: index as u64 * of.windows.length, requests: all.len(), percentiles }
    });
    each.collect()
}
