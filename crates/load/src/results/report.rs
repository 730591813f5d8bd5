//! The result of a run.

use curtail_machine::Taken;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::engine::stamp::{DeviceClock, PastStack};
use crate::results::arrival_test::ArrivalTest;
use crate::results::errors::Errors;
use crate::results::facts::Sender;
use crate::results::summary::{Intervals, Splits, Summary};
use crate::results::verdict::{Invalid, Note, Withheld};

/// The result of a run. Serializes to the JSON document that `curtail load` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Whether the figures describe the planned requests. True if `invalid_because` is empty.
    pub valid: bool,
    /// Why the run is not valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<Invalid>,
    /// Whether the run was cut short. The report also counts the requests that were unfinished at
    /// that time: see [`Errors::unfinished`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Whether this was a closed loop, whose latencies do not include the time that additional
    /// users would have to wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed_loop: bool,
    /// The duration of the period in which measured requests were sent, in nanoseconds.
    pub measured_ns: u64,
    /// The mean rate of the plan, per second. `None` for a closed loop.
    pub offered_rate: Option<f64>,
    /// Good responses per second in a window, which is the measured time shifted by the median
    /// latency. If requests are sent at a steady rate, their responses arrive in this window. A
    /// slow last response does not extend the window, and responses that arrive long after the last
    /// request do not count.
    pub achieved_rate: f64,
    /// The number of measured requests that were due.
    pub requests: u64,
    /// The number of measured requests that a connection took.
    pub sent: u64,
    /// Requests due per second of the measured time. The random arrivals of a plan are the same in
    /// every run, and their rate differs slightly from the mean rate of the plan. `None` for a
    /// closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_rate: Option<f64>,
    /// The requests without a good response.
    pub errors: Errors,
    /// Latencies of all requests from their intended times: the time that a user waits. A failed
    /// request counts as at least the timeout. A request that was unfinished when the run ended
    /// counts as at least its age.
    pub latency_ns: Summary,
    /// The fields of `latency_ns` that are lower bounds because some requests failed or were
    /// unfinished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency_at_least: Vec<&'static str>,
    /// Confidence intervals of the percentiles of `latency_ns`.
    pub latency_ci95_ns: Intervals,
    /// The parts of the percentiles of `latency_ns`.
    pub split_ns: Splits,
    /// Why the 99.9th percentile is missing although there are enough samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Latencies of good responses, measured from when a connection took the request.
    pub uncorrected_ns: Summary,
    /// The delay between the intended time and the moment at which a connection took the request.
    /// It covers all requests that were sent or that waited for a connection until their timeout.
    pub schedule_lag_ns: Summary,
    /// Remarks on the figures. There may be remarks whether or not the run is valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The idle time of the sending threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// The share of this machine's processor time that other processes and the hypervisor took
    /// during the run. A server on this machine counts as another process. `None` if the run was
    /// very short or if agents sent the load. In the latter case, each agent has its own share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Taken>,
    /// The result of the arrival test: whether the requests of a Poisson plan were sent as Poisson
    /// arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_test: Option<ArrivalTest>,
    /// The quality of the timestamps that the kernel or a device took, if the plan asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<Stamps>,
    /// The number of connections opened, including the warm-up. The first request on each
    /// connection waited for it to open.
    pub connections_opened: u64,
    /// The number of requests that were sent again over another connection because the server
    /// closed the first one without having processed them (HTTP/2). Each counts once in `requests`.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent_again: u64,
    /// The number of connections closed because of extraneous data after a good response, including
    /// the warm-up. Such a response was complete, and it is counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// When requests failed. `None` if no request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// The results of each agent, if agents sent the load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentReport>,
    /// The maximum difference between the start times of two agents, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_skew_ns: Option<u64>,
    /// The number of responses or samples that a slow observer missed.
    #[serde(skip)]
    pub unobserved: u64,
    /// The latencies of good responses, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
    /// Lower bounds on the latencies of all other requests, in nanoseconds.
    #[serde(skip)]
    pub at_least_histogram: Histogram<u64>,
    /// The uncorrected latencies, in nanoseconds.
    #[serde(skip)]
    pub uncorrected_histogram: Histogram<u64>,
}

impl Report {
    /// Returns all latencies, in nanoseconds: those of good responses, and lower bounds on the
    /// others.
    #[must_use]
    pub fn all(&self) -> Histogram<u64> {
        let mut all = self.histogram.clone();
        all.auto(true);
        // Fails only if the range would exceed the address space.
        let _ = all.add(&self.at_least_histogram);
        all
    }

    /// Returns a human-readable warning if the generator fell behind its schedule, or if the 99.9th
    /// percentile is withheld.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let fell_behind = |reason: &&Invalid| matches!(reason, Invalid::FellBehind { .. });
        match (self.invalid_because.iter().find(fell_behind), self.withheld) {
            (Some(reason), _) => {
                Some(format!("the load generator {reason}. The latencies include the wait."))
            }
            (None, Some(withheld)) => Some(format!("{withheld}.")),
            (None, None) => None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One agent's part of a load.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "`Report` documents the fields")]
pub struct AgentReport {
    pub agent: String,
    pub valid: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<Invalid>,
    /// The agent's share of the plan's mean rate, per second. `None` for a closed loop.
    pub offered_rate: Option<f64>,
    pub achieved_rate: f64,
    pub requests: u64,
    pub errors: Errors,
    pub latency_ns: Summary,
    pub schedule_lag_ns: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Taken>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The shortest round trip before the start. The error of the clock offset is at most half of
    /// this time.
    pub round_trip_ns: u64,
}

/// When requests failed. Times are nanoseconds since the start of the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// The error message of the first failure.
    pub first: String,
    /// When the first request failed.
    pub first_at_ns: u64,
    /// When the last request failed.
    pub last_at_ns: u64,
    /// When the last good response arrived.
    pub last_good_at_ns: Option<u64>,
    /// The number of failures since the last good response. This number is large if the server
    /// died.
    pub since_last_good: u64,
}

/// The quality of the timestamps that the kernel or a device took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stamps {
    /// The share of good responses that have a timestamp for the departure of their request, 0 to
    /// 1.
    pub sent_coverage: f64,
    /// The share of good responses that have a timestamp for their own arrival.
    pub received_coverage: f64,
    /// The number of packets that were sent before timestamping was enabled.
    pub unstamped_warmup: u32,
    /// The time that timestamping adds to sending and receiving a packet, in nanoseconds. It is the
    /// median on the loopback device, measured before the run, or 0 if a device took the
    /// timestamps.
    pub cost_ns: u64,
    /// The number of times that the timestamp clock (of the system or the device) was set during
    /// the run. Timestamps from before the last change are dropped.
    pub clock_steps: u32,
    /// Network devices of this machine with a hardware clock, which could timestamp packets but
    /// were not used.
    pub hardware_clocks: Vec<String>,
    /// The devices that took the timestamps, one on each machine, if the plan asks for device
    /// timestamps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hardware: Vec<DeviceClock>,
    /// The bypass of the network stack, if the plan asks for it. The timestamps are then this
    /// program's own, and the shares above count the packets that bypassed the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_stack: Option<PastStack>,
}
