//! Chooses the connection for each request, and keeps the backlog of requests that wait for one.

use std::collections::{BTreeSet, VecDeque};

use super::flight::{Due, Flight};
use crate::plan::schedule::Slot;
use crate::results::outcome::Crowd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assigned {
    On(usize),
    Queued,
    Dropped,
}

/// The connections with room, and the backlog. Except momentarily, at most one of these two
/// collections is non-empty.
#[derive(Debug)]
pub(super) struct Pool {
    /// The connections are ordered by their number of outstanding requests, then by index. With one
    /// request per connection, the first free connection is used, and later connections are used
    /// only when many are needed.
    free: BTreeSet<(usize, usize)>,
    load: Vec<Option<usize>>,
    backlog: VecDeque<Due>,
    backlog_max: usize,
}

impl Pool {
    pub(super) fn new(connections: usize, backlog_max: usize) -> Pool {
        Pool {
            free: (0..connections).map(|id| (0, id)).collect(),
            load: vec![Some(0); connections],
            backlog: VecDeque::new(),
            backlog_max,
        }
    }

    /// Assigns a due request. The request counts toward its connection only after
    /// [`put`](Pool::put).
    pub(super) fn assign(&mut self, slot: Slot) -> Assigned {
        match self.free.first() {
            Some(&(_, id)) => Assigned::On(id),
            None if self.backlog.len() < self.backlog_max => {
                self.backlog.push_back(Due::New(slot));
                Assigned::Queued
            }
            None => Assigned::Dropped,
        }
    }

    /// Puts a request that a server has handed back into the backlog, in order of intended times.
    /// This needs no limit, because there are never more of these requests than there were requests
    /// in flight.
    pub(super) fn put_back(&mut self, flight: Flight) {
        let earlier = |due: &Due| due.slot().at_ns <= flight.slot.at_ns;
        let at = self.backlog.partition_point(earlier);
        self.backlog.insert(at, Due::Resend(flight));
    }

    /// Returns how many connections are in use, including the one that takes the next request.
    pub(super) fn crowd(&self) -> Crowd {
        match self.free.len() {
            0 | 1 => Crowd::All,
            free if 2 * (free - 1) >= self.load.len() => Crowd::Few,
            _ => Crowd::Some,
        }
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn put(&mut self, id: usize, outstanding: usize, room: bool) {
        if let Some(before) = self.load[id].take() {
            self.free.remove(&(before, id));
        }
        if room {
            self.free.insert((outstanding, id));
            self.load[id] = Some(outstanding);
        }
    }

    pub(super) fn next(&mut self) -> Option<(usize, Due)> {
        let &(_, id) = self.free.first()?;
        Some((id, self.backlog.pop_front()?))
    }

    pub(super) fn next_resend(&mut self) -> Option<Due> {
        self.backlog.front().filter(|due| matches!(due, Due::Resend(_)))?;
        self.backlog.pop_front()
    }

    pub(super) fn expire(&mut self, until_ns: u64) -> Option<Due> {
        self.backlog.front().filter(|due| due.slot().at_ns <= until_ns)?;
        self.backlog.pop_front()
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.backlog.front().map(|due| due.slot().at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: u64) -> Slot {
        Slot { index, at_ns: index, query: 0, warmup: false }
    }

    #[test]
    fn the_first_free_connection_is_used() {
        let mut pool = Pool::new(3, 0);
        for id in 0..3 {
            assert_eq!(pool.assign(slot(0)), Assigned::On(id));
            pool.put(id, 1, false);
        }
        assert_eq!(pool.assign(slot(0)), Assigned::Dropped);
        pool.put(2, 0, true);
        pool.put(1, 0, true);
        assert_eq!(pool.assign(slot(0)), Assigned::On(1));
    }

    #[test]
    fn the_number_of_connections_in_use_is_classified() {
        let mut pool = Pool::new(4, 0);
        for (id, crowd) in [Crowd::Few, Crowd::Few, Crowd::Some, Crowd::All].into_iter().enumerate()
        {
            assert_eq!(pool.crowd(), crowd);
            pool.put(id, 1, false);
        }
        assert_eq!(Pool::new(1, 0).crowd(), Crowd::All);
    }

    #[test]
    fn connections_with_several_requests_are_filled_evenly() {
        let mut pool = Pool::new(2, 0);
        pool.put(0, 1, true);
        assert_eq!(pool.assign(slot(0)), Assigned::On(1));
        pool.put(1, 2, true);
        assert_eq!(pool.assign(slot(0)), Assigned::On(0));
    }

    #[test]
    fn requests_without_a_connection_wait_in_order_or_are_dropped() {
        let mut pool = Pool::new(1, 2);
        pool.put(0, 1, false);
        let assigned: Vec<Assigned> = (1..=3).map(|index| pool.assign(slot(index))).collect();
        assert_eq!(assigned, [Assigned::Queued, Assigned::Queued, Assigned::Dropped]);
        assert_eq!(pool.next(), None);
        pool.put(0, 0, true);
        assert_eq!(pool.next(), Some((0, Due::New(slot(1)))));
        assert_eq!(pool.oldest_ns(), Some(2));
        assert_eq!(pool.expire(1), None);
        assert_eq!(pool.expire(2), Some(Due::New(slot(2))));
    }

    #[test]
    fn requests_handed_back_are_queued_by_time_even_if_the_backlog_is_full() {
        let mut pool = Pool::new(1, 2);
        pool.put(0, 1, false);
        for index in [3, 7] {
            assert_eq!(pool.assign(slot(index)), Assigned::Queued);
        }
        let resends = [5, 1].map(|index| Due::New(slot(index)).taken(9, false, Crowd::All));
        assert_eq!(pool.next_resend(), None);
        resends.iter().for_each(|flight| pool.put_back(*flight));
        assert_eq!(pool.oldest_ns(), Some(1));
        let order: Vec<u64> =
            std::iter::from_fn(|| pool.expire(9)).map(|due| due.slot().at_ns).collect();
        assert_eq!(order, [1, 3, 5, 7]);
        resends.iter().for_each(|flight| pool.put_back(*flight));
        let order: Vec<u64> =
            std::iter::from_fn(|| pool.next_resend()).map(|due| due.slot().at_ns).collect();
        assert_eq!(order, [1, 5]);
    }
}
