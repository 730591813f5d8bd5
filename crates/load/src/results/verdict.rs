//! Judges whether a run measured what its plan requires, and adds remarks.
//!
//! A verdict must not depend on chance, so the rules about time ignore a problem that affects [`FEW`]
//! requests or fewer.

use curtail_machine::Taken;
use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::engine::stamp::{DeviceClock, PastStack};
use crate::results::errors::Errors;
use crate::results::facts::Facts;
use crate::results::limit::{Limit, short};
use crate::results::summary::percentile;

/// A percentile in thousandths, and the lag in nanoseconds that is always acceptable at that
/// percentile.
#[derive(Debug, Clone, Copy)]
struct Judged {
    per_mille: u32,
    fine_ns: u64,
}

const fn judged(per_mille: u32, fine_ns: u64) -> Judged {
    Judged { per_mille, fine_ns }
}

/// Up to the 95th percentile, the acceptable lag is just above the wake-up latency of a thread in a
/// virtual machine (50 to 200 µs), so a larger lag means that the generator does not keep up. Above
/// that percentile, a single time slice of another process determines the lag.
const JUDGED: [Judged; 4] =
    [judged(500, 250_000), judged(900, 250_000), judged(950, 250_000), judged(990, 1_000_000)];
/// This percentile is judged separately, because a few time slices of other processes can spoil it
/// without affecting the others.
const JUDGED_ALONE: Judged = judged(999, 1_000_000);
/// The acceptable lag at a percentile, as a share of the uncorrected latency at that percentile.
/// Such a lag is too small to change a decision. The share refers to the uncorrected latency,
/// because the corrected latency includes the lag.
const LAG_SHARE_FINE: f64 = 0.05;
/// The time that it takes to send a few requests. The generator cannot maintain gaps that are
/// shorter than this.
const LAG_NEGLIGIBLE_NS: u64 = 50_000;
/// The acceptable share of requests that got no good response in time.
const SHORT_SHARE_FINE: f64 = 0.03;
/// The acceptable share of good responses that are followed by extraneous data.
const UNASKED_SHARE_FINE: f64 = 0.03;
/// This many requests or fewer are not enough for a verdict.
const FEW: u64 = 3;
/// The acceptable share of failed requests, which is the share of requests above p99.9.
const FAILED_SHARE_FINE: f64 = 0.001;

