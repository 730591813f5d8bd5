//! Derives the report of a run from its record.

use curtail_dist::arrivals::Arrivals;

use crate::engine::stamp::Stamping;
use crate::plan::profile::Profile;
use crate::plan::{Pace, Precision};
use crate::results::arrival_test::{self, ArrivalTest};
use crate::results::blocks::{Trend, trend};
use crate::results::errors::Errors;
use crate::results::facts::Facts;
use crate::results::limit::limit;
use crate::results::record::Record;
use crate::results::report::{Failures, Report, Stamps};
use crate::results::summary::{Summary, intervals, relative_error, splits};
use crate::results::verdict::{
    Invalid, Late, Note, Withheld, busy_machine, by_the_rate, negligible, too_few, too_late,
    too_many_failed, unasked_too_often, withheld,
};

/// Minimum timestamp coverage for latency parts that represent all of the requests.
const STAMPED_SHARE_FINE: f64 = 0.99;

pub(crate) fn conclude(record: Record, facts: &Facts<'_>) -> Report {
    let (answered, achieved_rate) = achieved(&record, facts);
    let arrival_test = arrival_test(&record, facts);
    let withheld = withheld(&record.lag, &record.uncorrected, record.requests);
    let mut reasons = reasons(&record, facts, answered, arrival_test.as_ref(), withheld);
    let notes = notes(&record, facts, &mut reasons);
    let all = record.all();
    let mut latency_ns = Summary::of(&all);
    let mut latency_at_least = latency_ns.lower_bounds(&record.latency, &all);
    if withheld.is_some() {
        latency_ns.p999 = None;
        latency_at_least.retain(|field| *field != "p999");
    }
    Report {
        valid: reasons.is_empty(),
        invalid_because: reasons,
        partial: facts.cut_ns.is_some(),
        closed_loop: facts.profile().is_none(),
        measured_ns: facts.measured_ns(),
        offered_rate: facts.offered_rate(),
        achieved_rate,
        requests: record.requests,
        sent: record.requests - record.unsent,
        planned_rate: facts.per_second(record.requests),
        errors: record.errors,
        latency_ci95_ns: {
            // A lower bound has no confidence interval.
            let mut known = latency_ns;
            latency_at_least.iter().for_each(|field| known.forget(field));
            intervals(&all, &record.blocks, &known)
        },
        split_ns: splits(&record.split, &latency_ns, record.requests),
        latency_ns,
        latency_at_least,
        withheld,
        uncorrected_ns: Summary::of(&record.uncorrected),
        schedule_lag_ns: Summary::of(&record.lag),
        notes,
        sender: facts.sender,
        machine: facts.machine,
        arrival_test,
        stamps: stamps(&record, facts),
        connections_opened: record.connects,
        sent_again: record.sent_again,
        unasked: record.unasked,
        failures: failures(&record),
        agents: Vec::new(),
        start_skew_ns: None,
        unobserved: record.unobserved,
        histogram: record.latency,
        at_least_histogram: record.at_least,
        uncorrected_histogram: record.uncorrected,
    }
}

/// Returns the number of good responses that arrived in time, and their rate.
fn achieved(record: &Record, facts: &Facts<'_>) -> (u64, f64) {
    let shift_ns = record.latency.value_at_quantile(0.5);
    let start = facts.start_ns.saturating_add(shift_ns);
    let end = facts.end_ns.saturating_add(shift_ns);
    let end = end.min(facts.cut_ns.unwrap_or(u64::MAX)).max(start);
    let answered = record.ends_us.count_between(start / 1_000, (end / 1_000).saturating_sub(1));
    let seconds = (end - start) as f64 / 1e9;
    let achieved_rate = if seconds > 0.0 { answered as f64 / seconds } else { 0.0 };
    (answered, achieved_rate)
}

/// Tests the arrivals if they are Poisson. For other arrival processes, the gaps are not
/// exponentially distributed.
fn arrival_test(record: &Record, facts: &Facts<'_>) -> Option<ArrivalTest> {
    let Pace::Open { profile, arrivals: Arrivals::Poisson } = &facts.plan.pace else { return None };
    let blocks = record.sends.clone().blocks();
    arrival_test::test(&blocks, profile, facts.planned_ns)
}

/// Returns the number of good responses that arrived in time, as the verdict counts them. It
/// includes responses that are outside the window only because the window is shifted by the median.
///
/// A response that is slower than the median may arrive after the end of the window, and a response
/// that is faster may arrive before its start. If the server keeps up, the number of responses
/// outside the window equals the rate times the mean absolute difference between a latency and the
/// median.
fn in_time(record: &Record, facts: &Facts<'_>, answered: u64) -> u64 {
    let good = record.requests.saturating_sub(record.errors.total());
    if facts.profile().is_none() {
        // A closed loop waits for its responses, so all of them arrive in time.
        return good;
    }
    let median_ns = record.latency.value_at_quantile(0.5);
    let distances = record.latency.iter_recorded().map(|bucket| {
        bucket.value_iterated_to().abs_diff(median_ns) as f64
            * bucket.count_since_last_iteration() as f64
    });
    let edges = distances.sum::<f64>() / facts.measured_ns().max(1) as f64;
    answered.saturating_add(edges as u64).min(good)
}

/// Returns the first percentile that is less precise than `required`. Also returns the half width
/// of its interval divided by its value, if known.
fn unsure(record: &Record, required: f64, per_mille: &[u32]) -> Option<(u32, Option<f64>)> {
    let all = record.all();
    per_mille.iter().find_map(|per_mille| {
        let found = relative_error(&all, &record.blocks, *per_mille);
        found.is_none_or(|found| found > required).then_some((*per_mille, found))
    })
}

