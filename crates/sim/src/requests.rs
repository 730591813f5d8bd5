//! Tracks open requests and the latencies of completed ones.
//!
//! A request is done when the last of its queries is done. Its latency is the largest of their
//! latencies. Shards are simulated one after the other over a block of arrivals, so all requests of
//! the block are open at the same time, together with some from earlier blocks. Most open requests
//! arrived within a short time. A ring buffer contains these, together with the few completed
//! requests among them. If the ring would grow too large because a request stays open, this request
//! becomes a straggler and moves to a map.

use std::collections::BTreeMap;

/// Maximum distance from the oldest request in the ring to the next one to arrive. The arriving
/// block does not count.
const LONGEST: u64 = 1 << 18;

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// The largest latency of the queries that have completed, in ns.
    worst_ns: u64,
    left: u32,
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) request: u64,
    /// `None` if a shard gave no response.
    pub(crate) latency_ns: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Requests {
    shards: u32,
    /// The oldest request in the ring, or the next request to arrive if the ring is empty.
    first: u64,
    next: u64,
    ring: Vec<Open>,
    stragglers: BTreeMap<u64, Open>,
    /// The requests that were done when they left the ring or were completed later.
    done: Vec<Done>,
}

impl Requests {
    pub(crate) fn new(shards: u32) -> Self {
        Self {
            shards,
            first: 0,
            next: 0,
            ring: vec![Open::default(); 1024],
            stragglers: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn open(&self) -> u64 {
        self.next - self.first + self.stragglers.len() as u64
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.stragglers.first_key_value().map_or(self.first, |(&request, _)| request)
    }

    pub(crate) fn arrive(&mut self, count: u64) {
        while self.next - self.first > LONGEST {
            self.set_aside();
        }
        let needed = (self.next - self.first + count).next_power_of_two() as usize;
        if needed > self.ring.len() {
            self.grow(needed);
        }
        for request in self.next..self.next + count {
            let at = self.at(request);
            self.ring[at] = Open { left: self.shards, ..Open::default() };
        }
        self.next += count;
    }

    fn set_aside(&mut self) {
        let open = self.ring[self.at(self.first)];
        match open.done(self.first) {
            Some(done) => self.done.push(done),
            None => _ = self.stragglers.insert(self.first, open),
        }
        self.first += 1;
    }

    fn grow(&mut self, size: usize) {
        let mut ring = vec![Open::default(); size];
        for request in self.first..self.next {
            ring[request as usize & (size - 1)] = self.ring[self.at(request)];
        }
        self.ring = ring;
    }

    #[inline(always)]
    fn at(&self, request: u64) -> usize {
        request as usize & (self.ring.len() - 1)
    }

    #[inline(always)]
    pub(crate) fn answered(&mut self, request: u64, latency_ns: u64) {
        if request < self.first {
            return self.straggler(request, Some(latency_ns));
        }
        let at = self.at(request);
        self.ring[at].answered(latency_ns);
    }

    pub(crate) fn failed(&mut self, request: u64) {
        if request < self.first {
            return self.straggler(request, None);
        }
        let at = self.at(request);
        self.ring[at].fail();
    }

    #[cold]
    #[inline(never)]
    fn straggler(&mut self, request: u64, latency_ns: Option<u64>) {
        let open = self.stragglers.get_mut(&request).expect("it is open");
        match latency_ns {
            Some(latency_ns) => open.answered(latency_ns),
            None => open.fail(),
        }
        if let Some(done) = open.done(request) {
            self.done.push(done);
            self.stragglers.remove(&request);
        }
    }

    /// Removes and returns the requests that were done when they left the ring or were completed
    /// later.
    pub(crate) fn late(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }

    /// Removes and returns the oldest request in the ring if it is done. Requests leave in the
    /// order of arrival.
    pub(crate) fn pop(&mut self) -> Option<Done> {
        if self.first == self.next {
            return None;
        }
        let done = self.ring[self.at(self.first)].done(self.first)?;
        self.first += 1;
        Some(done)
    }
}

impl Open {
    #[inline(always)]
    fn answered(&mut self, latency_ns: u64) {
        self.worst_ns = self.worst_ns.max(latency_ns);
        self.left -= 1;
    }

    fn fail(&mut self) {
        self.failed = true;
        self.left -= 1;
    }

    /// Returns the result if the request is done.
    #[inline(always)]
    fn done(&self, request: u64) -> Option<Done> {
        let Self { worst_ns, left, failed } = *self;
        (left == 0).then(|| Done { request, latency_ns: (!failed).then_some(worst_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_slow_as_its_slowest_shard() {
        let mut requests = Requests::new(2);
        requests.arrive(3);
        requests.answered(1, 5);
        requests.answered(0, 7);
        requests.answered(0, 3);
        assert_eq!(requests.pop(), Some(Done { request: 0, latency_ns: Some(7) }));
        assert_eq!(requests.pop(), None, "request 1 lacks a shard");
        requests.failed(1);
        assert_eq!(requests.pop(), Some(Done { request: 1, latency_ns: None }));
        assert_eq!(requests.open(), 1);
    }

    #[test]
    fn a_straggler_blocks_no_other_request() {
        let mut requests = Requests::new(2);
        requests.arrive(2);
        requests.answered(0, 7);
        for request in 2..3 * LONGEST {
            requests.arrive(1);
            requests.answered(request, 1);
            requests.answered(request, 1);
            while let Some(done) = requests.pop() {
                assert!(done.request > 1);
            }
        }
        assert!(requests.open() < LONGEST + 2 && requests.ring.len() as u64 <= 2 * LONGEST);
        assert_eq!((requests.oldest(), requests.stragglers.len()), (0, 2));
        requests.answered(0, 9);
        requests.failed(1);
        requests.answered(1, 3);
        let done: Vec<_> =
            requests.late().iter().map(|done| (done.request, done.latency_ns)).collect();
        assert_eq!(done, [(0, Some(9)), (1, None)]);
        assert_eq!(requests.late(), [], "each is taken once");
        assert_eq!(requests.oldest(), 3 * LONGEST);
    }

    #[test]
    fn stragglers_survive_the_growth_of_the_ring() {
        let mut requests = Requests::new(1);
        requests.arrive(1_000);
        for request in 1..1_000 {
            requests.answered(request, request);
        }
        requests.arrive(5_000);
        requests.answered(0, 9);
        let done: Vec<_> = std::iter::from_fn(|| requests.pop()).collect();
        assert_eq!(done.len(), 1_000);
        assert_eq!(done[0].latency_ns, Some(9));
        assert!((1..1_000).all(|at| done[at].latency_ns == Some(at as u64)));
        assert_eq!(requests.open(), 5_000);
    }
}