/// Why a report is not reliable. The JSON has the form `{"kind": …, fields…, "text": …}`, where the
/// text is for human readers.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the messages document the fields")]
#[non_exhaustive]
pub enum Invalid {
    /// The generator fell behind its schedule. At the 50th, 90th, 95th or 99th percentile, and for
    /// more than 3 requests, connections took requests later than `limit_ns` after their intended
    /// times. The limit is 5 % of the uncorrected latency at the same percentile, but at least 250
    /// µs, or at least 1 ms at the 99th percentile. If there are too few requests for the higher
    /// percentiles, only the 50th percentile is judged. The 99.9th percentile is described in
    /// [`Withheld`].
    #[error(
        "fell behind: {late} of {requests} requests were sent more than {} after their intended times; {limited_by}",
        short(*.limit_ns)
    )]
    FellBehind {
        late: u64,
        requests: u64,
        limit_ns: u64,
        waited: u64,
        connections: usize,
        limited_by: Limit,
    },
    /// Good responses arrived at less than 97 % of the rate at which requests were due, and more
    /// than 3 responses were missing. Either the server or the generator does not sustain the rate,
    /// or requests fail.
    #[error("fell short: {}", missing(*.answered, *.requests, errors, limited_by.as_ref()))]
    FellShort {
        answered: u64,
        requests: u64,
        /// Requests without a good response. The other missing requests got a good response, but it
        /// arrived late.
        errors: Errors,
        /// `None` if requests failed for reasons that do not depend on the rate.
        limited_by: Option<Limit>,
    },
    /// More than 0.1 % of the requests, and more than one, have no good response. Each of them
    /// counts as at least the timeout. Otherwise a server that sheds its slowest requests would
    /// look fast.
    #[error(
        "failed: {} of {requests} requests have no good response, {errors}; each counts as at \
         least {}",
        errors.total(), short(*.timeout_ns)
    )]
    Failed { requests: u64, errors: Errors, timeout_ns: u64 },
    /// Requests were unfinished when the run ended early. Each counts as at least its age.
    #[error(
        "unfinished: when the run ended, {}, the oldest for {}; each counts as at least its age",
        left(*.in_flight, *.overdue, *.unreported), short(*.oldest_ns)
    )]
    Unfinished { in_flight: u64, overdue: u64, unreported: u64, oldest_ns: u64 },
    /// Requests were not sent because the backlog was full.
    #[error(
        "dropped: {count} requests were never sent, because all connections were busy and \
         {backlog} requests waited; {limited_by}"
    )]
    Dropped { count: u64, backlog: usize, limited_by: Limit },
    /// There is no good response, so there is no latency.
    #[error("nothing measured: {}", match .requests {
        0 => "no request was due in the measured time; use a higher rate or a longer duration",
        _ => "there is no good response",
    })]
    NothingMeasured { requests: u64 },
    /// More than 1 % of the good responses lack a requested timestamp, either for the request's
    /// departure or for the response's arrival.
    #[error(
        "timestamps missing: {:.1} % of the responses {}",
        missing * 100.0, unstamped(hardware, past_stack.as_ref())
    )]
    StampsMissing { missing: f64, hardware: Vec<DeviceClock>, past_stack: Option<PastStack> },
    /// Extraneous data followed more than 3 % of the good responses, and more than 3 of them. Those
    /// responses may have been incomplete.
    #[error(
        "extraneous data: the server sent more after {count} of {good} good responses, which may have \
         been incomplete; check the protocol and the end of a response"
    )]
    Unasked { count: u64, good: u64 },
    /// A percentile is less precise than the plan requires.
    #[error(
        "not precise: {}, and the plan requires ±{:.1} %; use a longer duration",
        how_sure(*.per_mille, *.found), asked * 100.0
    )]
    NotSure {
        per_mille: u32,
        /// The half width of its 95 % confidence interval, divided by its value, if known.
        found: Option<f64>,
        asked: f64,
    },
    /// A percentile that the plan requires is withheld.
    #[error("{0}, but the plan requires it")]
    Withheld(#[serde(serialize_with = "Withheld::serialize")] Withheld),
    /// The requests were not sent as Poisson arrivals. See [`ArrivalTest`](crate::ArrivalTest).
    #[error(
        "not Poisson: the gaps between the {gaps} requests differ by {d:.2} from exponential \
         ones; use more threads, a lower rate, or constant gaps"
    )]
    NotPoisson { d: f64, gaps: usize },
    /// The latencies rose or fell during the whole run, so the percentiles do not describe any
    /// particular moment of the run. The medians or 90th percentiles of its blocks have a
    /// significant trend (at 0.001) of more than 25 %.
    #[error(
        "not stationary: the {percentile}th percentile changed from {} in the first third of the \
         run to {} in the last; {}",
        short(*.first_ns), short(*.last_ns), if last_ns > first_ns {
            "use a lower rate if a queue grows, or a longer warm-up"
        } else {
            "use a longer warm-up"
        }
    )]
    NotStationary {
        percentile: u32,
        /// The percentile's mean in the first third of the run, in nanoseconds.
        first_ns: u64,
        last_ns: u64,
    },
    /// An agent's part of the load is not valid.
    #[error("agent {agent} {reason}")]
    Agent { agent: String, reason: Box<Invalid> },
    /// An agent was lost during the run, and the others were stopped. The figures cover only part
    /// of the plan.
    #[error("agent {agent} was lost: {why}; the figures contain what it reported until then")]
    AgentLost { agent: String, why: String },
    /// The run was cut short, so the figures cover only part of the plan.
    #[error("interrupted{}", if *.requests == 0 { " before anything was measured" } else { ": partial results" })]
    Interrupted { requests: u64 },
}

/// Serializes the fields, tagged with the kind, and the text. `remote = "Self"` makes a function of the
/// derived implementation, which serializes the fields alone.
macro_rules! with_text {
    ($($of:ident)*) => { $(
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Typed<'a> {
                    #[serde(flatten, serialize_with = "fields")]
                    fields: &'a $of,
                    text: String,
                }
                fn fields<S: Serializer>(of: &&$of, to: S) -> Result<S::Ok, S::Error> {
                    $of::serialize(of, to)
                }
                Typed { fields: self, text: self.to_string() }.serialize(to)
            }
        }
    )* };
}
with_text!(Invalid Withheld Note);

