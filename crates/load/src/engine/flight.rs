//! A request on its way, also one that has to be sent again.
//!
//! A server that goes away says which requests it has not looked at (RFC 9113 §6.8). A user's client
//! sends those again, over another connection, and the user waits for the answer to the second one. So
//! does this one: the request counts once, its latency runs from the intended time as always, and its
//! lag is that of the first sending, for what came after it is the server's doing.
//!
//! What a server may have seen is never sent twice: a request on a keep-alive connection that the server
//! closes just then counts as cut off.

use std::iter::Peekable;

use crate::plan::schedule::{Schedule, Slot};
use crate::plan::share::Share;
use crate::results::outcome::Outcome;
use crate::session::Whole;
use crate::session::fault::Fault;

/// A request is sent so many times at most. A server that still has not looked at it then will not.
pub(super) const SENDINGS_MAX: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    New(Slot),
    Again(Flight),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) slot: Slot,
    pub(super) opened: bool,
    pub(super) taken_ns: u64,
    pub(super) sent_ns: Option<u64>,
    pub(super) left_ns: Option<u64>,
    sendings: u32,
}

impl Due {
    pub(super) fn slot(&self) -> Slot {
        match self {
            Due::New(slot) => *slot,
            Due::Again(flight) => flight.slot,
        }
    }

    pub(super) fn taken(self, now_ns: u64, opened: bool) -> Flight {
        match self {
            Due::New(slot) => {
                Flight { slot, opened, taken_ns: now_ns, sent_ns: None, left_ns: None, sendings: 1 }
            }
            Due::Again(flight) => {
                // It waited for a connection, if for another reason.
                Flight { opened: true, sendings: flight.sendings + 1, ..flight }
            }
        }
    }

    pub(super) fn given_up(self, now_ns: u64) -> Outcome {
        let never = Outcome::never_sent(self.slot(), now_ns);
        match self {
            Due::New(_) => never,
            Due::Again(flight) => flight.ends(now_ns, never.result),
        }
    }
}

impl Flight {
    pub(super) fn goes_again(&self, result: &Result<Whole, Fault>) -> bool {
        matches!(result, Err(Fault::Unprocessed(_))) && self.sendings < SENDINGS_MAX
    }

    pub(super) fn is_first(&self) -> bool {
        self.sendings == 1
    }

    pub(super) fn ends(self, done_ns: u64, result: Result<Whole, Fault>) -> Outcome {
        let Flight { slot, opened, taken_ns, sent_ns, left_ns, sendings: _ } = self;
        Outcome { slot, opened, taken_ns, sent_ns, left_ns, came_ns: None, done_ns, result }
    }
}

#[derive(Debug)]
pub(crate) enum Source {
    Open(Peekable<Share>),
    /// A closed loop: as soon as a connection is free. Of so many threads on all machines, this one has
    /// this number.
    Closed {
        schedule: Schedule,
        threads: u64,
        thread: u64,
        over: bool,
    },
    Over,
}

impl Source {
    pub(crate) fn open(share: Share) -> Source {
        Source::Open(share.peekable())
    }

    pub(crate) fn closed(schedule: Schedule, threads: u64, thread: u64) -> Source {
        Source::Closed { schedule, threads, thread, over: false }
    }

    pub(super) fn due_ns(&mut self, free: bool) -> Option<i64> {
        match self {
            Source::Open(share) => share.peek().map(|slot| super::at(slot.at_ns)),
            Source::Over => None,
            Source::Closed { over, .. } => (free && !*over).then_some(0),
        }
    }

    pub(super) fn wants_room(&self) -> bool {
        matches!(self, Source::Closed { over: false, .. })
    }

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
