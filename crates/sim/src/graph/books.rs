//! Counts how requests ended and how much work was wasted.

use std::ops::Range;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::spec::{Graph, Service};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a response, either by its deadline or later.
    Responded,
    /// Either it or a call that it needed was turned away.
    Dropped,
    /// Its client gave up.
    TimedOut,
}

/// The results of one workflow in one run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WorkflowOutcome {
    /// Its name.
    pub name: String,
    /// Requests per second that clients sent.
    pub offered: f64,
    /// Responses by their deadline, per second.
    pub goodput: f64,
    /// The share of the requests whose response was late.
    pub late: f64,
    /// The share of the requests that were turned away.
    pub dropped: f64,
    /// The share of the requests that were abandoned by their clients.
    pub timed_out: f64,
    /// The latencies of responses, in ms. A figure is null if there are too few responses.
    pub latency_ms: Option<Figures>,
    /// The latencies of responses, divided by their deadline.
    pub lateness: Option<Figures>,
    /// For each service, the total admission rate of its processes over the counted samples.
    pub rates: Vec<Rates>,
    /// One entry per sample of the run.
    pub series: Vec<Sample>,
}

/// Total admission rate of the processes of a service. It is null if the processes are never
/// limited.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Rates {
    /// The name of the service.
    pub service: String,
    /// Mean, in requests per second.
    pub mean: Option<f64>,
    /// The standard deviation divided by the mean.
    pub swing: Option<f64>,
}

/// The mean and the percentiles of a quantity.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Figures {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// A sample of a workflow: a time interval, with the requests that ended in it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Sample {
    /// The end of the interval.
    pub at_s: f64,
    /// Responses by their deadline.
    pub good: f64,
    /// The number of responses that were late.
    pub late: f64,
    /// The number of requests that were turned away or abandoned by their clients.
    pub failed: f64,
    /// The median latency of the responses, in ms; 0 if there are none.
    pub p50_ms: f64,
    /// For each service, the total admission rate of its processes at the end of the interval, per
    /// second, or −1 if there is no limit.
    pub rates: Vec<f64>,
}

/// Requests of a workflow that have ended.
#[derive(Debug)]
pub struct Book {
    name: String,
    offered: u64,
    good: u64,
    late: u64,
    dropped: u64,
    timed_out: u64,
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
    /// By sample.
    pub series: Vec<Sample>,
    /// The last sample in which a request has ended, and the latencies of the responses in that
    /// sample, in ns.
    last: usize,
    took_ns: Vec<u64>,
    /// The work of all requests that have ended, and of those without a response by their deadline,
    /// in ns.
    pub(super) work_ns: u128,
    pub(super) wasted_ns: u128,
}

const LATENESS_UNIT: f64 = 1e6;

impl Book {
    /// Creates empty counts for a workflow in a run with this number of samples.
    #[must_use]
    pub fn new(name: &str, samples: usize) -> Self {
        let histogram = || Histogram::new_with_max(1 << 50, 3).expect("these bounds are right");
        Self {
            name: name.to_owned(),
            offered: 0,
            good: 0,
            late: 0,
            dropped: 0,
            timed_out: 0,
            latency: histogram(),
            lateness: histogram(),
            series: vec![Sample::default(); samples],
            last: 0,
            took_ns: Vec::new(),
            work_ns: 0,
            wasted_ns: 0,
        }
    }

    /// Counts a request that ended in the sample `at`, `took_ns` after it was sent. `counts` states
    /// whether it belongs to the counted period.
    pub fn ended(
        &mut self,
        at: usize,
        ending: Ending,
        took_ns: u64,
        deadline_ns: u64,
        counts: bool,
    ) {
        let is_good = ending == Ending::Responded && took_ns <= deadline_ns;
        if at > self.last {
            self.end_sample();
            self.last = at;
        }
        if let Some(sample) = self.series.get_mut(at) {
            if ending == Ending::Responded {
                self.took_ns.push(took_ns);
                sample.good += f64::from(u8::from(is_good));
                sample.late += f64::from(u8::from(!is_good));
            } else {
                sample.failed += 1.0;
            }
        }
        if !counts {
            return;
        }
        self.offered += 1;
        match ending {
            Ending::Responded if is_good => self.good += 1,
            Ending::Responded => self.late += 1,
            Ending::Dropped => self.dropped += 1,
            Ending::TimedOut => self.timed_out += 1,
        }
        if ending == Ending::Responded {
            self.latency.saturating_record(took_ns.max(1));
            let lateness = took_ns as f64 / deadline_ns.max(1) as f64 * LATENESS_UNIT;
            self.lateness.saturating_record((lateness as u64).max(1));
        }
    }

