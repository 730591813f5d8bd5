//! Splits latencies into schedule lag, sending, time on the wire, and this program's own wake-up.
//!
//! A percentile is split in the same proportions as the requests with the nearest ranks, so its
//! parts add up to it. (Percentiles of the parts would not: the requests that are slowest to send
//! need not have the slowest responses.) The order of requests within a latency bucket
//! (`bucket_of`, 3.1 % wide) is unknown.
//!
//! Cost: constant time per request, and about a thousand buckets of memory.

use curtail_stats::buckets::{BUCKETS, bucket_of};
use serde::{Deserialize, Serialize, Serializer};

use crate::results::counts::COUNT_MAX;
use crate::results::outcome::Outcome;

/// Number of requests whose proportions are used to split a percentile.
const AROUND: u64 = 20;

/// The parts of a latency, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The time from a request's intended time until a connection took the request.
    pub schedule_lag: u64,
    /// The time from then until the system accepted the last byte of the request or, with kernel
    /// timestamps, until that byte left. This includes the time to open a connection.
    pub client_send: u64,
    /// The time from then until the last byte of the response arrived or, without kernel
    /// timestamps, until this program read it.
    pub wire_to_wire: u64,
    /// The time from then until this program read the last byte. Without kernel timestamps, it is
    /// 0, because `wire_to_wire` then includes this part.
    pub client_wake_up: u64,
}

impl Parts {
    /// Returns the parts of a complete response. They add up to its latency.
    pub(crate) fn of(outcome: &Outcome) -> Parts {
        let (taken, done) = (outcome.taken_ns, outcome.done_ns);
        // A response may arrive before the whole request is sent, and the kernel's clock may differ
        // from this program's clock by a few microseconds.
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

    /// Splits `ns` in the proportions of `shares`.
    fn divided(ns: u64, shares: [f64; 4]) -> Parts {
        let all: f64 = shares.iter().sum();
        // If all shares are zero, so are all parts.
        let unit = if all > 0.0 { ns as f64 / all } else { 0.0 };
        let [schedule_lag, client_send, wire_to_wire, client_wake_up] =
            shares.map(|share| (share * unit).round() as u64);
        Parts { schedule_lag, client_send, wire_to_wire, client_wake_up }
    }

    /// Splits `ns`, which excludes the schedule lag, in the proportions of the other parts.
    pub(crate) fn without_lag(&self, ns: u64) -> Parts {
        let [_, client_send, wire_to_wire, client_wake_up] = self.each().map(|part| part as f64);
        Parts::divided(ns, [0.0, client_send, wire_to_wire, client_wake_up])
    }

    /// The display names of the parts, in order.
    pub const NAMES: [&str; 4] = ["schedule lag", "client send", "wire to wire", "client wake-up"];

    /// Returns the parts, in the order of their names.
    #[must_use]
    pub fn each(&self) -> [u64; 4] {
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

/// A non-empty bucket: its index, its count and its sums.
type Sparse = (u32, u64, [u64; 4]);

/// Sums of the parts, by latency bucket.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<Sparse>")]
pub(crate) struct Split {
    buckets: Vec<Bucket>,
    count: u64,
}

impl Split {
    pub(crate) fn new() -> Split {
        Split { buckets: vec![Bucket::default(); BUCKETS], count: 0 }
    }

    pub(crate) fn add(&mut self, latency_ns: u64, parts: &Parts) {
        self.buckets[bucket_of(latency_ns)].add(&Bucket { count: 1, sums: parts.each() });
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Split) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.add(theirs);
        }
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Splits `latency_ns`, the percentile at `quantile`. `None` without requests.
    pub(crate) fn at(&self, quantile: f64, latency_ns: u64) -> Option<Parts> {
        let count = AROUND.min(self.count);
        let rank = (quantile * self.count as f64).ceil() as u64;
        let first = rank.saturating_sub(1 + count / 2).min(self.count - count);
        (count > 0).then(|| Parts::divided(latency_ns, self.ranks(first, first + count)))
    }

    /// Returns the sums of the parts of the requests with ranks from `first` up to `end`. A bucket
    /// that lies only partly in that range counts proportionally.
    fn ranks(&self, first: u64, end: u64) -> [f64; 4] {
        let (mut below, mut sums) = (0, [0.0; 4]);
        for bucket in &self.buckets {
            let above = below + bucket.count;
            let within = end.min(above).saturating_sub(first.max(below));
            if within > 0 {
                let share = within as f64 / bucket.count as f64;
                for (sum, of_bucket) in sums.iter_mut().zip(bucket.sums) {
                    *sum += share * of_bucket as f64;
                }
            }
            below = above;
        }
        sums
    }
}

/// Omits empty buckets.
impl Serialize for Split {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let all = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0);
        to.collect_seq(all.map(|(at, bucket)| -> Sparse { (at as u32, bucket.count, bucket.sums) }))
    }
}

