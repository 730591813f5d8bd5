//! What all shards have in common: what a run asks of them, and what they pass to their cells.

use curtail_kernel::hedge::{Records, Snapshot};
use curtail_kernel::{CopyId, Event, Feedback, Needs, Scheduler, Timestamp};

use crate::load::LoadTally;
use crate::setup::Setup;
use crate::sink::Sink;

/// The size of every simulated response in bytes, because the simulator has no model of sizes.
pub const RESPONSE_BYTES: u64 = 64;

/// The servers that requests go to: a shard, or servers that clients share.
pub(crate) trait Part {
    /// Runs a block of arrivals, which begins with request `first`, and all events before the last
    /// arrival.
    fn run(&mut self, times: &[u64], first: u64, sink: &mut Sink);

    /// Changes the world for request `at`, which arrives at `now`, and for all later ones. Earlier
    /// events happen before the change.
    fn change(&mut self, to: &Setup<'_>, at: u64, now: u64, sink: &mut Sink);

    /// Returns the number of queries that have not ended.
    fn open(&self) -> u64;

    /// Returns the execution time of copies. All events up to `now` must have happened.
    fn executed(&self, now: u64) -> Executed;

    /// Removes and returns the records of a client. The index is 0 if there is only one client. See
    /// [`curtail_kernel::Scheduler::publish`].
    fn publish(&mut self, client: usize, into: &mut Records);

    /// Passes a snapshot to a client. See [`curtail_kernel::Scheduler::adopt`].
    fn adopt(&mut self, client: usize, snapshot: &Snapshot);

    /// Returns the load of servers that clients share.
    fn load(&self) -> Option<LoadTally> {
        None
    }
}

/// The total execution time of copies, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) ended_ns: u128,
    /// The time of the copies that are still executing.
    pub(crate) running_ns: u128,
}

/// The events that a cell receives in addition to the ends of copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    pub(crate) forecasts: bool,
    pub(crate) starts: bool,
    feedback: bool,
    bytes: bool,
}

impl Wants {
    pub(crate) fn new(policy: &Needs, cell: &Needs) -> Self {
        let Needs { forecasts, starts, .. } = *policy;
        Self { forecasts, starts, feedback: cell.feedback, bytes: cell.bytes }
    }

    /// Whether responses carry feedback, or their size matters.
    pub(crate) fn responses(self) -> bool {
        self.feedback || self.bytes
    }

    /// Passes the feedback in a copy's response and its size to the cell.
    #[inline(never)]
    pub(crate) fn report(
        self,
        cell: &mut (impl Scheduler + ?Sized),
        now: u64,
        copy: CopyId,
        feedback: Feedback,
    ) {
        let feedback = self.feedback.then_some(Event::Feedback { copy, feedback });
        let size = self.bytes.then_some(Event::Received { copy, bytes: RESPONSE_BYTES });
        for event in feedback.into_iter().chain(size) {
            let actions = cell.handle(Timestamp(now), &event);
            debug_assert!(actions.is_empty(), "it starts and ends nothing");
        }
    }
}
