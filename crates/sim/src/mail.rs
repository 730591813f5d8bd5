//! The messages that are on their way, in the order of arrival. Messages that arrive at the same
//! time stay in the order in which they were sent.
//!
//! With a constant latency, messages arrive in the order in which they were sent, so a [`Lane`] is
//! a queue, and each operation takes O(1). With a variable latency, a [`Lane`] is [`Mail`], and
//! each operation takes O(log messages on their way).

use std::collections::{BTreeMap, VecDeque};

use curtail_dist::Distribution;
use rand_pcg::Pcg64Mcg;

use crate::agenda::NEVER;

/// Messages with individual arrival times.
#[derive(Debug)]
pub(crate) struct Mail<M> {
    messages: BTreeMap<(u64, u64), M>,
    sent: u64,
    next: u64,
}

impl<M> Mail<M> {
    pub(crate) fn new() -> Self {
        Self { messages: BTreeMap::new(), sent: 0, next: NEVER }
    }

    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn send(&mut self, at: u64, message: M) {
        self.messages.insert((at, self.sent), message);
        self.sent += 1;
        self.next = self.next.min(at);
    }

    pub(crate) fn take(&mut self) -> Option<M> {
        let message = self.messages.pop_first().map(|(_, message)| message);
        self.next = self.messages.first_key_value().map_or(NEVER, |(&(at, _), _)| at);
        message
    }
}

/// One direction of a network.
#[derive(Debug)]
pub(crate) enum Lane<M> {
    Constant(u64, VecDeque<(u64, M)>),
    Drawn(Distribution, Pcg64Mcg, Mail<M>),
}

impl<M> Lane<M> {
    pub(crate) fn new(latency: Option<&Distribution>, rng: Pcg64Mcg) -> Self {
        match latency {
            None => Self::Constant(0, VecDeque::new()),
            Some(latency) if latency.variance() == 0.0 => {
                Self::Constant(latency.mean() as u64, VecDeque::new())
            }
            Some(latency) => Self::Drawn(latency.clone(), rng, Mail::new()),
        }
    }

    pub(crate) fn send(&mut self, now: u64, message: M) {
        match self {
            Self::Constant(ns, queue) => queue.push_back((now.saturating_add(*ns), message)),
            Self::Drawn(latency, rng, mail) => {
                mail.send(now.saturating_add(latency.sample(rng) as u64), message);
            }
        }
    }

    /// Returns the arrival time of the next message, or [`NEVER`] if none is on its way.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        match self {
            Self::Constant(_, queue) => queue.front().map_or(NEVER, |&(at, _)| at),
            Self::Drawn(_, _, mail) => mail.next(),
        }
    }

    pub(crate) fn take(&mut self) -> Option<M> {
        match self {
            Self::Constant(_, queue) => queue.pop_front().map(|(_, message)| message),
            Self::Drawn(_, _, mail) => mail.take(),
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
