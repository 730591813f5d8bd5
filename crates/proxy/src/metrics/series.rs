//! What counts, and how it is written out.
//!
//! Why not `Family` and `Histogram` of `prometheus-client`: a family finds its series by hashing
//! labels under a lock and lists them in random order, and a histogram takes a lock for every
//! observation. All series here are known when the configuration is, so the data path holds them.

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

/// Every metric and what it is about, in the order in which they are written. Names are without the
/// prefix, the unit and `_total`.
const METRICS: [(&str, &str); 34] = [
    ("requests", "Requests that reached the service and ended"),
    ("responses", "Whole responses to requests that reached the service, the proxy's own included"),
    ("request_duration", "From the end of a request to the end of its response, however it ended"),
    ("queue_length", "Queries that wait"),
    ("queue_duration", "From arrival to the start of the first copy"),
    ("copies_started", "Copies sent to replicas"),
    ("copies_won", "Copies whose response the client got"),
    ("copies_ended", "Copies that ended"),
    ("copy_failures", "Copies that ended without a whole response"),
    ("copy_duration", "From the start of a copy to its end"),
    ("wasted", "Run time of copies that did not win"),
    ("hedges_refused", "Queries to which the hedge budget refused a duplicate"),
    ("hedge_delay", "Age at which a query gets a second copy, as learned; none until it is known"),
    ("stage_slots", "Requests that the replica behind the throttle gets at once"),
    ("stage_waiting", "Requests that wait before it"),
    (
        "stage_duplicates_rest",
        "1 while no duplicates start, because the replica works on after its connection closed",
    ),
    (
        "rescue_threshold",
        "Age from which on a query is taken for stuck; none as long as rescues are not known to pay",
    ),
    ("rescue_suspects", "Queries that are taken for stuck and wait for a second copy"),
    ("rescues", "Second copies of queries that were taken for stuck, which have ended"),
    ("explorations", "Second copies that were tried in order to learn, and have ended"),
    ("rescue_fallbacks", "Times that rescues were found not to pay any more"),
    (
        "rescue_state",
        "1 for what it is about: exploring, until it knows that rescues pay, or rescuing",
    ),
    ("cancellations", "Copies that were cancelled"),
    ("server_up", "May the server get queries"),
    ("server_busy", "Copies that the server holds"),
    (
        "server_slots",
        "Copies that the server may hold at once: slots, and with rescue more where round trips are long; a bound; else max_outstanding",
    ),
    ("server_rate", "Copies per second that the server may be sent, as its rate adapts"),
    ("server_score", "By what the policy ranks the server; less is better"),
    ("load_probes", "Probes that asked the server for its load"),
    ("probe_failures", "Probes that failed"),
    ("ejections", "Times that the server was ejected"),
    ("connections", "Client connections that are open"),
    ("connections_accepted", "Client connections so far"),
    ("rejected", "Connections and requests turned away before they reached a service"),
];

/// The labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// What a series may be. Clones share what they count.
pub(super) trait Meter: Metric + Clone + Default {
    const UNIT: Option<Unit> = None;
}

impl Meter for Counter {}

impl Meter for Gauge {}

/// A gauge of numbers that need not be whole.
pub(super) type Level = Gauge<f64, AtomicU64>;

impl Meter for Level {}

/// The series of each of [`METRICS`], in the order in which they were made.
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
    /// A new series of a metric.
    pub(super) fn add<M: Meter>(&mut self, name: &str, labels: &Labels) -> M {
        let at = METRICS.iter().position(|(known, _)| *known == name).expect("a metric of ours");
        let metric = M::default();
        self.0[at].unit = M::UNIT;
        self.0[at].series.push((labels.clone(), Box::new(metric.clone())));
        metric
    }

    /// A series for each value of the label `by`, added to `labels`.
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
    /// Counts one.
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
    /// From now on it is in this state: its gauge is 1, those of the others 0.
    pub(crate) fn set(&self, kind: K) {
        for (at, gauge) in self.0.iter().enumerate() {
            gauge.set((at == kind.index()).into());
        }
    }
}

/// A span of time that may not be known: then it is not written out at all.
#[derive(Clone, Debug)]
pub(crate) struct Age(Arc<AtomicU64>);

impl Age {
    /// [`NEVER_NS`] where it is not known.
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

/// Adds up spans of time. Counts in nanoseconds, which is enough for 584 years, and is written out
/// in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds(Arc<AtomicU64>);

impl Seconds {
    /// Adds a span, in nanoseconds.
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

/// The upper bounds of the buckets, in microseconds: 50 µs to 30 s, six per decade. They contain
/// those of OpenTelemetry's `http.server.request.duration`.
const BOUNDS_US: [u64; 30] = [
    50, 75, 100, 150, 250, 500, 750, 1_000, 1_500, 2_500, 5_000, 7_500, 10_000, 15_000, 25_000,
    50_000, 75_000, 100_000, 150_000, 250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_500_000,
    5_000_000, 7_500_000, 10_000_000, 15_000_000, 30_000_000,
];

/// A histogram of durations, without locks. A reader sees each observation in full or not at all,
/// but for the sum, which may be ahead or behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations(Arc<Histogram>);

#[derive(Debug, Default)]
struct Histogram {
    /// Counts per bucket, not cumulative; the last is for what is beyond all bounds.
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
