//! What a run drives through its blocks of arrivals.

use curtail_kernel::hedge::{Record, Snapshot};

use crate::experiment::Setup;
use crate::load::LoadTally;
use crate::sink::Sink;

/// What requests go through: a shard, or servers that clients share.
pub(crate) trait Part {
    /// Lets a block of arrivals come, of the requests from `first` on, and all that happens before
    /// the last of them.
    fn run(&mut self, times: &[u64], first: u64, sink: &mut Sink);

    /// The world is another for the requests from `at` on, the first of which arrives `now`; all that
    /// happens before is as it was.
    fn change(&mut self, to: &Setup<'_>, at: u64, now: u64, sink: &mut Sink);

    /// Queries that have not ended.
    fn open(&self) -> u64;

    /// For how long copies have executed, in ns: those that have ended, and those that are at it at
    /// `now`, up to which all has happened.
    fn executed(&self, now: u64) -> (u128, u128);

    /// Takes the records of a client, 0 where there is one. See [`curtail_kernel::Scheduler::publish`].
    fn publish(&mut self, client: usize, into: &mut Vec<Record>);

    /// Hands a client its snapshot. See [`curtail_kernel::Scheduler::adopt`].
    fn adopt(&mut self, client: usize, snapshot: &Snapshot);

    /// How servers that clients share were loaded.
    fn load(&self) -> Option<LoadTally> {
        None
    }
}