/// The 99.9th percentile is not reported, because it would include the generator's lag; the other
/// percentiles are valid. At the 99.9th percentile, connections took requests later than `limit_ns`
/// after their intended times. The limit is 5 % of the uncorrected 99.9th percentile, but at least
/// 1 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(remote = "Self", tag = "kind", rename = "withheld")]
#[expect(missing_docs, reason = "the message documents the fields")]
#[error(
    "p99.9 is withheld: {late} of {requests} requests were sent more than {} after their intended \
     times, so too much of it would be lag",
    short(*.limit_ns)
)]
#[non_exhaustive]
pub struct Withheld {
    pub late: u64,
    pub requests: u64,
    pub limit_ns: u64,
}

/// The number of lags that exceed the limit at a percentile.
pub(crate) struct Late {
    pub(crate) late: u64,
    pub(crate) limit_ns: u64,
}

/// Finds a percentile at which too many lags exceed the limit, so that the whole run is invalid.
pub(crate) fn too_late(lag: &Histogram<u64>, uncorrected: &Histogram<u64>) -> Option<Late> {
    JUDGED.into_iter().find_map(|judged| too_late_at(judged, lag, uncorrected))
}

/// Whether the median lag is too small to change a decision, because it is no longer than a timer's
/// lag or is small compared with the latency.
pub(crate) fn negligible(lag: &Histogram<u64>, uncorrected: &Histogram<u64>) -> bool {
    let [lag_ns, latency_ns] = [lag, uncorrected].map(|of| of.value_at_quantile(0.5));
    lag_ns <= LAG_NEGLIGIBLE_NS.max((latency_ns as f64 * LAG_SHARE_FINE) as u64)
}

/// Returns the reason for withholding the 99.9th percentile of the latency, if it would be reported
/// otherwise.
pub(crate) fn withheld(
    lag: &Histogram<u64>,
    uncorrected: &Histogram<u64>,
    requests: u64,
) -> Option<Withheld> {
    percentile(uncorrected, JUDGED_ALONE.per_mille)?;
    let Late { late, limit_ns } = too_late_at(JUDGED_ALONE, lag, uncorrected)?;
    Some(Withheld { late, requests, limit_ns })
}

fn too_late_at(
    Judged { per_mille, fine_ns }: Judged,
    lag: &Histogram<u64>,
    uncorrected: &Histogram<u64>,
) -> Option<Late> {
    // The median is always judged, because a run with too few requests for it still has a mean and
    // a maximum.
    if per_mille > 500 {
        percentile(lag, per_mille)?;
    }
    let quantile = f64::from(per_mille) / 1_000.0;
    let latency = uncorrected.value_at_quantile(quantile) as f64;
    let limit_ns = fine_ns.max((latency * LAG_SHARE_FINE) as u64);
    // A histogram bucket contains equivalent values. Values equivalent to the limit are still
    // acceptable.
    let late = lag.count_between(lag.next_non_equivalent(limit_ns), u64::MAX);
    let share = late as f64 / lag.len() as f64;
    (late > FEW && share > 1.0 - quantile + 1e-9).then_some(Late { late, limit_ns })
}

/// Whether too few of the `requests` requests were answered.
pub(crate) fn too_few(answered: u64, requests: u64) -> bool {
    let missing = requests.saturating_sub(answered);
    missing > FEW && missing as f64 > SHORT_SHARE_FINE * requests as f64
}

/// Whether extraneous data followed too many of the good responses.
pub(crate) fn unasked_too_often(unasked: u64, good: u64) -> bool {
    unasked > FEW && unasked as f64 > UNASKED_SHARE_FINE * good as f64
}

/// Whether too many requests failed. A single failure may be due to chance.
pub(crate) fn too_many_failed(failed: u64, requests: u64) -> bool {
    failed > 1 && failed as f64 > FAILED_SHARE_FINE * requests as f64
}

fn left(in_flight: u64, overdue: u64, unreported: u64) -> String {
    let parts = [
        (in_flight, "in flight"),
        (overdue, "due but not sent"),
        (unreported, "due by a lost agent but in none of its records"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, state)| format!("{count} requests were {state}")).collect();
    parts.join(", ")
}

/// Whether a lower rate might have saved some of the missing requests. A lower rate cannot save
/// requests that got a bad status.
pub(crate) fn by_the_rate(answered: u64, requests: u64, errors: &Errors) -> bool {
    too_few(answered, requests.saturating_sub(errors.total())) || errors.timeout > FEW
}

