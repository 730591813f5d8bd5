//! A request in flight, including one that must be sent again.
//!
//! A server that goes away reports which requests it has not processed (RFC 9113 §6.8). A real
//! client sends these requests again over another connection, and its user waits for the response
//! to the second attempt. The generator does the same: the request counts once, and its latency
//! runs from the intended time as always. Its lag is the lag of the first attempt, because the
//! server caused the later delay.
//!
//! The engine never repeats a request that the server may have processed. If the server closes a
//! keep-alive connection while a request is being sent, the request counts as cut off.

use std::iter::Peekable;

use crate::engine::stamp::Departure;
use crate::plan::schedule::{Schedule, Share, Slot};
use crate::results::outcome::{Crowd, Outcome};
use crate::session::Whole;
use crate::session::fault::{Fault, Left};

/// Maximum number of attempts per request. A server that has refused a request this often will not
/// process it.
pub(super) const ATTEMPTS_MAX: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    New(Slot),
    Resend(Flight),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) slot: Slot,
    pub(super) opened: bool,
    pub(super) crowd: Crowd,
    pub(super) taken_ns: u64,
    pub(super) sent_ns: Option<u64>,
    pub(super) left: Option<Departure>,
    attempts: u32,
}

impl Due {
    pub(super) fn slot(&self) -> Slot {
        match self {
            Due::New(slot) => *slot,
            Due::Resend(flight) => flight.slot,
        }
    }

    pub(super) fn taken(self, now_ns: u64, opened: bool, crowd: Crowd) -> Flight {
        match self {
            Due::New(slot) => {
                let (taken_ns, sent_ns, left, attempts) = (now_ns, None, None, 1);
                Flight { slot, opened, crowd, taken_ns, sent_ns, left, attempts }
            }
            Due::Resend(flight) => {
                // The request did wait for a connection, but for a different reason.
                Flight { opened: true, attempts: flight.attempts + 1, ..flight }
            }
        }
    }

    pub(super) fn expired(self, now_ns: u64) -> Outcome {
        let never = Outcome::never_sent(self.slot(), now_ns);
        match self {
            Due::New(_) => never,
            Due::Resend(flight) => flight.complete(now_ns, never.result),
        }
    }

    /// Returns the outcome of the request if the run ends now.
    pub(super) fn unfinished(self, now_ns: u64) -> Outcome {
        match self {
            Due::New(slot) => Outcome::overdue(slot, now_ns),
            Due::Resend(flight) => flight.unfinished(now_ns),
        }
    }
}

impl Flight {
    pub(super) fn can_resend(&self, result: &Result<Whole, Fault>) -> bool {
        matches!(result, Err(Fault::Unprocessed(_))) && self.attempts < ATTEMPTS_MAX
    }

    pub(super) fn is_first(&self) -> bool {
        self.attempts == 1
    }

    pub(super) fn unfinished(self, now_ns: u64) -> Outcome {
        self.complete(now_ns, Err(Fault::Unfinished(Left::InFlight)))
    }

    pub(super) fn complete(self, done_ns: u64, result: Result<Whole, Fault>) -> Outcome {
        let Flight { slot, opened, crowd, taken_ns, sent_ns, left, attempts: _ } = self;
        let left_ns = left.map(|left| left.at_ns);
        Outcome { slot, opened, crowd, taken_ns, sent_ns, left_ns, came_ns: None, done_ns, result }
    }
}

#[derive(Debug)]
pub(crate) enum Source {
    Open {
        share: Peekable<Share>,
        /// Requests due after this time are not sent.
        until_ns: i64,
    },
    /// A closed loop, in which a request is due as soon as a connection is free. This is thread
    /// `thread` of `threads`, counted across all machines.
    Closed { schedule: Schedule, threads: u64, thread: u64, over: bool },
}

impl Source {
    pub(crate) fn open(share: Share) -> Source {
        Source::Open { share: share.peekable(), until_ns: i64::MAX }
    }

    pub(crate) fn closed(schedule: Schedule, threads: u64, thread: u64) -> Source {
        Source::Closed { schedule, threads, thread, over: false }
    }

    /// Drops all requests that are due after `now_ns`. Requests due earlier are still sent;
    /// otherwise a late thread would leave out exactly the requests that it delayed.
    pub(super) fn end_at(&mut self, now_ns: i64) {
        match self {
            Source::Open { until_ns, .. } => *until_ns = (*until_ns).min(now_ns),
            Source::Closed { over, .. } => *over = true,
        }
    }

    /// Whether nothing is left to send.
    pub(super) fn is_over(&mut self) -> bool {
        match self {
            Source::Open { .. } => self.due_ns(false).is_none(),
            Source::Closed { over, .. } => *over,
        }
    }

    pub(super) fn due_ns(&mut self, free: bool) -> Option<i64> {
        match self {
            Source::Open { share, until_ns } => {
                share.peek().map(|slot| super::at(slot.at_ns)).filter(|due_ns| due_ns <= until_ns)
            }
            Source::Closed { over, .. } => (free && !*over).then_some(0),
        }
    }

    pub(super) fn wants_room(&self) -> bool {
        matches!(self, Source::Closed { over: false, .. })
    }

    pub(crate) fn next(&mut self, now_ns: i64, free: bool) -> Option<Slot> {
        match self {
            Source::Open { share, until_ns } => {
                let now_ns = now_ns.min(*until_ns);
                share.next_if(|slot| super::at(slot.at_ns) <= now_ns)
            }
            Source::Closed { over, .. } if *over || !free || now_ns < 0 => None,
            Source::Closed { schedule, threads, thread, over } => {
                let slot = schedule.slot(now_ns as u64);
                *over = slot.is_none();
                // Makes indexes unique across threads.
                slot.map(|slot| Slot { index: slot.index * *threads + *thread, ..slot })
            }
        }
    }
}
