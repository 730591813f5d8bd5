//! The outcome of one request and its times.

use serde::{Deserialize, Serialize};

use crate::plan::schedule::Slot;
use crate::session::Whole;
use crate::session::fault::{Fault, Left, Wait};

/// How many connections of a thread were in use, including the one that took the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// At most half of the connections were in use.
    Few,
    #[default]
    Some,
    All,
}

/// The outcome of one request. Times are nanoseconds since the start of the schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) slot: Slot,
    /// Whether the request waited for its connection to open.
    pub(crate) opened: bool,
    pub(crate) crowd: Crowd,
    /// When a connection took the request.
    pub(crate) taken_ns: u64,
    /// When the system accepted the last byte of the request. `None` if the system never accepted
    /// it.
    pub(crate) sent_ns: Option<u64>,
    /// The timestamp at which the request's last byte left.
    pub(crate) left_ns: Option<u64>,
    /// The timestamp at which the response's last byte arrived.
    pub(crate) came_ns: Option<u64>,
    /// When the response was complete, or the request failed.
    pub(crate) done_ns: u64,
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
    pub(crate) fn uncorrected_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.taken_ns)
    }

    /// The time between the intended time and the end of the request.
    pub(crate) fn latency_ns(&self) -> u64 {
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

    /// Whether there is a complete response with a good status.
    pub(crate) fn good(&self) -> bool {
        self.result.as_ref().is_ok_and(|whole| whole.status.good())
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
