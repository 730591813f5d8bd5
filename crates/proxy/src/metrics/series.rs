//! Metric types and their encoding.
//!
//! `Family` and `Histogram` of `prometheus-client` are not used. A family finds its series by
//! hashing labels under a lock, and lists them in random order. A histogram takes a lock for every
//! observation. All series here are fixed once the configuration is loaded, so the data path can
//! hold references to them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curtail_kernel::NEVER_NS;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Unit};
use serde::{Serialize, Serializer};

use super::kinds::Kind;

/// All metrics with their help texts, in the order in which they are written. The names here do not
/// include the prefix, the unit or `_total`.
const METRICS: [(&str, &str); 36] = [
    ("requests", "Requests that reached the service and ended"),
    (
        "responses",
        "Complete responses to requests that reached the service, including the proxy's own",
    ),
    (
        "request_duration",
        "Time from the end of a request to the end of its response, for all outcomes",
    ),
    ("queue_length", "Queries in the queue"),
    ("queue_duration", "Time from arrival to the start of the first copy"),
    ("copies_started", "Copies sent to replicas"),
    ("copies_won", "Copies whose response the client received"),
    ("copies_ended", "Copies that ended"),
    ("copy_failures", "Copies that ended without a complete response"),
    ("copy_duration", "Time from the start of a copy to its end"),
    ("wasted", "Run time of copies that did not win"),
    ("hedges_refused", "Queries that got no duplicate because of the hedge budget"),
    ("hedge_delay", "Learned age at which a query gets a second copy; absent until it is learned"),
    ("stage_slots", "Requests that the throttled replica may serve at once"),
    ("stage_waiting", "Requests that wait in front of the throttled replica"),
    (
        "stage_duplicates_rest",
        "1 while no duplicates start, because the replica continues to work after its connection \
         closed",
    ),
    (
        "rescue_threshold",
        "Age from which a query counts as stuck; absent while rescues are not known to pay",
    ),
    ("rescue_suspects", "Queries that count as stuck and wait for a second copy"),
    ("rescues", "Ended second copies of queries that counted as stuck"),
    ("explorations", "Ended second copies that were sent to learn whether rescues pay"),
    ("rescue_fallbacks", "Number of times that rescues stopped paying"),
    (
        "rescue_state",
        "1 for the current state: exploring, until rescues are known to pay, or rescuing",
    ),
    ("cancellations", "Copies that were cancelled"),
    ("tunnels", "Open connections that have switched to another protocol"),
    ("server_up", "1 if the server may get queries"),
    ("server_busy", "Copies that the server holds"),
    (
        "server_slots",
        "Copies that the server may hold at once: its slots (with rescue, more if round trips are \
         long), a bound, or max_outstanding",
    ),
    ("server_rate", "Current limit on the copies per second that the server gets"),
    ("server_score", "Score by which the policy ranks the server; lower is better"),
    ("load_probes", "Probes that requested the server's load"),
    ("probe_failures", "Probes that failed"),
    ("ejections", "Number of times that the server was ejected"),
    ("connections", "Open client connections"),
    ("buffered_bytes", "Bytes of bodies that wait in the proxy"),
    ("connections_accepted", "Accepted client connections"),
    ("rejected", "Connections and requests rejected before they reached a service"),
];

/// The labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A type of series. Clones share their state.
pub(super) trait Meter: Metric + Clone + Default {
    const UNIT: Option<Unit> = None;
}

impl Meter for Counter {}

impl Meter for Gauge {}

/// A gauge whose value can be a fraction.
pub(super) type Level = Gauge<f64, AtomicU64>;

impl Meter for Level {}

/// The series of each metric in [`METRICS`], in the order in which they were created.
#[derive(Debug)]
pub(super) struct Families([Family; METRICS.len()]);

impl Default for Families {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Family::default()))
    }
}

#[derive(Debug, Default)]
struct Family {
    unit: Option<Unit>,
    series: Vec<(Labels, Box<dyn Metric>)>,
}

impl Families {
    /// Adds a series to a metric.
    pub(super) fn add<M: Meter>(&mut self, name: &str, labels: &Labels) -> M {
        let at = METRICS.iter().position(|(known, _)| *known == name).expect("a metric of ours");
        let metric = M::default();
        self.0[at].unit = M::UNIT;
        self.0[at].series.push((labels.clone(), Box::new(metric.clone())));
        metric
    }