impl TryFrom<Vec<Sparse>> for Split {
    type Error = &'static str;

    fn try_from(sparse: Vec<Sparse>) -> Result<Split, &'static str> {
        let mut split = Split::new();
        for (at, count, sums) in sparse {
            let bucket = split.buckets.get_mut(at as usize).filter(|_| count <= COUNT_MAX);
            bucket.ok_or("its parts of latencies are invalid")?.add(&Bucket { count, sums });
            split.count += count;
        }
        Ok(split)
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
            // Fast requests wait for the server; the slowest tenth waits for the client.
            let of = if i < 900 {
                parts(1_000, 2_000, 997_000 + i)
            } else {
                parts(50_000_000 + i, 2_000, 998_000)
            };
            split.add(of.each().iter().sum(), &of);
        }
        let p50 = split.at(0.5, 1_000_449).unwrap();
        assert_eq!((p50.schedule_lag, p50.client_send), (1_000, 2_000));
        assert!(p50.wire_to_wire.abs_diff(997_450) < 500, "{p50:?}");
        let p99 = split.at(0.99, 51_000_989).unwrap();
        assert!(p99.schedule_lag.abs_diff(50_000_950) < 50, "{p99:?}");
        assert_eq!(p99.client_send, 2_000);
        assert!(p99.wire_to_wire.abs_diff(998_000) < 5, "{p99:?}");
    }

    #[test]
    fn a_percentile_of_few_requests_has_parts_and_one_of_none_has_none() {
        assert_eq!(Split::new().at(0.5, 30), None);
        let mut split = Split::new();
        split.add(30, &parts(10, 10, 10));
        assert_eq!(split.at(0.99, 30), Some(parts(10, 10, 10)));
        assert_eq!(split.at(0.0, 30), Some(parts(10, 10, 10)));
        let mut instant = Split::new();
        instant.add(0, &parts(0, 0, 0));
        assert_eq!(instant.at(0.5, 0), Some(parts(0, 0, 0)));
    }

    #[test]
    fn the_parts_of_a_percentile_between_two_modes_add_up_to_it() {
        let mut split = Split::new();
        // A few of the 1,000 requests are near the median, and the next ones are far above it.
        for (requests, of) in [
            (495, parts(0, 4_000, 4_000)),
            (9, parts(0, 5_000, 10_000)),
            (496, parts(0, 5_000, 21_000)),
        ] {
            (0..requests).for_each(|_| split.add(of.each().iter().sum(), &of));
        }
        let median = split.at(0.5, 15_000).unwrap();
        assert!(median.each().iter().sum::<u64>().abs_diff(15_000) <= 2, "{median:?}");
        assert!(median.wire_to_wire > 9_000 && median.client_send > 3_000, "{median:?}");
    }

    #[test]
    fn the_nearest_requests_count_even_in_other_buckets() {
        let mut split = Split::new();
        for i in 0..100 {
            // The latency doubles every four requests. Except in ten requests, all of it is spent
            // on sending.
            let ns = 1_u64 << (i / 4 + 8);
            let sent = (40..50).contains(&i);
            split.add(ns + i, &if sent { parts(0, 0, ns + i) } else { parts(0, ns + i, 0) });
        }
        assert_eq!(split.at(0.2, 700).unwrap(), parts(0, 700, 0));
        assert_eq!(split.at(0.9, 700).unwrap(), parts(0, 700, 0));
        let between = split.at(0.45, 700).unwrap();
        assert!(between.client_send > 0 && between.wire_to_wire > 0, "{between:?}");
    }

    #[test]
    fn without_the_lag_the_other_parts_keep_their_proportions() {
        assert_eq!(parts(500, 10, 30).without_lag(80), parts(0, 20, 60));
        assert_eq!(parts(500, 0, 0).without_lag(80), parts(0, 0, 0));
    }
}
