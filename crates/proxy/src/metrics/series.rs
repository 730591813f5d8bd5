//! What counts, and how it is written out.
//!
//! Why not `Family` and `Histogram` of `prometheus-client`: a family finds its series by hashing
//! labels under a lock and lists them in random order, and a histogram takes a lock for every
//! observation. All series here are known when the configuration is, so the data path holds them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curtail_kernel::NEVER_NS;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::kinds::Kind;

/// The labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The series of one metric, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Series<M> {
    kind: MetricType,
    list: Vec<(Labels, M)>,
}

impl<M: EncodeMetric + Default> Default for Series<M> {
    fn default() -> Self {
        Self { kind: M::default().metric_type(), list: Vec::new() }
    }
}

impl<M: Clone + Default> Series<M> {
    /// A new series.
    pub(super) fn add(&mut self, labels: &Labels) -> M {
        let metric = M::default();
        self.list.push((labels.clone(), metric.clone()));
        metric
    }
}

impl Series<Counter> {
    /// A series for each value of the label `name`, added to `labels`.
    pub(super) fn each<K: Kind>(&mut self, labels: &Labels, name: &'static str) -> Counters<K> {
        let counter = |&kind: &K| {
            let mut labels = labels.clone();
            labels.push((name, kind.text().into()));
            self.add(&labels)
        };
        Counters { by_kind: K::ALL.iter().map(counter).collect(), of: K::ALL }
    }
}

impl Series<Gauge> {
    /// A series for each state that something may be in, which the label `state` names.
    pub(super) fn states<K: Kind>(&mut self, labels: &Labels) -> State<K> {
        let gauge = |&kind: &K| {
            let mut labels = labels.clone();
            labels.push(("state", kind.text().into()));
            self.add(&labels)
        };
        State { by_kind: K::ALL.iter().map(gauge).collect(), of: K::ALL }
    }
}

impl<M: EncodeMetric> EncodeMetric for Series<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        if let [(labels, metric)] = &*self.list
            && labels.is_empty()
        {
            return metric.encode(encoder);
        }
        for (labels, metric) in &self.list {
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

/// One counter for each value of a label.
#[derive(Clone, Debug)]
pub struct Counters<K: 'static> {
    by_kind: Arc<[Counter]>,
    of: &'static [K],
}

impl<K: Kind> Counters<K> {
    /// Counts one.
    pub fn inc(&self, kind: K) {
        self.by_kind[kind.index()].inc();
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self, kind: K) -> u64 {
        self.by_kind[kind.index()].get()
    }

    /// The count of all values together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.of.iter().map(|&kind| self.get(kind)).sum()
    }
}

/// The state that something is in: its gauge is 1, those of the others 0.
#[derive(Clone, Debug)]
pub struct State<K: 'static> {
    by_kind: Arc<[Gauge]>,
    of: &'static [K],
}

impl<K: Kind> State<K> {
    /// From now on it is in this state.
    pub fn set(&self, kind: K) {
        for other in self.of {
            let is = other.index() == kind.index();
            self.by_kind[other.index()].set(is.into());
        }
    }
}

/// A span of time that may not be known: then it is not written out at all.
#[derive(Clone, Debug)]
pub struct Age(Arc<AtomicU64>);

impl Age {
    /// Sets it, in nanoseconds; [`NEVER_NS`] where it is not known.
    pub fn set_ns(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }
}

impl Default for Age {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(NEVER_NS)))
    }
}

impl EncodeMetric for Age {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self.0.load(Ordering::Relaxed) {
            NEVER_NS => Ok(()),
            ns => encoder.encode_gauge(&seconds(ns)),
        }
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// Adds up spans of time. Counts in nanoseconds, which is enough for 584 years, and is written out
/// in seconds.
#[derive(Clone, Debug, Default)]
pub struct Seconds(Arc<AtomicU64>);

impl Seconds {
    /// Adds a span, in nanoseconds.
    pub fn add_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }

    /// The sum so far, in nanoseconds.
    #[must_use]
    pub fn get_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl EncodeMetric for Seconds {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_counter::<NoLabelSet, f64, f64>(&seconds(self.get_ns()), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// The upper bounds of the buckets, in nanoseconds: 50 µs to 30 s, five per decade. They contain
/// those of OpenTelemetry's `http.server.request.duration`.
const BOUNDS_NS: [u64; 30] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const S: u64 = 1_000_000_000;
    [
        50 * US,
        75 * US,
        100 * US,
        150 * US,
        250 * US,
        500 * US,
        750 * US,
        MS,
        1_500 * US,
        2_500 * US,
        5 * MS,
        7_500 * US,
        10 * MS,
        15 * MS,
        25 * MS,
        50 * MS,
        75 * MS,
        100 * MS,
        150 * MS,
        250 * MS,
        500 * MS,
        750 * MS,
        S,
        1_500 * MS,
        2_500 * MS,
        5 * S,
        7_500 * MS,
        10 * S,
        15 * S,
        30 * S,
    ]
};

/// A histogram of durations, without locks. A reader sees each observation in full or not at all,
/// but for the sum, which may be ahead or behind.
#[derive(Clone, Debug, Default)]
pub struct Durations(Arc<Histogram>);

#[derive(Debug, Default)]
struct Histogram {
    /// Counts per bucket, not cumulative; the last is for what is beyond all bounds.
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Durations {
    /// Records a duration, in nanoseconds.
    pub fn record_ns(&self, ns: u64) {
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < ns);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // The encoder makes the counts cumulative.
        let bounds = BOUNDS_NS.iter().map(|&ns| seconds(ns)).chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(self.0.sum_ns.load(Ordering::Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
