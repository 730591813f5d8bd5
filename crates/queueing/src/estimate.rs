//! Estimates rates, service times and utilization, with confidence intervals, from a log of
//! requests.
//!
//! The tutorial (document 004, "In Practice: Arrivals and Services") warns that μ is not the
//! throughput. It is 1/E\[S\], where the service time S excludes queueing. If the log contains the
//! start of each service, S is the end minus the start. Otherwise, starts are inferred for k
//! servers with a first-come, first-served queue: the service of a request starts once the request
//! has arrived and fewer than k earlier requests are unfinished.
//!
//! The intervals are 95 % confidence intervals. They use Student's t on the logarithm, so they stay
//! above zero. They assume that gaps and service times are independent. If the log has bursts that
//! last longer than a gap, the true uncertainty is larger. The relative error of ρ is the root of
//! the sum of the squared relative errors of its two factors.
//!
//! Source: document 004; Jain, "The Art of Computer Systems Performance Analysis", ch. 13, for the
//! intervals. Cost: O(n log n).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use crate::models::{Arrivals, Service};
use curtail_stats::student;

/// The minimum number of requests for an estimate.
pub const MIN_RECORDS: usize = 10;
/// The maximum number of servers for which starts are inferred.
pub const MAX_SERVERS: u32 = 1_000_000;

/// The largest time and the smallest mean whose squares and inverses do not overflow.
const LATEST: f64 = 1e150;
const SHORTEST: f64 = 1e-150;

/// A request in a log. All times have the same unit and the same arbitrary origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The time of arrival.
    pub arrival: f64,
    /// The start of its service, at `arrival` or later. `None` if the log does not contain it.
    pub start: Option<f64>,
    /// The end of its service, at `start` or later.
    pub end: f64,
}

/// An estimate and its 95 % confidence interval, which contains the estimate. All values are above
/// 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower and the upper bound.
    pub ci95: [f64; 2],
}

impl Interval {
    fn new(value: f64, relative_error: f64) -> Self {
        let factor = relative_error.exp();
        Self { value, ci95: [value / factor, value * factor] }
    }

    /// Converts the interval to another unit.
    #[must_use]
    pub fn map(self, unit: impl Fn(f64) -> f64) -> Self {
        Self { value: unit(self.value), ci95: self.ci95.map(unit) }
    }
}

/// The estimates from a log of a station.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The number of requests.
    pub requests: usize,
    /// The arrival rate λ, per unit of time.
    pub arrival_rate: Interval,
    /// E\[S\], in units of time.
    pub mean_service: Interval,
    /// μ = 1/E\[S\] of one server, per unit of time.
    pub service_rate: Interval,
    /// ρ = λE\[S\] divided by the number of servers. It is 1 or more if the log shows an overload.
    pub utilization: Interval,
    /// The mean time from arrival to start.
    pub mean_wait: f64,
    /// The mean time from arrival to end.
    pub mean_sojourn: f64,
    /// The squared coefficient of variation of the gaps between arrivals.
    pub arrival_scv: f64,
    /// The squared coefficient of variation of the service times.
    pub service_scv: f64,
    /// The skewness of the service times: the third central moment divided by the third power of
    /// the standard deviation.
    #[serde(skip)]
    pub service_skewness: f64,
}

impl Estimate {
    /// Returns the arrivals as input for the models.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals { rate: self.arrival_rate.value, scv: self.arrival_scv }
    }

    /// Returns the service as input for the models.
    pub fn service(&self) -> Service {
        Service { mean: self.mean_service.value, scv: self.service_scv }
    }
}

/// Estimates the rates of a station with `servers` (1 to 1,000,000) from the log of all its
/// requests, in any order. If no record has a start, the station is assumed to serve first come,
/// first served, and the first requests are assumed not to wait for requests from before the log
/// began.
pub fn estimate(records: &[Record], servers: u32) -> Result<Estimate, EstimateError> {
    if !(1..=MAX_SERVERS).contains(&servers) {
        return Err(EstimateError::BadServers(servers));
    }
    if records.len() < MIN_RECORDS {
        return Err(EstimateError::TooFew(records.len()));
    }
    let starts = starts(records, servers)?;
    let mut arrivals: Vec<f64> = records.iter().map(|record| record.arrival).collect();
    arrivals.sort_by(f64::total_cmp);
    let gaps = Moments::of(&arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>());
    let started = records.iter().zip(&starts);
    let times: Vec<f64> = started.clone().map(|(record, start)| record.end - start).collect();
    let services = Moments::of(&times);
    let waits: f64 = started.map(|(record, start)| start - record.arrival).sum();
    let mean_wait = waits / records.len() as f64;
    for (name, times) in [("gap between arrivals", &gaps), ("service time", &services)] {
        if times.mean < SHORTEST {
            return Err(EstimateError::NoTime(name));
        }
    }
    // Times are in units of the standard deviation, so their cubes cannot overflow.
    let cube = |time: &f64| ((time - services.mean) / services.variance.sqrt()).powi(3);
    let skewness = times.iter().map(cube).sum::<f64>() / times.len() as f64;
    let (of_gaps, of_services) = (gaps.relative_error, services.relative_error);
    let utilization = services.mean / gaps.mean / f64::from(servers);
    Ok(Estimate {
        requests: records.len(),
        arrival_rate: Interval::new(gaps.mean.recip(), of_gaps),
        mean_service: Interval::new(services.mean, of_services),
        service_rate: Interval::new(services.mean.recip(), of_services),
        utilization: Interval::new(utilization, of_gaps.hypot(of_services)),
        mean_wait,
        mean_sojourn: mean_wait + services.mean,
        arrival_scv: gaps.scv(),
        service_scv: services.scv(),
        service_skewness: if services.variance > 0.0 { skewness } else { 0.0 },
    })
}

