//! Latencies by window: how requests fare after a change, stretch by stretch.
//!
//! A histogram for each window would be mostly empty, and many windows would fill the memory; so a
//! window keeps those classes of a histogram that have a count. Memory: O(requests), and no more
//! than the classes of a histogram per window.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::outcome::{Figures, name};
use crate::tally::histogram;

/// The most windows.
pub(crate) const MOST: u64 = 1_000;

/// Which requests are told window by window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first request of the first window, counted from 0.
    pub from: u64,
    /// Requests per window.
    pub length: u64,
    /// The first request that no window has; the last window may have fewer.
    pub to: u64,
}

impl Windows {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.to.saturating_sub(self.from).div_ceil(self.length)
    }
}

/// The latencies of windows, in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windowed {
    windows: Windows,
    /// By window: how many requests there are in each class of a histogram, by its lowest latency.
    counts: Vec<BTreeMap<u64, u64>>,
}

impl Windowed {
    pub(crate) fn new(windows: Windows) -> Self {
        Self { windows, counts: vec![BTreeMap::new(); windows.count() as usize] }
    }

    /// Counts a request, if it is of a window; `like` says what classes there are.
    pub(crate) fn count(&mut self, request: u64, latency_ns: u64, like: &Histogram<u64>) {
        let Windows { from, length, to } = self.windows;
        if (from..to).contains(&request) {
            let window = &mut self.counts[((request - from) / length) as usize];
            *window.entry(like.lowest_equivalent(latency_ns)).or_default() += 1;
        }
    }

    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        for (window, other) in self.counts.iter_mut().zip(&other.counts) {
            for (&class, count) in other {
                *window.entry(class).or_default() += count;
            }
        }
    }

    /// What to tell of each; percentiles only where they are known.
    pub(crate) fn told(&self, percentiles: &[f64], known: bool) -> Vec<Window> {
        let mut all = histogram();
        let each = self.counts.iter().enumerate().map(|(index, window)| {
            all.reset();
            for (&class, &count) in window {
                all.saturating_record_n(class, count);
            }
            let Figures { mut percentiles, .. } = Figures::of(&all, 0.0, percentiles);
            percentiles.iter_mut().for_each(|(_, figure)| *figure = figure.filter(|_| known));
            Window { from: index as u64 * self.windows.length, requests: all.len(), percentiles }
        });
        each.collect()
    }
}

/// The requests of a window, of all replications together.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its first request, counted from the change.
    pub from: u64,
    /// Those that were answered.
    pub requests: u64,
    /// Percentiles of their latencies, in the unit of the experiment; none where fewer than ten
    /// samples lie above it.
    pub percentiles: Vec<(f64, Option<f64>)>,
}

impl Serialize for Window {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("requests", &self.requests)?;
        for &(p, figure) in &self.percentiles {
            map.serialize_entry(&name(p), &figure)?;
        }
        map.end()
    }
}
