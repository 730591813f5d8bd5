//! The result of a run.

use curtail_jitter::machine::Taken;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::agents::AgentReport;
use crate::engine::stamp::{DeviceClock, PastStack};
use crate::results::arrival_test::ArrivalTest;
use crate::results::note::Note;
use crate::results::record::Errors;
use crate::results::sender::Sender;
use crate::results::summary::{Intervals, Splits, Summary};
use crate::results::verdict::{Invalid, Withheld};

/// The result of a run. Serializes to the JSON of `curtail load`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The figures describe the requests that the plan asks for; `invalid_because` is empty.
    pub valid: bool,
    /// Why the run is not valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid_because: Vec<Invalid>,
    /// The run was cut short. Requests that were unfinished at that time count: see [`Errors::unfinished`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// A closed loop: the latencies omit the waits of further users.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed_loop: bool,
    /// How long measured requests were sent, in nanoseconds.
    pub measured_ns: u64,
    /// The mean rate of the plan, per second; none for a closed loop.
    pub offered_rate: Option<f64>,
    /// Good responses per second, over the measured time shifted by the median latency: the window
    /// of the responses to a steady stream of requests. A slow last response does not stretch the
    /// window, and responses that arrive long after the last request do not count.
    pub achieved_rate: f64,
    /// Measured requests that were due.
    pub requests: u64,
    /// Those that a connection took.
    pub sent: u64,
    /// Requests due per second of the measured time. Random arrivals of one plan are the same in each run, and
    /// their rate is not exactly the offered one. None for a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_rate: Option<f64>,
    /// The requests without a good response.
    pub errors: Errors,
    /// Latencies of all requests from their intended times: what a user waits. A failed request counts as at
    /// least the time-out, and one that was unfinished when the run ended as at least its age.
    pub latency_ns: Summary,
    /// The fields of `latency_ns` that are lower bounds for that reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency_at_least: Vec<&'static str>,
    /// Confidence intervals of its percentiles.
    pub latency_ci95_ns: Intervals,
    /// The parts of each of its percentiles.
    pub split_ns: Splits,
    /// Why the 99.9th percentile is missing although there are enough samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Latencies of good responses from when a connection took their requests.
    pub uncorrected_ns: Summary,
    /// From the intended time until a connection took the request: all requests that were sent, or
    /// that waited for a connection until their time-out.
    pub schedule_lag_ns: Summary,
    /// What a reader of the figures should know, whether they are valid or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// The time that the sending threads had left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// What other processes, the server among them if it runs on this machine, and the hypervisor took of it
    /// meanwhile. None of a very short run, and with agents, each of which has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Taken>,
    /// Whether Poisson requests were sent as Poisson arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_test: Option<ArrivalTest>,
    /// The quality of the timestamps by the kernel or a device, if the plan asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<Stamps>,
    /// Connections opened, warm-up included. The first request on each waited for it.
    pub connections_opened: u64,
    /// Requests that were sent again over another connection because the server closed the first
    /// one without having processed them (HTTP/2). Each counts once in `requests`.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent_again: u64,
    /// Connections closed because of extraneous data after a good response, warm-up included. The
    /// response was complete, and counts.
    #[serde(skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// When requests failed, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// The share of each agent, if agents sent the load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentReport>,
    /// The maximum difference between the start times of two agents, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_skew_ns: Option<u64>,
    /// Responses or samples that the observer missed because it did not keep up.
    #[serde(skip)]
    pub unobserved: u64,
    /// The latencies of good responses, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
    /// The other requests: times that their latencies are not below, in nanoseconds.
    #[serde(skip)]
    pub at_least_histogram: Histogram<u64>,
    /// The uncorrected latencies, in nanoseconds.
    #[serde(skip)]
    pub uncorrected_histogram: Histogram<u64>,
}

impl Report {
    /// All latencies, in nanoseconds: those of good responses, and times that the others are not below.
    #[must_use]
    pub fn all(&self) -> Histogram<u64> {
        let mut all = self.histogram.clone();
        all.auto(true);
        // Fails only if the range would exceed the address space.
        let _ = all.add(&self.at_least_histogram);
        all
    }

    /// A warning for people if the generator fell behind its schedule, or too often for the 99.9th
    /// percentile.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// When requests failed. Times are nanoseconds since the start of the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// The error of the first failure, for people.
    pub first: String,
    /// When the first request failed.
    pub first_at_ns: u64,
    /// When the last request failed.
    pub last_at_ns: u64,
    /// When the last good response arrived.
    pub last_good_at_ns: Option<u64>,
    /// Failures since then: many, if the server died.
    pub since_last_good: u64,
}

/// The quality of the timestamps by the kernel or a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stamps {
    /// The share of good responses whose request has a timestamp of its departure, 0 to 1.
    pub sent_coverage: f64,
    /// The share of good responses that have a timestamp of their arrival.
    pub received_coverage: f64,
    /// Packets of the warm-up that arrived before timestamping was on.
    pub unstamped_warmup: u32,
    /// The extra time to send and receive a packet with timestamps, in nanoseconds: the median on
    /// the loopback device, measured before the run. 0 for timestamps by a device.
    pub cost_ns: u64,
    /// How often the clock of the timestamps, the system's or the device's, was set during the run.
    /// Earlier timestamps are dropped.
    pub clock_steps: u32,
    /// Network devices of this machine with a hardware clock, which could timestamp packets. They
    /// are not used.
    pub hardware_clocks: Vec<String>,
    /// The devices that took the timestamps, one on each machine, if the plan asks for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hardware: Vec<DeviceClock>,
    /// Requests and responses bypassed the network stack: timestamps are then this program's own,
    /// and the shares above are of the packets that bypassed the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_stack: Option<PastStack>,
}