/// Returns the start of each request: from the log, or inferred for a station that serves first
/// come, first served. Cost: O(n log n).
fn starts(records: &[Record], servers: u32) -> Result<Vec<f64>, EstimateError> {
    let logged = records[0].start.is_some();
    let begins = |record: &Record| record.start.unwrap_or(record.arrival);
    for (index, record) in records.iter().enumerate() {
        let &Record { arrival, end, .. } = record;
        if record.start.is_some() != logged {
            return Err(EstimateError::MixedStarts(index));
        }
        let start = begins(record);
        if ![arrival, start, end].iter().all(|time| time.abs() <= LATEST) {
            return Err(EstimateError::BadTime(index));
        }
        if start < arrival || end < start {
            return Err(EstimateError::OutOfOrder { index, start, end });
        }
    }
    let mut order: Vec<usize> = (0..records.len()).collect();
    // Among requests that arrive at the same time, the first to end is assumed to start first.
    order.sort_by(|&a, &b| {
        let (a, b) = (&records[a], &records[b]);
        begins(a).total_cmp(&begins(b)).then(a.end.total_cmp(&b.end))
    });
    // The latest end times of the requests that have been examined, one per server. The next
    // request can start at the earliest of these times.
    let mut latest = BinaryHeap::new();
    let mut starts = vec![0.0; records.len()];
    for index in order {
        let Record { start, end, .. } = records[index];
        let full = latest.len() >= servers as usize;
        let free = if full { latest.pop().map(|Reverse(end)| of_order(end)) } else { None };
        let begins = begins(&records[index]);
        let free = free.unwrap_or(begins);
        if let Some(start) = start.filter(|start| *start < free) {
            return Err(EstimateError::Overlap { index, start, servers });
        }
        let start = begins.max(free);
        if end < start {
            return Err(EstimateError::Overtaken { index, start, end, servers });
        }
        // This end is later than the one that was removed, so the stored ends are still the latest.
        latest.push(Reverse(in_order(end)));
        starts[index] = start;
    }
    Ok(starts)
}

/// Maps times to integers with the same order.
fn in_order(time: f64) -> i64 {
    let bits = time.to_bits().cast_signed();
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Reverses [`in_order`].
fn of_order(whole: i64) -> f64 {
    let bits = if whole < 0 { whole ^ i64::MAX } else { whole };
    f64::from_bits(bits.cast_unsigned())
}

/// The moments of two or more values.
struct Moments {
    mean: f64,
    variance: f64,
    /// Half the width of the mean's 95 % interval, relative to the mean.
    relative_error: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Self {
        let of = |figure: fn(&[f64]) -> Option<f64>| figure(values).unwrap_or_default();
        let (mean, variance) = (of(student::mean), of(student::variance));
        Self { mean, variance, relative_error: of(student::half_width) / mean }
    }

    fn scv(&self) -> f64 {
        self.variance / self.mean / self.mean
    }
}

/// The reason why nothing can be estimated. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EstimateError {
    #[error("there {}; at least {MIN_RECORDS} are needed", crate::check::are(*.0, "request"))]
    TooFew(usize),
    #[error("the number of servers is {0}; it must be from 1 to 1,000,000")]
    BadServers(u32),
    #[error("request {0} has a time that is not finite, or beyond 1e150; leave it out")]
    BadTime(usize),
    #[error(
        "request {index} ends at {end}, before it starts at {start}, or starts before it arrives; \
        correct the clocks, or leave it out"
    )]
    OutOfOrder { index: usize, start: f64, end: f64 },
    #[error(
        "request {0} has a start where others have none, or the reverse; \
         give starts to all or to none"
    )]
    MixedStarts(usize),
    #[error(
        "request {index} ends at {end}, before it could start at {start} if the number of servers \
         is {servers} and they serve first come, first served; log the starts, or correct the \
         number of servers"
    )]
    Overtaken { index: usize, start: f64, end: f64, servers: u32 },
    #[error(
        "request {index} starts at {start}, while the number of requests in service equals the \
         number of servers, {servers}: there must be more servers"
    )]
    Overlap { index: usize, start: f64, servers: u32 },
    #[error("the mean {0} is zero, or nearly so; log requests for longer, or with a finer clock")]
    NoTime(&'static str),
}
