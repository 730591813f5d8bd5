//! A log of response times for training. It contains the response time of the first copy of each
//! sampled query and, if there was a second copy, that of the second copy.
//!
//! Source: Kaler, He, Elnikety, "Optimal Reissue Policies for Reducing Tail Latency" (SPAA 2017),
//! as used in documents 000 §4.6 and 001 §3.3, which sample 60 % of the queries. Cost: O(log
//! samples) per copy, and one record per sample. Without training, there is no cost.
//!
//! X is the time from a query's arrival to the end of its first copy. It is known even if the
//! second copy won, because the slower copy runs to completion. Y is the time from when the second
//! copy is sent until it ends. The second copy is sent when the delay has passed since the query's
//! arrival. X and Y are measured at the cell, so they include the network latency. Deviation: a
//! query is left out if its first copy has not ended by the end of the run, or was lost with its
//! server.

use curtail_dist::seed;
use curtail_kernel::CopyId;
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::agenda::NEVER;

pub(super) const RATE: f64 = 0.6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The X of the first copy.
    pub(crate) first_ns: u64,
    /// The Y of the second copy, if there was one.
    pub(crate) second_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    request: u64,
    arrived_ns: u64,
    first: CopyId,
    ended_ns: [u64; 2],
}

#[derive(Debug)]
pub(crate) struct Log {
    rng: Pcg64Mcg,
    /// The time from a query's arrival to its second copy.
    delay_ns: u64,
    records: Vec<Record>,
}

impl Log {
    pub(crate) fn new(seed: u64, delay_ns: u64) -> Self {
        Self { rng: seed::rng(seed), delay_ns, records: Vec::new() }
    }

    pub(crate) fn arrived(&mut self, now: u64, request: u64, first: CopyId) {
        if (self.rng.next_u64() as f64) < RATE * u64::MAX as f64 {
            let ended_ns = [NEVER; 2];
            self.records.push(Record { request, arrived_ns: now, first, ended_ns });
        }
    }

    pub(crate) fn finished(&mut self, now: u64, request: u64, copy: CopyId) {
        let found = self.records.binary_search_by_key(&request, |record| record.request);
        if let Ok(at) = found {
            let record = &mut self.records[at];
            record.ended_ns[usize::from(record.first != copy)] = now;
        }
    }

    pub(crate) fn samples(self) -> impl Iterator<Item = Sample> {
        let delay_ns = self.delay_ns;
        let known = self.records.into_iter().filter(|record| record.ended_ns[0] != NEVER);
        known.map(move |Record { arrived_ns, ended_ns: [first, second], .. }| Sample {
            first_ns: first - arrived_ns,
            second_ns: (second != NEVER).then(|| second.saturating_sub(arrived_ns + delay_ns)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_copies_each_from_when_it_was_sent() {
        let copy = |serial| CopyId { serial, slot: serial as u32 };
        let mut log = Log::new(1, 5);
        for request in 0..1_000 {
            log.arrived(10 * request, request, copy(2 * request));
        }
        for request in 0..1_000 {
            log.finished(10 * request + 9, request, copy(2 * request + 1));
            if request != 500 {
                log.finished(10 * request + 20, request, copy(2 * request));
            }
        }
        let samples: Vec<Sample> = log.samples().collect();
        assert!((550..650).contains(&samples.len()), "{}", samples.len());
        let all = Sample { first_ns: 20, second_ns: Some(4) };
        assert!(samples.iter().all(|&sample| sample == all));
    }
}