    fn end_sample(&mut self) {
        self.took_ns.sort_unstable();
        let median = self.took_ns.get(self.took_ns.len() / 2);
        if let (Some(sample), Some(&ns)) = (self.series.get_mut(self.last), median) {
            sample.p50_ms = ns as f64 / 1e6;
        }
        self.took_ns.clear();
    }

    /// Returns the results.
    pub fn outcome(&mut self, graph: &Graph) -> WorkflowOutcome {
        self.end_sample();
        let counted = graph.counted_ns();
        let seconds = (counted.end - counted.start) as f64 / 1e9;
        for (at, sample) in self.series.iter_mut().enumerate() {
            sample.at_s = ((at + 1) as u64 * graph.sample_ns) as f64 / 1e9;
        }
        let rates = (graph.services.iter().enumerate())
            .map(|(at, service)| self.rates(at, &service.name, counted.clone()))
            .collect();
        let part = |count: u64| count as f64 / self.offered.max(1) as f64;
        WorkflowOutcome {
            name: self.name.clone(),
            offered: self.offered as f64 / seconds,
            goodput: self.good as f64 / seconds,
            late: part(self.late),
            dropped: part(self.dropped),
            timed_out: part(self.timed_out),
            latency_ms: figures(&self.latency, 1e6),
            lateness: figures(&self.lateness, LATENESS_UNIT),
            rates,
            series: std::mem::take(&mut self.series),
        }
    }

    fn rates(&self, service: usize, name: &str, counted: Range<u64>) -> Rates {
        let counts = |of: &&Sample| counted.contains(&((of.at_s * 1e9) as u64));
        let rate = |of: &Sample| of.rates.get(service).copied().filter(|&rate| rate >= 0.0);
        let rates: Vec<f64> = self.series.iter().filter(counts).filter_map(rate).collect();
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let middle = mean(&rates);
        let square = |rate: &f64| (rate - middle.unwrap_or(0.0)).powi(2);
        let variance = mean(&rates.iter().map(square).collect::<Vec<_>>());
        let swing = variance.zip(middle).map(|(variance, mean)| variance.sqrt() / mean);
        Rates { service: name.to_owned(), mean: middle, swing }
    }
}

fn figures(histogram: &Histogram<u64>, unit: f64) -> Option<Figures> {
    let at = |q| histogram.value_at_quantile(q) as f64 / unit;
    (histogram.len() >= 20).then(|| Figures {
        mean: histogram.mean() / unit,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
    })
}

/// The results of a service over the whole run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ServiceOutcome {
    /// Its name.
    pub name: String,
    /// Requests per second that its processes turned away.
    pub dropped_at_admission: f64,
    /// The number of sub-tasks per second that expired before they were served.
    pub expired: f64,
    /// For each resource, its name and the share of its slot time for which it was held.
    pub utilization: Vec<(String, f64)>,
}

pub(super) struct ServiceBook {
    pub(super) admission: u64,
    pub(super) expired: u64,
    pub(super) busy_ns: Vec<u128>,
}

impl ServiceBook {
    pub(super) fn new(service: &Service) -> Self {
        Self { admission: 0, expired: 0, busy_ns: vec![0; service.resources.len()] }
    }

    pub(super) fn outcome(&self, service: &Service, duration_ns: u64) -> ServiceOutcome {
        let seconds = duration_ns as f64 / 1e9;
        let utilization = |at: usize| {
            let slots = service.resources[at].slots * service.instances;
            self.busy_ns[at] as f64 / (f64::from(slots) * duration_ns as f64)
        };
        ServiceOutcome {
            name: service.name.clone(),
            dropped_at_admission: self.admission as f64 / seconds,
            expired: self.expired as f64 / seconds,
            utilization: (service.names.iter().enumerate())
                .map(|(at, name)| (name.clone(), utilization(at)))
                .collect(),
        }
    }
}
