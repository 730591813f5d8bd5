//! What a latency is made of: lag, sending, the way there and back, and our own waking up.
//!
//! The parts of a percentile are the mean parts of the requests around it: those in its bucket of
//! latencies (`bucket`), which is 1.6 % wide, and in its neighbors until there are enough. So they add up to the
//! percentile, but for the width of the bucket. (The percentiles of the parts would not: the slowest
//! to be sent are not the slowest to be answered.)
//!
//! Cost: constant per request; some thousand buckets of memory.

use serde::Serialize;

use crate::bucket;
use crate::outcome::Outcome;

/// So many requests make a mean.
const AROUND_MIN: u64 = 20;

/// The parts of a latency, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// From the intended time until the request was taken up by a connection.
    pub schedule_lag: u64,
    /// From there until the system had taken its last byte; with stamps of the kernel, until that
    /// byte left. Opening a connection is part of it.
    pub client_send: u64,
    /// From there until the last byte of the answer was there; without stamps of the kernel, until
    /// this program had read it.
    pub wire_to_wire: u64,
    /// From there until this program had read it; 0 without stamps of the kernel, for then it is part
    /// of the way.
    pub client_wake_up: u64,
}

impl Parts {
    /// Of a whole answer. They add up to its latency.
    pub(crate) fn of(outcome: &Outcome) -> Parts {
        let (taken, done) = (outcome.taken_ns, outcome.done_ns);
        // An answer may be there before the whole request is sent, and the clocks of stamps and of this
        // program may differ by some microseconds.
        let sent = outcome.left_ns.or(outcome.sent_ns).unwrap_or(done).clamp(taken, done);
        let came = outcome.came_ns.filter(|_| outcome.left_ns.is_some()).unwrap_or(done);
        let came = came.clamp(sent, done);
        Parts {
            schedule_lag: outcome.lag_ns(),
            client_send: sent - taken,
            wire_to_wire: came - sent,
            client_wake_up: done - came,
        }
    }

    fn all(&self) -> [u64; 4] {
        [self.schedule_lag, self.client_send, self.wire_to_wire, self.client_wake_up]
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    count: u64,
    sums: [u64; 4],
}

impl Bucket {
    fn add(&mut self, other: &Bucket) {
        self.count += other.count;
        for (mine, theirs) in self.sums.iter_mut().zip(other.sums) {
            *mine = mine.saturating_add(theirs);
        }
    }
}

/// Sums of the parts, by latency.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    buckets: Vec<Bucket>,
    count: u64,
}

impl Split {
    pub(crate) fn new() -> Split {
        Split { buckets: vec![Bucket::default(); bucket::COUNT], count: 0 }
    }

    pub(crate) fn add(&mut self, latency_ns: u64, parts: &Parts) {
        self.buckets[bucket::index(latency_ns)].add(&Bucket { count: 1, sums: parts.all() });
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Split) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.add(theirs);
        }
        self.count += other.count;
    }

    /// As a message has them: the buckets that are not empty, with their counts and sums.
    pub(crate) fn sparse(&self) -> Vec<(u32, u64, [u64; 4])> {
        let all = self.buckets.iter().enumerate();
        let all = all.map(|(at, bucket)| (at as u32, bucket.count, bucket.sums));
        all.filter(|(_, count, _)| *count > 0).collect()
    }

    /// Those of a message, if they can be.
    pub(crate) fn from_sparse(sparse: &[(u32, u64, [u64; 4])]) -> Option<Split> {
        let mut split = Split::new();
        for (at, count, sums) in sparse {
            split.buckets.get_mut(*at as usize)?.add(&Bucket { count: *count, sums: *sums });
            split.count = split.count.checked_add(*count)?;
        }
        Some(split)
    }

    /// The parts of the latency that a share `quantile` of the requests does not exceed; none without
    /// requests.
    pub(crate) fn at(&self, quantile: f64) -> Option<Parts> {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        let middle = self.buckets.iter().position(|bucket| {
            below += bucket.count;
            below >= rank
        })?;
        let (mut first, mut last) = (middle, middle);
        let mut around = self.buckets[middle];
        while around.count < AROUND_MIN.min(self.count) {
            // One below and one above, so that the mean stays where it is.
            for next in [first.checked_sub(1), Some(last + 1)].into_iter().flatten() {
                if let Some(of_next) = self.buckets.get(next) {
                    around.add(of_next);
                }
            }
            (first, last) = (first.saturating_sub(1), (last + 1).min(bucket::COUNT - 1));
            if (first, last) == (0, bucket::COUNT - 1) {
                break;
            }
        }
        let mean = |part: usize| around.sums[part] / around.count.max(1);
        Some(Parts {
            schedule_lag: mean(0),
            client_send: mean(1),
            wire_to_wire: mean(2),
            client_wake_up: mean(3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(lag: u64, send: u64, wire: u64) -> Parts {
        Parts { schedule_lag: lag, client_send: send, wire_to_wire: wire, client_wake_up: 0 }
    }

    #[test]
    fn the_parts_of_a_percentile_are_those_of_the_requests_around_it() {
        let mut split = Split::new();
        for i in 0..1_000_u64 {
            // Fast ones wait for the server, and the slowest tenth for us.
            let of = if i < 900 {
                parts(1_000, 2_000, 997_000 + i)
            } else {
                parts(50_000_000 + i, 2_000, 998_000)
            };
            split.add(of.all().iter().sum(), &of);
        }
        let p50 = split.at(0.5).unwrap();
        assert_eq!((p50.schedule_lag, p50.client_send), (1_000, 2_000));
        assert!(p50.wire_to_wire.abs_diff(997_450) < 500, "{p50:?}");
        let p99 = split.at(0.99).unwrap();
        assert!(p99.schedule_lag.abs_diff(50_000_950) < 50, "{p99:?}");
        assert_eq!((p99.client_send, p99.wire_to_wire), (2_000, 998_000));
    }

    #[test]
    fn few_requests_have_parts_and_none_have_none() {
        assert_eq!(Split::new().at(0.5), None);
        let mut split = Split::new();
        split.add(30, &parts(10, 10, 10));
        assert_eq!(split.at(0.99), Some(parts(10, 10, 10)));
        assert_eq!(split.at(0.0), Some(parts(10, 10, 10)));
    }

    #[test]
    fn threads_add_up() {
        let (mut one, mut other) = (Split::new(), Split::new());
        one.add(3_000, &parts(1_000, 1_000, 1_000));
        other.add(3_000, &parts(3_000, 0, 0));
        one.merge(&other);
        assert_eq!(one.at(0.5), Some(parts(2_000, 500, 500)));
    }
}
