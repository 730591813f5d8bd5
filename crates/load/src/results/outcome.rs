//! The outcome and the times of one request.

use serde::{Deserialize, Serialize};

use crate::plan::schedule::Slot;
use crate::session::Whole;
use crate::session::fault::{Fault, Left, Wait};

/// The connections of a thread that were in use, with the one that took a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// At most half of them.
    Few,
    #[default]
    Some,
    All,
}

/// The outcome of one request. Times are nanoseconds since the start of the schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) slot: Slot,
    /// The request waited for its connection to open.
    pub(crate) opened: bool,
    pub(crate) crowd: Crowd,
    /// When a connection took the request.
    pub(crate) taken_ns: u64,
    /// When the system accepted its last byte; none if that never happened.
    pub(crate) sent_ns: Option<u64>,
    /// The timestamp of the departure of its last byte.
    pub(crate) left_ns: Option<u64>,
    /// The timestamp of the arrival of the response's last byte.
    pub(crate) came_ns: Option<u64>,
    /// When the response was complete, or the request failed.
    pub(crate) done_ns: u64,
    pub(crate) result: Result<Whole, Fault>,
}

impl Outcome {
    /// A request that waited for a connection until its time-out.
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

    /// A request that was due when the run ended, and that no connection had taken.
    pub(crate) fn overdue(slot: Slot, now_ns: u64) -> Outcome {
        let result = Err(Fault::Unfinished(Left::Overdue));
        Outcome { result, ..Outcome::never_sent(slot, now_ns) }
    }

    /// From the intended time until a connection took the request.
    pub(crate) fn lag_ns(&self) -> u64 {
        self.taken_ns.saturating_sub(self.slot.at_ns)
    }

    /// From when a connection took the request to the end.
    pub(crate) fn uncorrected_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.taken_ns)
    }

    /// From the intended time to the end.
    pub(crate) fn latency_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.slot.at_ns)
    }

    /// Where the request was when the run ended; none if it had ended before.
    pub(crate) fn left(&self) -> Option<Left> {
        match &self.result {
            Err(Fault::Unfinished(left)) => Some(*left),
            _ => None,
        }
    }

    /// True if no connection took the request.
    pub(crate) fn unsent(&self) -> bool {
        matches!(
            &self.result,
            Err(Fault::Timeout(Wait::Connection) | Fault::Unfinished(Left::Overdue))
        )
    }

    /// True for a complete response with a good status.
    pub(crate) fn good(&self) -> bool {
        self.result.as_ref().is_ok_and(|whole| whole.status.good())
    }
}

/// Fewer responses have no reliable mean.
const RESPONSES_MIN: u64 = 30;

/// Sums of response times, from when a connection took the request.
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
