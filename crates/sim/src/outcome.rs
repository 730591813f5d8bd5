//! What came of an experiment: point estimates over all replications, and how sure they are.
//!
//! A percentile is that of all measured requests together. Its confidence interval is Student's,
//! from the percentiles of the independent replications. Differences between policies are paired:
//! both meet the same arrivals and the same draws, so most of the noise cancels.

use std::collections::BTreeSet;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::candidate::Candidate;
use crate::error::Error;
use crate::experiment::UNIT_NS;
use crate::figures::{Figures, histogram, name};
use crate::load::ServerLoad;
use crate::shard::Accuracy;
use crate::stability::{self, Unstable};
use crate::student;
use crate::tally::{Tally, Windowed};
use crate::train::Trained;

/// Percentiles that can be reported: each above 0 and below 100, and with a name of its own.
pub fn check_percentiles(percentiles: &[f64]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for &percentile in percentiles {
        let why = if !(percentile > 0.0 && percentile < 100.0) {
            "give numbers above 0 and below 100, as 50,99,99.9".to_owned()
        } else if !names.insert(name(percentile)) {
            // 50 and 50, but also 99.9 and 9.99.
            format!("another has the name {}, too; drop one", name(percentile))
        } else {
            continue;
        };
        return Err(Error::Percentile { percentile, why });
    }
    Ok(())
}

/// Utilizations of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilization {
    /// As asked for.
    pub offered: f64,
    /// λ·S̄ over the capacity, of what is measured.
    pub with_jitter: f64,
    /// The share of time that slots were busy, with all copies.
    pub busy: Option<f64>,
}

/// How queries fared in front of the servers, per shard.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// From arrival to the start of the first copy, in the unit of the experiment.
    pub mean_wait: f64,
    /// Queries that wait, on average.
    pub mean_length: f64,
}

/// Differences to the first policy of an experiment, in the unit of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Versus {
    /// The first policy.
    pub policy: String,
    /// Of what is known of both.
    pub difference: Figures,
    /// Half the width of the 95 % confidence interval of the replications' differences: they are
    /// paired.
    pub ci95: Figures,
}

/// What came of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub policy: String,
    /// What it was made of where that was not given: the trained form of a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<String>,
    /// The share of queries that may get a second copy, where the policy was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// Of its servers.
    pub utilization: Utilization,
    /// Does it reach a steady state?
    pub stable: bool,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unstable_because: Option<Unstable>,
    /// What the latencies are in: `ms`, or `1` for the experiment's own unit.
    pub unit: &'static str,
    /// Latencies of requests; none where it is unstable.
    pub request: Option<Figures>,
    /// Half the width of their 95 % confidence intervals; none of a single replication.
    pub ci95: Option<Figures>,
    /// Latencies of queries.
    pub query: Option<Figures>,
    /// Its latencies minus those of the first policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus_first: Option<Versus>,
    /// Copies that a query had on average.
    pub copies_per_query: Option<f64>,
    /// The share of queries with more than one.
    pub hedged_fraction: Option<f64>,
    /// The share of the busy time that brought no answer.
    pub wasted_fraction: Option<f64>,
    /// In front of the servers.
    pub queue: Option<Queue>,
    /// Of pre-emptive cancellations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<Accuracy>,
    /// From the change on, window by window; without percentiles where a queue overflowed, for the
    /// run ended there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<Window>>,
    /// Of servers that clients share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerLoad>,
    /// Measured requests without an answer.
    pub requests_failed: u64,
    /// Queries of all replications, those of the warm-up included.
    pub queries_simulated: u64,
    /// How long that took, added up over the cores.
    pub elapsed_s: f64,
    /// What the replications came to, for the differences to others.
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
            // Little's law: what waits is the rate times the wait.
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
                // With answers that come late, those of what was done before count as useful now.
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
                * u64::from(experiment.shards),
            elapsed_s,
            replications,
            histogram: all.requests,
        }
    }

    /// Compares this with another outcome of the same experiment; nothing if one is unstable.
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

/// The requests of a window, of all replications together.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its first request, counted from the change.
    pub from: u64,
    /// Those that were answered.
    pub requests: u64,
    /// Percentiles of their latencies, in the unit of the experiment; none where fewer than ten
    /// samples lie above it.
    pub percentiles: Vec<(f64, Option<f64>)>,
}

impl Serialize for Window {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("requests", &self.requests)?;
        for &(p, figure) in &self.percentiles {
            map.serialize_entry(&name(p), &figure)?;
        }
        map.end()
    }
}

/// The figures of each window; percentiles only where they are known.
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
