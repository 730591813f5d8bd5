//! Chooses the connection for each request, keeps the backlog of requests that wait for one, and the
//! backoff of connections that failed.

use std::collections::{BTreeSet, HashSet, VecDeque};

use crate::engine::flight::{Due, Flight};
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

const FIRST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 100_000_000;

/// Backoff for closed-loop connections that failed.
///
/// In a closed loop each response triggers the next request. If the server is down, attempts fail
/// immediately. Without backoff, thousands of attempts per second would count as requests and take
/// processor time from the process that restarts the server. A connection that closes without a
/// response therefore backs off for 1 ms. This time doubles after each further failure in a row, up
/// to 100 ms. Any response resets it, whatever the response's status. An open loop needs no backoff,
/// because its schedule determines when to try.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    until: BTreeSet<(u64, usize)>,
    connections: HashSet<usize>,
}

impl Backoff {
    /// Starts a backoff for a connection that has closed `failures` times in a row without a
    /// response. Has no effect on a connection that is already backing off.
    pub(super) fn begin(&mut self, id: usize, failures: u32, now_ns: u64) {
        if self.connections.insert(id) {
            self.until.insert((now_ns.saturating_add(span_ns(failures)), id));
        }
    }

    pub(super) fn expire(&mut self, now_ns: u64) -> Option<usize> {
        let &(until_ns, id) = self.until.first()?;
        if until_ns > now_ns {
            return None;
        }
        self.until.pop_first();
        self.connections.remove(&id);
        Some(id)
    }

    pub(super) fn first_ns(&self) -> Option<u64> {
        self.until.first().map(|(until_ns, _)| *until_ns)
    }
}

fn span_ns(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(u64::BITS - 1);
    FIRST_NS.saturating_mul(1 << doublings).min(LONGEST_NS)
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

    #[test]
    fn each_backoff_doubles_up_to_the_longest() {
        let spans: Vec<u64> = (1..=9).map(|failures| span_ns(failures) / 1_000_000).collect();
        assert_eq!(spans, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!(span_ns(u32::MAX), LONGEST_NS);
    }

    #[test]
    fn backoffs_end_in_the_order_of_their_expiry() {
        let mut backoff = Backoff::default();
        backoff.begin(7, 3, 0);
        backoff.begin(5, 1, 1_000_000);
        backoff.begin(5, 9, 1_500_000);
        assert_eq!((backoff.first_ns(), backoff.expire(1_999_999)), (Some(2_000_000), None));
        assert_eq!((backoff.expire(2_000_000), backoff.expire(2_000_000)), (Some(5), None));
        assert_eq!((backoff.expire(9_000_000), backoff.expire(9_000_000)), (Some(7), None));
        assert_eq!(backoff.first_ns(), None);
    }
}
