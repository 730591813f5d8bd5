//! The requests that some shard has not answered yet, and the latencies of those that all have.
//!
//! A request is done when its last shard is; its latency is the largest of its queries' latencies.
//! Shards are simulated one after the other over a block of arrivals, so the requests of the block
//! and the stragglers of earlier blocks are open at once. They are consecutive: a ring holds them.

/// A request that is not done.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The largest latency so far, in ns.
    worst_ns: u64,
    /// Shards that have not answered.
    left: u32,
    /// A shard gave up on it.
    failed: bool,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Its number, from 0.
    pub(crate) request: u64,
    /// None if a shard gave no answer.
    pub(crate) latency_ns: Option<u64>,
}

/// A window over the requests that are open.
#[derive(Debug)]
pub(crate) struct Requests {
    shards: u32,
    /// The oldest one that is open, or the next to come.
    first: u64,
    /// The next to come.
    next: u64,
    /// A ring with a power of two of entries.
    ring: Vec<Open>,
}

impl Requests {
    pub(crate) fn new(shards: u32) -> Self {
        Self { shards, first: 0, next: 0, ring: vec![Open::NONE; 1024] }
    }

    /// The next request to come.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// How many are open.
    pub(crate) fn open(&self) -> u64 {
        self.next - self.first
    }

    /// `count` more requests arrive.
    pub(crate) fn arrive(&mut self, count: u64) {
        let needed = (self.open() + count).next_power_of_two() as usize;
        if needed > self.ring.len() {
            self.grow(needed);
        }
        for request in self.next..self.next + count {
            let at = self.at(request);
            self.ring[at] = Open { left: self.shards, ..Open::NONE };
        }
        self.next += count;
    }

    fn grow(&mut self, size: usize) {
        let mut ring = vec![Open::NONE; size];
        for request in self.first..self.next {
            ring[request as usize & (size - 1)] = self.ring[self.at(request)];
        }
        self.ring = ring;
    }

    #[inline(always)]
    fn at(&self, request: u64) -> usize {
        request as usize & (self.ring.len() - 1)
    }

    /// A shard has answered.
    #[inline(always)]
    pub(crate) fn answered(&mut self, request: u64, latency_ns: u64) {
        let at = self.at(request);
        let open = &mut self.ring[at];
        open.worst_ns = open.worst_ns.max(latency_ns);
        open.left -= 1;
    }

    /// A shard will not answer.
    pub(crate) fn failed(&mut self, request: u64) {
        let at = self.at(request);
        let open = &mut self.ring[at];
        open.failed = true;
        open.left -= 1;
    }

    /// Takes the oldest request if it is done: requests come in the order of their arrival.
    pub(crate) fn pop(&mut self) -> Option<Done> {
        if self.first == self.next {
            return None;
        }
        let Open { worst_ns, left, failed } = self.ring[self.at(self.first)];
        if left > 0 {
            return None;
        }
        let done = Done { request: self.first, latency_ns: (!failed).then_some(worst_ns) };
        self.first += 1;
        Some(done)
    }
}

impl Open {
    const NONE: Self = Self { worst_ns: 0, left: 0, failed: false };
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
