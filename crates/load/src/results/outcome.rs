//! The outcome of one request and its times, as the engine records it and as an observer sees it.

use curtail_http::h1::ResponseHead;
use serde::{Deserialize, Serialize};

use crate::plan::schedule::Slot;
use crate::results::errors::Errors;
use crate::session::fault::{Fault, Left, Wait};
use crate::session::{Status, Whole};

/// How many connections of a thread were in use, including the one that took the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// At most half of the connections were in use.
    Few,
    #[default]
    Some,
    All,
}

/// The outcome and the times of a request. Times are nanoseconds since the start of the schedule.
///
/// Requests that were unfinished when the run ended have outcomes, too. Requests that were dropped
/// because the backlog was full have none; [`Errors::dropped`] counts them.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The request's position in the schedule, its intended send time, and its query. Runs of one
    /// plan send the same query at the same position.
    pub slot: Slot,
    /// Whether the request waited for its connection to open. Its latencies include that wait.
    pub opened: bool,
    pub(crate) crowd: Crowd,
    /// When a connection took the request, or when the request failed without a connection.
    pub taken_ns: u64,
    /// When the system accepted the last byte of the request. `None` if the system never accepted
    /// it.
    pub sent_ns: Option<u64>,
    /// When the last byte of the request left, according to the kernel, if timestamps were
    /// requested.
    pub left_ns: Option<u64>,
    /// When the last byte of the response arrived, according to the kernel, if timestamps were
    /// requested.
    pub came_ns: Option<u64>,
    /// When the response was complete, the request failed, or the run ended.
    pub done_ns: u64,
    pub(crate) result: Result<Whole, Fault>,
}

impl Outcome {
    /// Returns the outcome of a request that waited for a connection until its timeout.
    pub(crate) fn never_sent(slot: Slot, now_ns: u64) -> Outcome {
        let result = Err(Fault::Timeout(Wait::Connection));
        Outcome {
            slot,
            opened: false,
            crowd: Crowd::default(),
            taken_ns: now_ns,
            sent_ns: None,
            left_ns: None,
            came_ns: None,
            done_ns: now_ns,
            result,
        }
    }

    /// Returns the outcome of a request that was due when the run ended but had no connection yet.
    pub(crate) fn overdue(slot: Slot, now_ns: u64) -> Outcome {
        let result = Err(Fault::Unfinished(Left::Overdue));
        Outcome { result, ..Outcome::never_sent(slot, now_ns) }
    }

    /// The delay between the intended time and the moment at which a connection took the request.
    pub(crate) fn lag_ns(&self) -> u64 {
        self.taken_ns.saturating_sub(self.slot.at_ns)
    }

    /// The time from when a connection took the request until the request ended.
    #[must_use]
    pub fn uncorrected_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.taken_ns)
    }

    /// The time between the intended time and the end of the request.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.slot.at_ns)
    }

    /// The state of the request when the run ended. `None` if the request had already ended.
    pub(crate) fn left(&self) -> Option<Left> {
        match &self.result {
            Err(Fault::Unfinished(left)) => Some(*left),
            _ => None,
        }
    }

    /// Whether no connection took the request.
    pub(crate) fn unsent(&self) -> bool {
        matches!(
            &self.result,
            Err(Fault::Timeout(Wait::Connection) | Fault::Unfinished(Left::Overdue))
        )
    }

    /// Whether there is a complete response that reports success: a status of 2xx, or its
    /// equivalent in the protocol. Only such a response has a latency.
    #[must_use]
    pub fn good(&self) -> bool {
        self.result.as_ref().is_ok_and(|whole| whole.status.good())
    }

    /// Returns the HTTP status code of a complete response, 200 to 599. `None` for other protocols.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.result.as_ref().ok()?.status {
            Status::Http(status) => Some(status),
            _ => None,
        }
    }

    /// Returns the head of a complete response. Only [`run_observed`](crate::run_observed) keeps
    /// it, and only over HTTP/1.1.
    #[must_use]
    pub fn head(&self) -> Option<&ResponseHead> {
        self.result.as_ref().ok()?.head.as_ref()
    }

    /// Returns the length of the body in bytes, or 0 if there is no complete response. For protocols
    /// without a body, it is the length of the data that was requested.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.result.as_ref().map_or(0, |whole| whole.body_bytes)
    }

    /// Returns how the request ended. For a complete response, this is its status, such as `200`,
    /// or the equivalent in a protocol other than HTTP. For a failure, it is the kind as in
    /// [`Errors`]: `connect`, `tls`, `timeout`, `reset` or `malformed`. If the run ended first, it
    /// is `in_flight` or `overdue`.
    #[must_use]
    pub fn ending(&self) -> String {
        match &self.result {
            Ok(whole) => whole.status.to_string().trim_start_matches("status ").to_owned(),
            Err(fault) => Errors::default().of_fault(fault).0.to_owned(),
        }
    }
}

#[cfg(test)]
impl Outcome {
    /// Creates the outcome of a request that a connection took at one time, and that ended at
    /// another with an HTTP status or a failure.
    pub(crate) fn ended(
        slot: Slot,
        taken_ns: u64,
        done_ns: u64,
        result: Result<u16, Fault>,
    ) -> Outcome {
        let whole = |status| Whole { status: Status::Http(status), head: None, body_bytes: 0 };
        let (sent_ns, result) = (Some(taken_ns), result.map(whole));
        Outcome { sent_ns, done_ns, result, ..Outcome::never_sent(slot, taken_ns) }
    }
}

/// Minimum number of responses for a reliable mean.
const RESPONSES_MIN: u64 = 30;

/// The number and the sum of response times. Each response time starts when a connection takes the
/// request.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Busy {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
}

impl Busy {
    pub(crate) fn add(&mut self, count: u64, sum_ns: u64) {
        self.count = self.count.saturating_add(count);
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    pub(crate) fn mean_ns(&self) -> Option<u64> {
        (self.count >= RESPONSES_MIN).then(|| self.sum_ns / self.count)
    }
}