    /// Adds a series for each value of the label `by`, in addition to `labels`.
    pub(super) fn each<K: Kind, M: Meter>(
        &mut self,
        name: &str,
        labels: &Labels,
        by: &'static str,
    ) -> ByKind<K, M> {
        let series = |kind: &K| self.add(name, &super::with(labels, by, kind.text()));
        ByKind(K::ALL.iter().map(series).collect(), PhantomData)
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for ((name, help), Family { unit, series }) in METRICS.iter().zip(&self.0) {
            let Some((_, first)) = series.first() else { continue };
            let (help, kind) = (format!("{help}."), first.metric_type());
            let mut encoder = encoder.encode_descriptor(name, &help, unit.as_ref(), kind)?;
            if let [(labels, metric)] = &**series
                && labels.is_empty()
            {
                metric.encode(encoder)?;
                continue;
            }
            for (labels, metric) in series {
                metric.encode(encoder.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

/// A series for each value of a label.
#[derive(Debug)]
pub(crate) struct ByKind<K, M>(Box<[M]>, PhantomData<K>);

impl<K: Kind> ByKind<K, Counter> {
    /// Adds one.
    pub(crate) fn inc(&self, kind: K) {
        self.0[kind.index()].inc();
    }

    #[cfg(test)]
    pub(crate) fn get(&self, kind: K) -> u64 {
        self.0[kind.index()].get()
    }
}

impl<K: Kind> Serialize for ByKind<K, Counter> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = K::ALL.iter().map(|kind| (kind.text(), self.0[kind.index()].get()));
        serializer.collect_map(counts)
    }
}

impl<K: Kind> ByKind<K, Gauge> {
    /// Enters a state: its gauge becomes 1, and all others become 0.
    pub(crate) fn set(&self, kind: K) {
        for (at, gauge) in self.0.iter().enumerate() {
            gauge.set((at == kind.index()).into());
        }
    }
}

/// A duration that may be unknown. The duration is not exported while it is unknown.
#[derive(Clone, Debug)]
pub(crate) struct Age(Arc<AtomicU64>);

impl Age {
    /// Sets the duration. [`NEVER_NS`] means that it is unknown.
    pub(crate) fn set_ns(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }
}

impl Default for Age {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(NEVER_NS)))
    }
}

impl Meter for Age {
    const UNIT: Option<Unit> = Some(Unit::Seconds);
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

/// A sum of durations. It is counted in nanoseconds, so it overflows only after 584 years. The sum
/// is exported in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds(Arc<AtomicU64>);

impl Seconds {
    /// Adds a duration, in nanoseconds.
    pub(crate) fn add_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Meter for Seconds {
    const UNIT: Option<Unit> = Some(Unit::Seconds);
}

impl EncodeMetric for Seconds {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder
            .encode_counter::<NoLabelSet, f64, f64>(&seconds(self.0.load(Ordering::Relaxed)), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// The upper bounds of the buckets, in microseconds: 50 µs to 30 s, six per decade. The bounds
/// include those of OpenTelemetry's `http.server.request.duration`.
const BOUNDS_US: [u64; 30] = [
    50, 75, 100, 150, 250, 500, 750, 1_000, 1_500, 2_500, 5_000, 7_500, 10_000, 15_000, 25_000,
    50_000, 75_000, 100_000, 150_000, 250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_500_000,
    5_000_000, 7_500_000, 10_000_000, 15_000_000, 30_000_000,
];

/// A histogram of durations, without locks. A reader sees each observation completely or not at
/// all. Only the sum may be ahead of the counts or behind them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations(Arc<Histogram>);

#[derive(Debug, Default)]
struct Histogram {
    /// Counts per bucket. The counts are not cumulative. The last bucket is for durations above all
    /// bounds.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Durations {
    /// Records a duration, in nanoseconds.
    pub(crate) fn record_ns(&self, ns: u64) {
        let bucket = BOUNDS_US.partition_point(|&bound| bound * 1_000 < ns);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

impl Meter for Durations {
    const UNIT: Option<Unit> = Some(Unit::Seconds);
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // The encoder makes the counts cumulative.
        let bounds = BOUNDS_US.iter().map(|&us| seconds(us * 1_000)).chain([f64::INFINITY]);
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
