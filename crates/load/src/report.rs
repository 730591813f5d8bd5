//! The result of a run.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::record::{Errors, Record};
use crate::split::{Parts, Split};
use crate::verdict::{Invalid, Withheld, leaves_out_too_many, too_few, too_late, withheld};

/// A percentile with fewer samples above it is not told: it would be chance.
pub const SAMPLES_ABOVE_MIN: u64 = 10;

/// Percentiles and other figures of a distribution, in nanoseconds, to three digits. `None` (`null`
/// in JSON) for a percentile with fewer than [`SAMPLES_ABOVE_MIN`] samples above it, and for
/// everything if there are no samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The median.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p999: Option<u64>,
    /// The largest sample.
    pub max: Option<u64>,
    /// The mean.
    pub mean: Option<u64>,
}

impl Summary {
    /// Summarizes samples, in nanoseconds.
    #[must_use]
    pub fn of(samples: &Histogram<u64>) -> Summary {
        let some = !samples.is_empty();
        Summary {
            p50: percentile(samples, 500),
            p90: percentile(samples, 900),
            p95: percentile(samples, 950),
            p99: percentile(samples, 990),
            p999: percentile(samples, 999),
            max: some.then(|| samples.max()),
            mean: some.then(|| samples.mean().round() as u64),
        }
    }
}

/// The value that `per_mille` of the samples do not exceed, if enough samples are above it.
pub(crate) fn percentile(samples: &Histogram<u64>, per_mille: u32) -> Option<u64> {
    let above = u128::from(samples.len()) * u128::from(1_000 - per_mille) / 1_000;
    let enough = above >= u128::from(SAMPLES_ABOVE_MIN);
    enough.then(|| samples.value_at_quantile(f64::from(per_mille) / 1_000.0))
}

/// The parts of the latency at its percentiles, as [`Summary`] has them: told where the percentile
/// is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Splits {
    /// Of the median.
    pub p50: Option<Parts>,
    /// Of the 90th percentile.
    pub p90: Option<Parts>,
    /// Of the 95th percentile.
    pub p95: Option<Parts>,
    /// Of the 99th percentile.
    pub p99: Option<Parts>,
    /// Of the 99.9th percentile.
    pub p999: Option<Parts>,
}

impl Splits {
    fn of(split: &Split, latency: &Summary) -> Splits {
        let at = |told: Option<u64>, quantile| told.and_then(|_| split.at(quantile));
        Splits {
            p50: at(latency.p50, 0.5),
            p90: at(latency.p90, 0.9),
            p95: at(latency.p95, 0.95),
            p99: at(latency.p99, 0.99),
            p999: at(latency.p999, 0.999),
        }
    }
}

/// The result of a run. Serializes to the JSON of `curtail load`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The figures are of the requests that the plan asked for: there is no reason against it.
    pub valid: bool,
    /// The reasons against it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<Invalid>,
    /// The run was cut short. Requests that had no answer by then are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The rate of the plan, per second.
    pub offered_rate: f64,
    /// Good answers per second, over the measured time shifted by the median latency: what answers
    /// to a steady stream of requests would be counted in it. A last answer that is slow does not
    /// stretch the time, and answers that come only once the requests have ended do not count.
    pub achieved_rate: f64,
    /// Measured requests, whatever became of them.
    pub requests: u64,
    /// Those without a good answer.
    pub errors: Errors,
    /// Good answers, from their intended times: what a user waits.
    pub latency_ns: Summary,
    /// What each percentile of it is made of.
    pub split_ns: Splits,
    /// Why the 99.9th percentile of it is missing though there are enough samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Good answers, from when their requests were taken up by a connection.
    pub uncorrected_ns: Summary,
    /// All requests that were sent or waited for a connection until their time-out: from their
    /// intended times until they were taken up.
    pub schedule_lag_ns: Summary,
    /// Answers that the observer was not told, for it did not keep up.
    #[serde(skip)]
    pub unobserved: u64,
    /// The latencies, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
    /// What the first request without a good answer failed with, for people.
    #[serde(skip)]
    pub first_error: Option<String>,
}

impl Report {
    /// A text for people if the generator fell behind its schedule, or did so too often for the
    /// 99.9th percentile.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let fell_behind = |reason: &&Invalid| matches!(reason, Invalid::FellBehind { .. });
        match (self.invalid_because.iter().find(fell_behind), self.withheld) {
            (Some(reason), _) => {
                Some(format!("the load generator {reason}. The wait is part of the latencies."))
            }
            (None, Some(withheld)) => Some(format!("{withheld}.")),
            (None, None) => None,
        }
    }
}

/// What a report says about a run beside its record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    pub(crate) backlog: usize,
    /// The measured time, in nanoseconds from the start of the schedule.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Cut short then.
    pub(crate) cut_ns: Option<u64>,
}

/// Draws the conclusions.
pub(crate) fn conclude(record: Record, facts: &Facts) -> Report {
    let shift_ns = record.latency.value_at_quantile(0.5);
    let start = facts.start_ns.saturating_add(shift_ns);
    let end = facts.end_ns.saturating_add(shift_ns);
    let end = end.min(facts.cut_ns.unwrap_or(u64::MAX)).max(start);
    let answered = record.ends_us.count_between(start / 1_000, (end / 1_000).saturating_sub(1));
    let seconds = (end - start) as f64 / 1e9;
    let achieved_rate = if seconds > 0.0 { answered as f64 / seconds } else { 0.0 };

    let mut reasons = Vec::new();
    if facts.cut_ns.is_some() {
        reasons.push(Invalid::Interrupted { requests: record.requests });
    }
    if let Some((late, limit_ns)) = too_late(&record.lag, &record.uncorrected) {
        reasons.push(Invalid::FellBehind {
            late,
            requests: record.requests,
            limit_ns,
            waited: record.waited,
            connections: facts.connections,
        });
    }
    let (requests, errors) = (record.requests, record.errors);
    if too_few(answered, requests) {
        reasons.push(Invalid::FellShort { answered, requests, errors });
    }
    // Without any good answer there are no percentiles to be wrong about.
    if leaves_out_too_many(errors.total(), requests) && !record.latency.is_empty() {
        reasons.push(Invalid::LeftOut { requests, errors });
    }
    if errors.dropped > 0 {
        reasons.push(Invalid::Dropped { count: errors.dropped, backlog: facts.backlog });
    }
    // Who interrupts a run before it measures anything knows why there is nothing.
    if record.latency.is_empty() && (requests > 0 || facts.cut_ns.is_none()) {
        reasons.push(Invalid::NothingMeasured { requests });
    }
    let withheld = withheld(&record.lag, &record.uncorrected, requests);
    let mut latency_ns = Summary::of(&record.latency);
    if withheld.is_some() {
        latency_ns.p999 = None;
    }
    Report {
        valid: reasons.is_empty(),
        invalid_because: reasons,
        partial: facts.cut_ns.is_some(),
        offered_rate: facts.rate,
        achieved_rate,
        requests,
        errors,
        split_ns: Splits::of(&record.split, &latency_ns),
        latency_ns,
        withheld,
        uncorrected_ns: Summary::of(&record.uncorrected),
        schedule_lag_ns: Summary::of(&record.lag),
        histogram: record.latency,
        first_error: record.first_error.map(|error| error.text),
        unobserved: record.unobserved,
    }
}

#[cfg(test)]
mod tests;
