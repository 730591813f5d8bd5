//! One request with all of its times.

use crate::results::outcome::Outcome;
use crate::results::record::Errors;
use crate::session::Status;
use crate::session::fault::Fault;

/// The outcome and the times of a measured request, in nanoseconds since the start of the schedule.
///
/// A request that was dropped because the backlog was full is not a sample; [`Errors::dropped`] counts it. A
/// request that was unfinished when the run ended is one.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The request's position in the schedule, warm-up included. Runs of one plan send the same
    /// query at the same position.
    pub index: u64,
    /// The index of its query in the plan.
    pub query: usize,
    /// The intended send time.
    pub intended_ns: u64,
    /// When a connection took the request, or when it was given up without one.
    pub taken_ns: u64,
    /// When the system accepted its last byte; none if that never happened.
    pub sent_ns: Option<u64>,
    /// When the response was complete, the request failed, or the run ended.
    pub done_ns: u64,
    /// When its last byte left, by the kernel's timestamp, if requested.
    pub kernel_sent_ns: Option<u64>,
    /// When the last byte of the response arrived, by the kernel's timestamp, if requested.
    pub kernel_received_ns: Option<u64>,
    /// It has a complete response with a good status, and therefore a latency.
    pub good: bool,
    /// The length of the response body, in bytes; 0 without a complete response.
    pub body_bytes: u64,
    /// Formatted only by readers, because the sending threads have no time for it.
    result: Result<Status, Fault>,
}

impl Sample {
    pub(crate) fn of(outcome: Outcome) -> Sample {
        let good = outcome.good();
        let Outcome { slot, taken_ns, sent_ns, done_ns, result, .. } = outcome;
        let body_bytes = result.as_ref().map_or(0, |whole| whole.body_bytes);
        Sample {
            index: slot.index,
            query: slot.query,
            intended_ns: slot.at_ns,
            taken_ns,
            sent_ns,
            done_ns,
            kernel_sent_ns: outcome.left_ns,
            kernel_received_ns: outcome.came_ns,
            good,
            body_bytes,
            result: result.map(|whole| whole.status),
        }
    }

    /// The result: the status of a complete response, such as `200`, or its equivalent in a
    /// protocol other than HTTP; or the kind of failure as in [`Errors`]: `connect`, `tls`,
    /// `timeout`, `reset` or `malformed`; or `in_flight` or `overdue` if the run ended first.
    #[must_use]
    pub fn ending(&self) -> String {
        match &self.result {
            Ok(status) => status.to_string().trim_start_matches("status ").to_owned(),
            Err(fault) => Errors::default().of_fault(fault).0.to_owned(),
        }
    }
}
