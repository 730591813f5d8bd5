//! Rates, service times and utilization from a log of requests, with confidence intervals.
//!
//! The tutorial (document 004, "In Practice: Arrivals and Services") warns that μ is not the
//! throughput: it is 1/E\[S\], where the service time S holds no queueing. With starts in the log,
//! S is end less start. Without, starts are worked out for k servers that are first come first
//! served: a request starts when it has arrived and fewer than k of those before it are left.
//!
//! Intervals are of 95 %, from Student's t on the logarithm, so that they stay above zero. They
//! take gaps and service times for independent; a log with bursts longer than a gap is less certain
//! than they say. Two sources of error add up in ρ as squares.
//!
//! Source: document 004; Jain, "The Art of Computer Systems Performance Analysis", ch. 13, for the
//! intervals. Cost: O(n log n).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::models::{Arrivals, Service};

/// The fewest requests that anything is estimated from.
pub const MIN_RECORDS: usize = 10;
/// The most servers that starts are worked out for.
pub const MAX_SERVERS: u32 = 1_000_000;

/// Times up to this, and means from this, have squares and inverses that numbers can hold.
const LATEST: f64 = 1e150;
const SHORTEST: f64 = 1e-150;

/// A request in a log; times in one unit, since any moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When it arrived.
    pub arrival: f64,
    /// When its service began, if the log says so; at `arrival` or later.
    pub start: Option<f64>,
    /// When its service ended; at `start` or later.
    pub end: f64,
}

/// An estimate and its 95 % confidence interval; all above 0, and the estimate is in the interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower and the upper end.
    pub ci95: [f64; 2],
}

impl Interval {
    fn new(value: f64, relative_error: f64) -> Self {
        let factor = relative_error.exp();
        Self { value, ci95: [value / factor, value * factor] }
    }

    /// In another unit.
    #[must_use]
    pub fn map(self, unit: impl Fn(f64) -> f64) -> Self {
        Self { value: unit(self.value), ci95: self.ci95.map(unit) }
    }
}

/// What a log says of a station.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The number of requests.
    pub requests: usize,
    /// λ, per unit of time.
    pub arrival_rate: Interval,
    /// E\[S\], in units of time.
    pub mean_service: Interval,
    /// μ = 1/E\[S\] of one server, per unit of time.
    pub service_rate: Interval,
    /// ρ = λE\[S\] divided by the number of servers; of 1 or more where the log shows an overload.
    pub utilization: Interval,
    /// The mean time from arrival to start.
    pub mean_wait: f64,
    /// The mean time from arrival to end.
    pub mean_sojourn: f64,
    /// The squared coefficient of variation of the gaps between arrivals.
    pub arrival_scv: f64,
    /// The squared coefficient of variation of the service times.
    pub service_scv: f64,
    /// Their skewness, the third central moment over the third power of the deviation.
    #[serde(skip)]
    pub service_skewness: f64,
}

impl Estimate {
    /// The arrivals, as models take them.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals { rate: self.arrival_rate.value, scv: self.arrival_scv }
    }

    /// The service, as models take it.
    pub fn service(&self) -> Service {
        Service { mean: self.mean_service.value, scv: self.service_scv }
    }
}

/// Estimates the rates of a station of `servers` (1 to 1,000,000) from the log of all its requests,
/// in any order. Where no record has a start, the station is taken for first come first served, and
/// the first requests for not waiting for any before the log.
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
    let gaps = Moments::of(arrivals.windows(2).map(|pair| pair[1] - pair[0]));
    let started = || records.iter().zip(&starts);
    let services = Moments::of(started().map(|(record, start)| record.end - start));
    let waits = Moments::of(started().map(|(record, start)| start - record.arrival));
    for (name, times) in [("gap between arrivals", &gaps), ("service time", &services)] {
        if times.mean < SHORTEST {
            return Err(EstimateError::NoTime(name));
        }
    }
    let cubes = Moments::of(started().map(|(record, start)| {
        // In units of the deviation, so that no cube exceeds what numbers hold.
        ((record.end - start - services.mean) / services.variance.sqrt()).powi(3)
    }));
    let (of_gaps, of_services) = (gaps.relative_error(), services.relative_error());
    let utilization = services.mean / gaps.mean / f64::from(servers);
    Ok(Estimate {
        requests: records.len(),
        arrival_rate: Interval::new(gaps.mean.recip(), of_gaps),
        mean_service: Interval::new(services.mean, of_services),
        service_rate: Interval::new(services.mean.recip(), of_services),
        utilization: Interval::new(utilization, of_gaps.hypot(of_services)),
        mean_wait: waits.mean,
        mean_sojourn: waits.mean + services.mean,
        arrival_scv: gaps.scv(),
        service_scv: services.scv(),
        service_skewness: if services.variance > 0.0 { cubes.mean } else { 0.0 },
    })
}

/// When each request starts, as the log says or as it follows from a station that is first come
/// first served. Cost: O(n log n).
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
    // Of those that arrive at once, the first to end is taken for the first to start.
    order.sort_by(|&a, &b| {
        let (a, b) = (&records[a], &records[b]);
        begins(a).total_cmp(&begins(b)).then(a.end.total_cmp(&b.end))
    });
    // The latest ends so far, one for each server: the earliest of them frees the next.
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
        // It ends after the one that was taken out, so these are still the latest.
        latest.push(Reverse(in_order(end)));
        starts[index] = start;
    }
    Ok(starts)
}

/// A whole number for each time, in their order.
fn in_order(time: f64) -> i64 {
    let bits = time.to_bits().cast_signed();
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The way back.
fn of_order(whole: i64) -> f64 {
    let bits = if whole < 0 { whole ^ i64::MAX } else { whole };
    f64::from_bits(bits.cast_unsigned())
}

/// Mean and variance of a measure.
struct Moments {
    count: f64,
    mean: f64,
    /// Divided by the count less one.
    variance: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        // Welford's: the sums of large times and of their squares would lose the digits.
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for value in values {
            count += 1.0;
            let before = value - mean;
            mean += before / count;
            squares += before * (value - mean);
        }
        Self { count, mean, variance: squares / (count - 1.0) }
    }

    fn scv(&self) -> f64 {
        self.variance / self.mean / self.mean
    }

    /// Half of the width of the 95 % interval of the mean, relative to the mean.
    fn relative_error(&self) -> f64 {
        let student = StudentsT::new(0.0, 1.0, self.count - 1.0).expect("two or more are given");
        student.inverse_cdf(0.975) * (self.scv() / self.count).sqrt()
    }
}

/// Why nothing can be estimated. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EstimateError {
    #[error("there {}; at least {MIN_RECORDS} are needed", crate::check::are(*.0, "request"))]
    TooFew(usize),
    #[error("there are {0} servers; say how many serve, from 1 to 1,000,000")]
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
        "request {index} ends at {end}, before it could start at {start} \
        if servers that are first come first served were {servers}; log the starts, or give the number of servers that there are"
    )]
    Overtaken { index: usize, start: f64, end: f64, servers: u32 },
    #[error(
        "request {index} starts at {start}, when as many as there are servers, {servers}, are in service: \
        there must be more"
    )]
    Overlap { index: usize, start: f64, servers: u32 },
    #[error(
        "the mean {0} is zero, or nearly so; log requests over a longer time, by a finer clock"
    )]
    NoTime(&'static str),
}
