//! Where the next request comes from: the schedule, or a connection that is free.

use std::iter::Peekable;

use crate::plan::schedule::{Schedule, Slot};
use crate::plan::share::Share;

/// Requests, one after the other.
#[derive(Debug)]
pub(crate) enum Source {
    /// An open loop: when the schedule says.
    Open(Peekable<Share>),
    /// A closed loop: as soon as a connection is free. Of so many threads on all machines, this one has
    /// this number.
    Closed { schedule: Schedule, threads: u64, thread: u64, over: bool },
    /// No more.
    Over,
}

impl Source {
    pub(crate) fn open(share: Share) -> Source {
        Source::Open(share.peekable())
    }

    pub(crate) fn closed(schedule: Schedule, threads: u64, thread: u64) -> Source {
        Source::Closed { schedule, threads, thread, over: false }
    }

    /// When the next request is to be sent; none if there is none for now.
    pub(super) fn due_ns(&mut self, free: bool) -> Option<i64> {
        match self {
            Source::Open(share) => share.peek().map(|slot| super::at(slot.at_ns)),
            Source::Over => None,
            Source::Closed { over, .. } => (free && !*over).then_some(0),
        }
    }

    /// True if a connection that has room sets off a request.
    pub(super) fn wants_room(&self) -> bool {
        matches!(self, Source::Closed { over: false, .. })
    }

    /// The next request, if it is to be sent by now.
    pub(crate) fn next(&mut self, now_ns: i64, free: bool) -> Option<Slot> {
        match self {
            Source::Open(share) => share.next_if(|slot| super::at(slot.at_ns) <= now_ns),
            Source::Over => None,
            Source::Closed { .. } if !free || now_ns < 0 => None,
            Source::Closed { schedule, threads, thread, over } => {
                let slot = schedule.slot(now_ns as u64);
                *over = slot.is_none();
                // No two threads have requests of one number.
                slot.map(|slot| Slot { index: slot.index * *threads + *thread, ..slot })
            }
        }
    }
}
