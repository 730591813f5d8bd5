//! What became of requests, and what of the work was in vain.

use std::ops::Range;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::spec::{Graph, Service};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well, by its deadline or not.
    Responded,
    /// It was turned away, or some call that it needs was.
    Dropped,
    /// Its client gave up.
    TimedOut,
}

/// One workflow of one run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WorkflowOutcome {
    /// Its name.
    pub name: String,
    /// Requests per second that clients sent.
    pub offered: f64,
    /// Of these, those with a response by their deadline.
    pub goodput: f64,
    /// Parts of the requests: responded, but late.
    pub late: f64,
    /// Turned away.
    pub dropped: f64,
    /// Given up by their clients.
    pub timed_out: f64,
    /// Times of those responded, in ms; null where there are too few.
    pub latency_ms: Option<Figures>,
    /// Latency over deadline of those responded.
    pub lateness: Option<Figures>,
    /// By service: what its processes admit at most, together, over the samples that count.
    pub rates: Vec<Rates>,
    /// By sample of the run.
    pub series: Vec<Sample>,
}

/// What the processes of a service admit at most, together; null where they are never limited.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Rates {
    /// The service.
    pub service: String,
    /// The mean, per second.
    pub mean: Option<f64>,
    /// Standard deviation over mean.
    pub swing: Option<f64>,
}

/// A mean and percentiles.
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

/// A sample of a workflow: an interval of time, by when its requests ended.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Sample {
    /// When it ends.
    pub at_s: f64,
    /// Responses by their deadline.
    pub good: f64,
    /// Responses that were late.
    pub late: f64,
    /// Requests turned away or given up.
    pub failed: f64,
    /// Median time of the responses, in ms; 0 where there is none.
    pub p50_ms: f64,
    /// By service: what its processes admit at most, together, per second, at its end; −1 for no limit.
    pub rates: Vec<f64>,
}

/// The requests of a workflow that have ended.
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
    /// The last sample in which a request ended, and the times of its responses, in ns: as many as end in a sample.
    last: usize,
    took_ns: Vec<u64>,
    /// Work of requests that ended: of all, and of those not good, in ns.
    pub(super) work_ns: u128,
    pub(super) wasted_ns: u128,
}

const LATENESS_UNIT: f64 = 1e6;

impl Book {
    /// Of a workflow and a run of so many samples.
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

    /// A request has ended in this sample, `took_ns` after it was sent.
    pub fn ended(
        &mut self,
        at: usize,
        ending: Ending,
        (took_ns, deadline_ns): (u64, u64),
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

    /// What became of them.
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

/// A service, of the whole run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ServiceOutcome {
    /// Its name.
    pub name: String,
    /// Requests per second that its processes turned away.
    pub dropped_at_admission: f64,
    /// Sub-tasks per second that came to be served too late.
    pub expired: f64,
    /// By resource: its name, and the part of its slots that were held.
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
