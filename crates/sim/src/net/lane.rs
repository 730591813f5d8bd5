//! What is on its way in one direction: messages by the time at which they arrive, those of one time in the order
//! in which they were sent.
//!
//! Where every message takes as long, they arrive in that order, and a lane is a queue: O(1). Else it
//! is a heap: O(log messages on their way).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use curtail_dist::Distribution;
use rand_pcg::Pcg64Mcg;

use crate::agenda::NEVER;

pub(super) struct Lane<M> {
    latency: Latency,
    queue: VecDeque<(u64, M)>,
    heap: BinaryHeap<Reverse<Keyed<M>>>,
    sent: u64,
}

enum Latency {
    Constant(u64),
    Drawn(Distribution, Pcg64Mcg),
}

/// Compared by time and order only.
struct Keyed<M> {
    at: u64,
    order: u64,
    message: M,
}

impl<M> PartialEq for Keyed<M> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<M> Eq for Keyed<M> {}

impl<M> PartialOrd for Keyed<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Keyed<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<M> Lane<M> {
    pub(super) fn new(latency: Option<&Distribution>, rng: Pcg64Mcg) -> Self {
        let latency = match latency {
            None => Latency::Constant(0),
            Some(latency) if latency.variance() == 0.0 => Latency::Constant(latency.mean() as u64),
            Some(latency) => Latency::Drawn(latency.clone(), rng),
        };
        Self { latency, queue: VecDeque::new(), heap: BinaryHeap::new(), sent: 0 }
    }

    pub(super) fn send(&mut self, now: u64, message: M) {
        match &mut self.latency {
            Latency::Constant(ns) => self.queue.push_back((now.saturating_add(*ns), message)),
            Latency::Drawn(latency, rng) => {
                let at = now.saturating_add(latency.sample(rng) as u64);
                self.sent += 1;
                self.heap.push(Reverse(Keyed { at, order: self.sent, message }));
            }
        }
    }

    /// When the next message arrives; [`NEVER`] where none is on its way.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        match self.queue.front() {
            Some(&(at, _)) => at,
            None => self.heap.peek().map_or(NEVER, |Reverse(first)| first.at),
        }
    }

    pub(super) fn take(&mut self) -> Option<M> {
        match self.queue.pop_front() {
            Some((_, message)) => Some(message),
            None => self.heap.pop().map(|Reverse(first)| first.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_by_time_and_those_of_one_time_in_order() {
        let drawn: curtail_dist::Spec = "uniform:1:3".parse().expect("a distribution");
        let drawn = drawn.resolve(10.0).expect("it fits");
        for latency in [None, Some(&drawn)] {
            let mut lane = Lane::new(latency, curtail_dist::seed::rng(1));
            (0..100_u64).for_each(|sent| lane.send(sent, sent));
            let mut before = (0, 0);
            let mut count = 0;
            while lane.next() != NEVER {
                let at = lane.next();
                let sent = lane.take().expect("one arrives");
                let travels = latency.map_or(0..=0, |_| 10..=30);
                assert!(travels.contains(&(at - sent)) && at >= before.0);
                assert!(at > before.0 || count == 0 || sent > before.1, "in order");
                before = (at, sent);
                count += 1;
            }
            assert_eq!(count, 100);
        }
    }
}