fn missing(answered: u64, requests: u64, errors: &Errors, limited_by: Option<&Limit>) -> String {
    let good = requests.saturating_sub(errors.total());
    let late = good.saturating_sub(answered);
    let mut text = format!("{answered} of {requests} requests got a good response in time");
    if errors.total() > 0 {
        text += &format!(", {errors}");
    }
    if late > 0 {
        text += &format!(", {late} with a late response");
    }
    if let Some(limit) = limited_by {
        text += &format!("; {limit}");
    }
    text
}

fn unstamped(hardware: &[DeviceClock], past_stack: Option<&PastStack>) -> String {
    match past_stack {
        None if !hardware.is_empty() => {
            let devices: Vec<&str> = hardware.iter().map(|clock| &clock.device[..]).collect();
            format!(
                "lack a timestamp of {}; use a lower rate, because many devices keep one send \
                 timestamp at a time, or --stamps kernel",
                devices.join(", ")
            )
        }
        None => "lack a timestamp of the kernel; use a lower rate, or leave out --stamps kernel"
            .to_owned(),
        Some(PastStack { device, queues: 2.., .. }) => format!(
            "came through the network stack; set {device} to one receive queue (ethtool -L \
             {device} combined 1, or rx 1 tx 1), or leave out --stamps xdp"
        ),
        Some(_) => "came through the network stack, as do fragments and datagrams longer than a \
                    frame; use a smaller --size, or leave out --stamps xdp"
            .to_owned(),
    }
}

fn how_sure(per_mille: u32, found: Option<f64>) -> String {
    let name = f64::from(per_mille) / 10.0;
    match found {
        Some(found) => format!("the precision of p{name} is ±{:.1} %", found * 100.0),
        None => format!("the run is too short to estimate the precision of p{name}"),
    }
}

/// A remark on a report. Its JSON has the same form as the JSON of [`Invalid`](crate::Invalid).
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the messages document the fields")]
#[non_exhaustive]
pub enum Note {
    /// Other processes or the hypervisor took much of the machine's processor time, and a sending
    /// thread waited for a processor.
    #[error(
        "these figures describe {}, not only the server: during the measurement, {taken}",
        machine(agent.as_ref())
    )]
    BusyMachine {
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        #[serde(flatten)]
        taken: Taken,
    },
    /// The gaps fail the test of [`Invalid::NotPoisson`](crate::Invalid::NotPoisson), but only
    /// because of a lag that is too small to matter.
    #[error(
        "the gaps between the {gaps} requests differ by {d:.2} from exponential ones, because the \
         lag of {} is not small compared to them; it is negligible compared to the latencies",
        short(*.lag_ns)
    )]
    NotPoisson { d: f64, gaps: usize, lag_ns: u64 },
    /// The generator, not the server, may limit the rate of a closed loop.
    #[error("a sending thread was idle for only {:.0} % of the time, so the server may sustain \
             more; use more threads (-t)", idle * 100.0)]
    SenderSpent { idle: f64 },
}

fn machine(agent: Option<&String>) -> String {
    agent.map_or_else(|| "this machine".to_owned(), |agent| format!("the machine of agent {agent}"))
}

/// Returns the note about the machine, if the machine was busy.
pub(crate) fn busy_machine(facts: &Facts<'_>) -> Option<Note> {
    let taken = facts.machine.filter(Taken::is_much)?;
    // A server on this machine counts as another process. The server's processor time matters only
    // if a sending thread had to wait for a processor.
    let waited = facts.sender.is_some_and(|sender| sender.kept_waiting());
    let matters = waited || Taken { others: 0.0, ..taken }.is_much();
    matters.then_some(Note::BusyMachine { agent: facts.agent.clone(), taken })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_missing_timestamps_names_the_device() {
        let [device, clock] = ["eth7", "/dev/ptp0"].map(str::to_owned);
        let hardware = vec![DeviceClock { device, clock, ahead_ns: 5, within_ns: 1 }];
        let why = Invalid::StampsMissing { missing: 0.1, hardware, past_stack: None }.to_string();
        assert!(
            why.contains("10.0 % of the responses lack a timestamp of eth7; use a lower rate"),
            "{why}"
        );
    }
}
