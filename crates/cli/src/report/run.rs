//! A run, and the sum of several.

use curtail_load::{Histogram, Intervals, Summary};
use serde::Serialize;

use super::ratio::{RatioIntervals, Ratios};
use super::together;
use crate::exit::Stop;

/// A run that was measured.
#[derive(Clone)]
pub(super) struct Run {
    /// As it was given.
    pub(super) name: String,
    /// The latencies, in nanoseconds.
    pub(super) counted: Histogram<u64>,
    /// From the first interval of the log to the last.
    pub(super) seconds: f64,
    /// What only a run of ours tells.
    pub(super) told: Option<Told>,
    /// Of a sum: why its runs are not parts of one load.
    pub(super) apart: Option<String>,
}

/// What `result.json` tells.
#[derive(Clone)]
pub(super) struct Told {
    pub(super) target: String,
    pub(super) valid: bool,
    pub(super) invalid_because: Vec<String>,
    /// Its latencies leave out what others would wait.
    pub(super) closed_loop: bool,
    /// For how long requests were sent; none where nobody knows.
    pub(super) seconds: Option<f64>,
    pub(super) seed: Option<u64>,
    pub(super) started_utc_s: Option<f64>,
    /// None for a closed loop.
    pub(super) offered_rate: Option<f64>,
    pub(super) achieved_rate: f64,
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// The 99.9th percentile is not to be told.
    pub(super) withheld: bool,
    /// How sure the percentiles are.
    pub(super) intervals: Intervals,
}

/// The figures of a run, as in the JSON. None where they are not known.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) name: String,
    pub(super) target: Option<String>,
    pub(super) valid: Option<bool>,
    pub(super) invalid_because: Vec<String>,
    /// Of a sum, those that are not of one of its runs.
    #[serde(skip)]
    pub(super) apart: Option<String>,
    pub(super) closed_loop: Option<bool>,
    pub(super) offered_rate: Option<f64>,
    /// Good answers per second.
    pub(super) achieved_rate: Option<f64>,
    pub(super) requests: Option<u64>,
    pub(super) errors: Option<u64>,
    pub(super) latency_ns: Summary,
    /// Over those of the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to_first: Option<Ratios>,
    /// How sure these are: 95 % confidence intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_ci95: Option<RatioIntervals>,
}

impl Figures {
    /// Why it is not valid, but for what stands with the runs of a sum.
    pub(super) fn told_here(&self, sum: bool) -> &[String] {
        let count =
            if sum { usize::from(self.apart.is_some()) } else { self.invalid_because.len() };
        &self.invalid_because[..count]
    }
}

impl Run {
    pub(super) fn latency(&self) -> Summary {
        let mut latency = Summary::of(&self.counted);
        if self.told.as_ref().is_some_and(|told| told.withheld) {
            latency.p999 = None;
        }
        latency
    }

    /// None where nobody knows.
    pub(super) fn valid(&self) -> Option<bool> {
        if self.apart.is_some() { Some(false) } else { self.told.as_ref().map(|told| told.valid) }
    }

    fn achieved_rate(&self) -> Option<f64> {
        let counted =
            || Some(self.counted.len() as f64 / self.seconds).filter(|rate| rate.is_finite());
        self.told.as_ref().map(|told| told.achieved_rate).or_else(counted)
    }

    /// The figures, and beside those of the first run.
    pub(super) fn figures(&self, first: Option<&Run>) -> Figures {
        let told = self.told.as_ref();
        let latency_ns = self.latency();
        let because = told.map(|told| told.invalid_because.clone()).unwrap_or_default();
        Figures {
            name: self.name.clone(),
            target: told.map(|told| told.target.clone()),
            valid: self.valid(),
            invalid_because: self.apart.iter().cloned().chain(because).collect(),
            apart: self.apart.clone(),
            closed_loop: told.map(|told| told.closed_loop),
            offered_rate: told.and_then(|told| told.offered_rate),
            achieved_rate: self.achieved_rate(),
            requests: told.map(|told| told.requests),
            errors: told.map(|told| told.errors),
            latency_ns,
            ratio_to_first: first.map(|first| Ratios::of(&latency_ns, &first.latency())),
            ratio_ci95: first.and_then(|first| self.sureness(first)),
        }
    }

    /// How sure the ratios are; none where one of the runs does not tell how sure it is.
    fn sureness(&self, first: &Run) -> Option<RatioIntervals> {
        let intervals = |run: &Run| run.told.as_ref().map(|told| told.intervals);
        let (ours, theirs) = (intervals(self)?, intervals(first)?);
        Some(RatioIntervals::of((&self.latency(), &ours), (&first.latency(), &theirs)))
    }
}

/// One load that several machines sent: counts and rates add up, and it is valid if all of them are, and
/// were as long.
pub(super) fn merged(runs: &[Run]) -> Result<Run, Stop> {
    together::of_one_kind(runs)?;
    let counted = counts(runs)?;
    let told: Option<Vec<&Told>> = runs.iter().map(|run| run.told.as_ref()).collect();
    let because = runs.iter().flat_map(|run| {
        let told = run.told.iter().flat_map(|told| &told.invalid_because);
        told.map(|why| format!("{}: {why}", run.name))
    });
    let told = told.map(|told| Told {
        target: targets(&told),
        valid: told.iter().all(|told| told.valid),
        invalid_because: because.collect(),
        offered_rate: told.iter().map(|told| told.offered_rate).sum(),
        achieved_rate: told.iter().map(|told| told.achieved_rate).sum(),
        closed_loop: told.iter().any(|told| told.closed_loop),
        seconds: None,
        seed: None,
        started_utc_s: None,
        requests: sum(told.iter().map(|told| told.requests)),
        errors: sum(told.iter().map(|told| told.errors)),
        withheld: told.iter().any(|told| told.withheld),
        // Blocks of time are in no file, so nobody knows how sure the sum is.
        intervals: Intervals::default(),
    });
    let seconds = match runs.iter().map(Run::achieved_rate).sum::<Option<f64>>() {
        // So that the rates add up, whatever the lengths.
        Some(rate) if rate > 0.0 => counted.len() as f64 / rate,
        _ => 0.0,
    };
    let apart = together::not_as_long(runs);
    Ok(Run { name: "merged".to_owned(), counted, seconds, told, apart })
}

/// The latencies of all runs.
fn counts(runs: &[Run]) -> Result<Histogram<u64>, Stop> {
    // Those without a good answer have nothing to add, of whatever precision.
    let mut with_some = runs.iter().filter(|run| !run.counted.is_empty());
    let Some(first) = with_some.next() else { return Ok(curtail_load::histogram()) };
    let mut counted = first.counted.clone();
    for run in with_some {
        let kind = |counted: &Histogram<u64>| (counted.sigfig(), counted.low());
        let (theirs, ours) = (kind(&run.counted), kind(&counted));
        if theirs != ours {
            return Err(Stop::BadInput(format!(
                "--merge: {} keeps {} digits from {} ns on, and {} {} from {} ns on, so they cannot be \
                 added up exactly; measure all with one tool and one precision",
                run.name, theirs.0, theirs.1, first.name, ours.0, ours.1
            )));
        }
        counted
            .add(&run.counted)
            .map_err(|error| Stop::BadInput(format!("--merge: {}: {error}", run.name)))?;
    }
    Ok(counted)
}

/// Files may claim anything.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// All different ones.
fn targets(told: &[&Told]) -> String {
    let mut targets: Vec<&str> = told.iter().map(|told| &told.target[..]).collect();
    targets.sort_unstable();
    targets.dedup();
    targets.join(", ")
}
