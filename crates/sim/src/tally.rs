//! The counts of one run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::experiment::Windows;
use crate::figures::histogram;
use crate::load::LoadTally;

#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) requests: Histogram<u64>,
    pub(crate) request_ns: u128,
    pub(crate) queries: Histogram<u64>,
    pub(crate) query_ns: u128,
    pub(crate) copies: u64,
    pub(crate) hedged: u64,
    pub(crate) failed: u64,
    /// The total time from arrival to the start of a query's first copy, in ns.
    pub(crate) waited_ns: u128,
    pub(crate) busy_ns: u128,
    /// The part of `busy_ns` spent on copies whose response was used.
    pub(crate) useful_ns: u128,
    /// The total time of all slots, in ns.
    pub(crate) capacity_ns: u128,
    /// For each quarter of the measured time, the number of unfinished queries, summed over the
    /// times at which they were counted, and the number of these times.
    pub(crate) backlog: [(u64, u64); 4],
    pub(crate) queue_full: bool,
    /// Whether a queue was full, or too many requests or queries were open. If so, the run ended at
    /// that time.
    pub(crate) overflowed: bool,
    pub(crate) accuracy: Accuracy,
    pub(crate) windows: Option<Windowed>,
    /// The load of servers that clients share.
    pub(crate) load: Option<LoadTally>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            requests: histogram(),
            request_ns: 0,
            queries: histogram(),
            query_ns: 0,
            copies: 0,
            hedged: 0,
            failed: 0,
            waited_ns: 0,
            busy_ns: 0,
            useful_ns: 0,
            capacity_ns: 0,
            backlog: [(0, 0); 4],
            queue_full: false,
            overflowed: false,
            accuracy: Accuracy::default(),
            windows: None,
            load: None,
        }
    }

    /// Adds the number of queries that are open at some time in a quarter of the measured time.
    pub(crate) fn add_backlog(&mut self, quarter: u64, open: u64) {
        let (sum, moments) = &mut self.backlog[quarter as usize];
        *sum += open;
        *moments += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let add = |to: &mut Histogram<u64>, from| {
            to.add(from).expect("all histograms have the same bounds");
        };
        add(&mut self.requests, &other.requests);
        add(&mut self.queries, &other.queries);
        self.request_ns += other.request_ns;
        self.query_ns += other.query_ns;
        self.copies += other.copies;
        self.hedged += other.hedged;
        self.failed += other.failed;
        self.waited_ns += other.waited_ns;
        self.busy_ns += other.busy_ns;
        self.useful_ns += other.useful_ns;
        self.capacity_ns += other.capacity_ns;
        for (sum, other) in self.backlog.iter_mut().zip(other.backlog) {
            *sum = (sum.0 + other.0, sum.1 + other.1);
        }
        self.queue_full |= other.queue_full;
        self.overflowed |= other.overflowed;
        self.accuracy.add(&other.accuracy);
        match (&mut self.windows, &other.windows) {
            (Some(windows), Some(other)) => windows.add(other),
            (windows, other) => windows.clone_from(other),
        }
        match (&mut self.load, &other.load) {
            (Some(load), Some(other)) => load.add(other),
            (load, other) => load.clone_from(other),
        }
    }
}

/// The number of pre-emptions of one kind, and the number of those that were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// All pre-emptions.
    pub all: u64,
    /// The right pre-emptions.
    pub right: u64,
}

/// The accuracy of pre-emptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accuracy {
    /// All pre-emptions.
    pub overall: Share,
    /// Pre-emptions in which at least one copy has a hiccup and both copies started together.
    pub together: Share,
    /// Pre-emptions in which at least one copy has a hiccup and one copy started earlier.
    pub apart: Share,
}

impl Share {
    pub(crate) fn count(&mut self, right: bool) {
        self.all += 1;
        self.right += u64::from(right);
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.right += other.right;
    }

    /// Returns the share of pre-emptions that were right, or `None` if there were no pre-emptions.
    pub fn ratio(&self) -> Option<f64> {
        (self.all > 0).then(|| self.right as f64 / self.all as f64)
    }
}

impl Accuracy {
    pub(crate) fn add(&mut self, other: &Self) {
        self.overall.add(other.overall);
        self.together.add(other.together);
        self.apart.add(other.apart);
    }
}

/// Latencies by window, in ns.
///
/// A histogram per window would be mostly empty, and many of them would fill the memory. A window
/// therefore stores only the buckets of a histogram whose count is not zero. Memory: O(requests),
/// and at most the number of windows times the buckets of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windowed {
    pub(crate) windows: Windows,
    /// For each window, the number of requests in each histogram bucket. The key is the lowest
    /// latency of the bucket.
    pub(crate) counts: Vec<BTreeMap<u64, u64>>,
}

impl Windowed {
    pub(crate) fn new(windows: Windows) -> Self {
        Self { windows, counts: vec![BTreeMap::new(); windows.count() as usize] }
    }

    /// Counts a request if it belongs to a window. `like` is a histogram that defines the buckets.
    pub(crate) fn count(&mut self, request: u64, latency_ns: u64, like: &Histogram<u64>) {
        let Windows { from, length, to } = self.windows;
        if (from..to).contains(&request) {
            let window = &mut self.counts[((request - from) / length) as usize];
            *window.entry(like.lowest_equivalent(latency_ns)).or_default() += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (window, other) in self.counts.iter_mut().zip(&other.counts) {
            for (&class, count) in other {
                *window.entry(class).or_default() += count;
            }
        }
    }
}
