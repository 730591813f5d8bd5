//! What became of one request, and when.

use crate::plan::schedule::Slot;
use crate::session::Whole;
use crate::session::fault::{Fault, Wait};

/// What became of one request. Times are nanoseconds since the start of the schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) slot: Slot,
    /// It waited for its connection to be opened.
    pub(crate) opened: bool,
    /// A connection took it up.
    pub(crate) taken_ns: u64,
    /// The system took its last byte; none if that never happened.
    pub(crate) sent_ns: Option<u64>,
    /// The kernel says that its last byte left.
    pub(crate) left_ns: Option<u64>,
    /// The kernel says that the last byte of its answer came.
    pub(crate) came_ns: Option<u64>,
    /// Its answer was whole, or it failed.
    pub(crate) done_ns: u64,
    pub(crate) result: Result<Whole, Fault>,
}

impl Outcome {
    /// Of a request that waited for a connection until nobody would wait for its answer any more.
    pub(crate) fn never_sent(slot: Slot, now_ns: u64) -> Outcome {
        let result = Err(Fault::Timeout(Wait::Room));
        Outcome {
            slot,
            opened: false,
            taken_ns: now_ns,
            sent_ns: None,
            left_ns: None,
            came_ns: None,
            done_ns: now_ns,
            result,
        }
    }

    /// From the intended time until it was taken up.
    pub(crate) fn lag_ns(&self) -> u64 {
        self.taken_ns.saturating_sub(self.slot.at_ns)
    }

    /// From there to the end.
    pub(crate) fn uncorrected_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.taken_ns)
    }

    /// From the intended time to the end.
    pub(crate) fn latency_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.slot.at_ns)
    }

    /// True for a whole answer that says that all is well.
    pub(crate) fn good(&self) -> bool {
        self.result.as_ref().is_ok_and(|whole| whole.status.good())
    }
}
