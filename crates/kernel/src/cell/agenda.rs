//! What is left to do: the timers of a cell, and what an event leaves to be settled.

use alloc::vec::Vec;

use crate::heap::Heaps;
use crate::id::{GroupId, QueryId, ServerId};
use crate::time::Timestamp;

/// The timers, by query, by copy slot, or by server.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// The deadlines of the queries.
    pub(super) deadlines: Heaps<Timestamp>,
    /// The hedge timers of queries.
    pub(super) delays: Heaps<Timestamp>,
    /// The attempt timers of copies, and the cancel timeouts of copies that were given up.
    pub(super) copies: Heaps<Timestamp>,
    /// The times at which the ejections of servers may end.
    pub(super) ejections: Heaps<Timestamp>,
    /// The times at which temporarily closed servers open again.
    pub(super) openings: Heaps<Timestamp>,
}

impl Timers {
    pub(super) fn new() -> Self {
        let [deadlines, delays, copies, ejections, openings] = [(); 5].map(|()| Heaps::new(1));
        Self { deadlines, delays, copies, ejections, openings }
    }

    /// Returns the time of the first timer of these and of `others`.
    pub(super) fn first(&self, others: &Heaps<Timestamp>) -> Timestamp {
        let Self { deadlines, delays, copies, ejections, openings } = self;
        let timers = [deadlines, delays, copies, ejections, openings, others];
        // Most heaps are empty. The length of a heap is stored next to its address, so nothing else
        // is read for an empty heap.
        let set = timers.into_iter().filter(|heap| !heap.are_empty());
        let first = set.filter_map(|heap| heap.first(0));
        first.map(|(at, _)| at).min().unwrap_or(Timestamp::NEVER)
    }
}

/// What an event leaves to be settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    /// Servers that may have room.
    pub(super) freed: Vec<ServerId>,
    /// Queries whose last copy failed, youngest first.
    pub(super) to_retry: Vec<QueryId>,
    /// Queries that got a first copy. The hedge sees them only after the waiting queries have been
    /// served as far as possible.
    pub(super) started: Vec<QueryId>,
    /// Queries whose hedge timer is due. The hedge sees them after those in `started`.
    pub(super) timers_due: Vec<QueryId>,
    /// Servers that the hedge sees after those in `timers_due`.
    pub(super) spare: Vec<ServerId>,
    /// Groups in which a query began to wait, or still waits after a slot went to another group.
    pub(super) starved: Vec<GroupId>,
}

impl Agenda {
    pub(super) fn is_empty(&self) -> bool {
        let queries = [&self.to_retry, &self.started, &self.timers_due];
        let servers = [&self.freed, &self.spare];
        queries.iter().all(|list| list.is_empty())
            && servers.iter().all(|list| list.is_empty())
            && self.starved.is_empty()
    }
}
