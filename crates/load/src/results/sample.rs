//! A request and all of its times.

use crate::results::outcome::Outcome;
use crate::results::record::Errors;
use crate::session::Status;
use crate::session::fault::Fault;

/// The outcome and the times of a measured request. Times are nanoseconds since the start of the
/// schedule.
///
/// Requests that were unfinished when the run ended are included as samples. Requests that were
/// dropped because the backlog was full are not samples; [`Errors::dropped`] counts them.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The request's position in the schedule, counting the warm-up. Runs of one plan send the same
    /// query at the same position.
    pub index: u64,
    /// The index of the query in the plan.
    pub query: usize,
    /// The intended send time.
    pub intended_ns: u64,
    /// The time at which a connection took the request, or at which the request failed without a
    /// connection.
    pub taken_ns: u64,
    /// When the system accepted the last byte of the request. `None` if the system never accepted
    /// it.
    pub sent_ns: Option<u64>,
    /// When the response was complete, the request failed, or the run ended.
    pub done_ns: u64,
    /// When the last byte of the request left, according to the kernel, if timestamps were
    /// requested.
    pub kernel_sent_ns: Option<u64>,
    /// When the last byte of the response arrived, according to the kernel, if timestamps were
    /// requested.
    pub kernel_received_ns: Option<u64>,
    /// Whether the response is complete and has a good status. Only such a response has a latency.
    pub good: bool,
    /// The length of the response body in bytes, or 0 if there is no complete response.
    pub body_bytes: u64,
    /// The result is formatted when a sample is read, because the sending threads have no time to
    /// do it.
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

    /// Returns how the request ended. For a complete response, this is its status, such as `200`,
    /// or the equivalent in a protocol other than HTTP. For a failure, it is the kind as in
    /// [`Errors`]: `connect`, `tls`, `timeout`, `reset` or `malformed`. If the run ended first, it
    /// is `in_flight` or `overdue`.
    #[must_use]
    pub fn ending(&self) -> String {
        match &self.result {
            Ok(status) => status.to_string().trim_start_matches("status ").to_owned(),
            Err(fault) => Errors::default().of_fault(fault).0.to_owned(),
        }
    }
}
