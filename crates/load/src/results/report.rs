//! The result of a run.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::agents::AgentReport;
use crate::engine::stamp::PastStack;
use crate::results::arrival_test::ArrivalTest;
use crate::results::record::Errors;
use crate::results::summary::{Intervals, Splits, Summary};
use crate::results::verdict::{Invalid, Withheld};

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
    /// A closed loop: the latencies leave out what others would have waited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed_loop: bool,
    /// For how long measured requests were sent, in nanoseconds.
    pub measured_ns: u64,
    /// The mean rate of the plan, per second; none for a closed loop.
    pub offered_rate: Option<f64>,
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
    /// How sure its percentiles are.
    pub latency_ci95_ns: Intervals,
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
    /// Whether the requests were sent as Poisson arrivals are, where they were to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_test: Option<ArrivalTest>,
    /// What is behind the kernel's stamps, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<Stamps>,
    /// Connections opened, those of the warm-up included. The first request on each waited for it.
    pub connections_opened: u64,
    /// Times that a request was sent again over another connection, because the server had gone away
    /// without having looked at it (HTTP/2). It counts once.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent_again: u64,
    /// Connections that were closed because the server sent bytes behind a good answer that nobody had
    /// asked for, those of the warm-up included. The answer was whole, and counts.
    #[serde(skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// When requests failed, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// The parts of the load that agents sent, where it was sent by agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentReport>,
    /// So far apart may two agents have started, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_skew_ns: Option<u64>,
    /// Answers or samples that the observer was not told, for it did not keep up.
    #[serde(skip)]
    pub unobserved: u64,
    /// The latencies, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
    /// The uncorrected latencies, in nanoseconds.
    #[serde(skip)]
    pub uncorrected_histogram: Histogram<u64>,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// When requests failed. Times are nanoseconds since the start of the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// What the first one failed with, for people.
    pub first: String,
    /// When it did.
    pub first_at_ns: u64,
    /// When the last one did.
    pub last_at_ns: u64,
    /// When the last good answer came.
    pub last_good_at_ns: Option<u64>,
    /// Failures since then: many, if the server died.
    pub since_last_good: u64,
}

/// How far the kernel's stamps can be relied on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stamps {
    /// The share of good answers whose request has a stamp of its leaving, 0 to 1.
    pub sent_coverage: f64,
    /// The share of good answers that have a stamp of their coming.
    pub received_coverage: f64,
    /// Packets of the warm-up that came before stamping was on.
    pub unstamped_warmup: u32,
    /// What a stamped packet takes longer to send and receive than a plain one, in nanoseconds: the
    /// median on the loopback device, measured before the run.
    pub cost_ns: u64,
    /// How often the clock of the system, by which the kernel stamps, was set during the run. Stamps of
    /// before are dropped.
    pub clock_steps: u32,
    /// Network devices of this machine that have a clock, and could stamp packets themselves. They are
    /// not asked to.
    pub hardware_clocks: Vec<String>,
    /// Requests and answers went past the network stack: there are no stamps of the kernel then, but the times
    /// of this program, and the shares above are of those that did not pass the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_stack: Option<PastStack>,
}
