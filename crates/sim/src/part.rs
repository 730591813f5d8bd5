//! The common interface of shards and worlds. A run calls it for each block of arrivals.

use curtail_kernel::hedge::{Record, Snapshot};

use crate::experiment::Setup;
use crate::load::LoadTally;
use crate::sink::Sink;

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

    /// Returns the total execution time, in ns, of copies that have ended, and that of copies that
    /// are executing at `now`. All events up to `now` must have happened.
    fn executed(&self, now: u64) -> (u128, u128);

    /// Removes and returns the records of a client. The index is 0 if there is only one client. See
    /// [`curtail_kernel::Scheduler::publish`].
    fn publish(&mut self, client: usize, into: &mut Vec<Record>);

    /// Passes a snapshot to a client. See [`curtail_kernel::Scheduler::adopt`].
    fn adopt(&mut self, client: usize, snapshot: &Snapshot);

    /// Returns the load of servers that clients share.
    fn load(&self) -> Option<LoadTally> {
        None
    }
}