fn stamps(record: &Record, facts: &Facts<'_>) -> Option<Stamps> {
    let Stamping { unstamped, cost_ns, hardware_clocks, hardware, past_stack } =
        facts.stamps.clone()?;
    // The record keeps only the timestamps of good responses.
    if record.latency.is_empty() {
        return None;
    }
    let of = |count: u64| count as f64 / record.latency.len() as f64;
    Some(Stamps {
        sent_coverage: of(record.left_stamps),
        received_coverage: of(record.came_stamps),
        unstamped_warmup: unstamped,
        cost_ns,
        clock_steps: record.clock_steps,
        hardware_clocks,
        hardware,
        past_stack,
    })
}

fn failures(record: &Record) -> Option<Failures> {
    let first = record.first_error.as_ref()?;
    Some(Failures {
        first: first.text.clone(),
        first_at_ns: first.at_ns,
        last_at_ns: record.last_error_ns.unwrap_or(first.at_ns),
        last_good_at_ns: record.last_good_ns,
        since_last_good: record.failed_since,
    })
}

/// Returns the remarks. Removes the reasons that are treated only as remarks in this run.
fn notes(record: &Record, facts: &Facts<'_>, reasons: &mut Vec<Invalid>) -> Vec<Note> {
    let mut notes: Vec<Note> = busy_machine(facts).into_iter().collect();
    let fell_behind = reasons.iter().any(|reason| matches!(reason, Invalid::FellBehind { .. }));
    if !fell_behind && negligible(&record.lag, &record.uncorrected) {
        let lag_ns = record.lag.value_at_quantile(0.5);
        reasons.retain(|reason| match *reason {
            Invalid::NotPoisson { d, gaps } => {
                notes.push(Note::NotPoisson { d, gaps, lag_ns });
                false
            }
            _ => true,
        });
    }
    let closed = facts.profile().is_none();
    let spent = facts.sender.filter(|sender| closed && sender.spent());
    notes.extend(spent.map(|sender| Note::SenderSpent { idle: sender.idle }));
    notes
}

/// Returns the reasons why the run is invalid.
fn reasons(
    record: &Record,
    facts: &Facts<'_>,
    answered: u64,
    arrivals: Option<&ArrivalTest>,
    withheld: Option<Withheld>,
) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    if facts.cut_ns.is_some() {
        reasons.push(Invalid::Interrupted { requests: record.requests });
    }
    let (requests, errors) = (record.requests, record.errors);
    if errors.unfinished() > 0 {
        let Errors { in_flight, overdue, unreported, .. } = errors;
        let oldest_ns = record.oldest_ns;
        reasons.push(Invalid::Unfinished { in_flight, overdue, unreported, oldest_ns });
    }
    let behind = too_late(&record.lag, &record.uncorrected);
    if let Some(Late { late, limit_ns }) = behind {
        reasons.push(Invalid::FellBehind {
            late,
            requests: record.requests,
            limit_ns,
            waited: record.waited,
            connections: facts.plan.connections,
            limited_by: limit(record, facts, late, true),
        });
    }
    // Requests that were unfinished when the run ended are not late yet.
    let (due, requests, errors) = (requests, requests - errors.unfinished(), errors.ended());
    let answered = in_time(record, facts, answered);
    if too_few(answered, requests) {
        let missed = requests.saturating_sub(answered);
        let limited_by = by_the_rate(answered, requests, &errors)
            .then(|| limit(record, facts, missed, behind.is_some()));
        reasons.push(Invalid::FellShort { answered, requests, errors, limited_by });
    }
    if too_many_failed(errors.total(), requests) && !record.latency.is_empty() {
        reasons.push(Invalid::Failed { requests, errors, timeout_ns: facts.plan.timeout_ns });
    }
    if unasked_too_often(record.unasked, record.answered) {
        reasons.push(Invalid::Unasked { count: record.unasked, good: record.answered });
    }
    if errors.dropped > 0 {
        let limited_by = limit(record, facts, errors.dropped, behind.is_some());
        let (count, backlog) = (errors.dropped, facts.plan.backlog);
        reasons.push(Invalid::Dropped { count, backlog, limited_by });
    }
    // A user who interrupts a run before the measurement begins needs no explanation for an empty
    // report.
    if record.latency.is_empty() && (due > 0 || facts.cut_ns.is_none()) {
        reasons.push(Invalid::NothingMeasured { requests: due });
    }
    if let Some(ArrivalTest { failed: true, d, gaps, .. }) = arrivals {
        reasons.push(Invalid::NotPoisson { d: *d, gaps: *gaps });
    }
    if let Some(Stamps { sent_coverage, received_coverage, hardware, past_stack, .. }) =
        stamps(record, facts)
        && sent_coverage.min(received_coverage) < STAMPED_SHARE_FINE
    {
        let missing = 1.0 - sent_coverage.min(received_coverage);
        reasons.push(Invalid::StampsMissing { missing, hardware, past_stack });
    }
    if let Some(Precision { relative, per_mille }) = &facts.plan.until {
        if let Some((per_mille, found)) = unsure(record, *relative, per_mille) {
            reasons.push(Invalid::NotSure { per_mille, found, asked: *relative });
        }
        reasons.extend(withheld.filter(|_| per_mille.contains(&999)).map(Invalid::Withheld));
    }
    // If the rate changes, the latencies change with it.
    if matches!(facts.profile(), None | Some(Profile::Steady(_)))
        && let Some(trend) = trend(&record.blocks)
    {
        let Trend { percentile, first_ns, last_ns } = trend;
        reasons.push(Invalid::NotStationary { percentile, first_ns, last_ns });
    }
    reasons
}

#[cfg(test)]
mod tests;
