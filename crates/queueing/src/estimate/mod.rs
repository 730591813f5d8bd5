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

mod starts;

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

/// An estimate and its 95 % confidence interval; all above 0, and `low` ≤ `value` ≤ `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What a log tells of a station.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    let mut order: Vec<usize> = (0..records.len()).collect();
    // Of those that arrive at once, the first to end is taken for the first to start.
    order.sort_by(|&a, &b| {
        let (a, b) = (&records[a], &records[b]);
        a.arrival.total_cmp(&b.arrival).then(a.end.total_cmp(&b.end))
    });
    let starts = starts::starts(records, &order, servers)?;

    let in_order = order.iter().map(|&index| &records[index]);
    let gaps = Moments::of(order.windows(2).map(|w| records[w[1]].arrival - records[w[0]].arrival));
    let services =
        Moments::of(in_order.clone().zip(&starts).map(|(record, start)| record.end - start));
    let waits =
        Moments::of(in_order.clone().zip(&starts).map(|(record, start)| start - record.arrival));
    let sojourns = Moments::of(in_order.clone().map(|record| record.end - record.arrival));
    if gaps.mean < SHORTEST {
        return Err(EstimateError::NoTime("gap between arrivals"));
    }
    if services.mean < SHORTEST {
        return Err(EstimateError::NoTime("service time"));
    }
    let cubes = Moments::of(in_order.zip(&starts).map(|(record, start)| {
        // In units of the deviation, so that no cube exceeds what numbers hold.
        ((record.end - start - services.mean) / services.variance.sqrt()).powi(3)
    }));
    let (of_gaps, of_services) = (gaps.relative_error(), services.relative_error());
    let utilization = services.mean / gaps.mean / f64::from(servers);
    Ok(Estimate {
        requests: records.len(),
        arrival_rate: interval(gaps.mean.recip(), of_gaps),
        mean_service: interval(services.mean, of_services),
        service_rate: interval(services.mean.recip(), of_services),
        utilization: interval(utilization, of_gaps.hypot(of_services)),
        mean_wait: waits.mean,
        mean_sojourn: sojourns.mean,
        arrival_scv: gaps.scv(),
        service_scv: services.scv(),
        service_skewness: if services.variance > 0.0 { cubes.mean } else { 0.0 },
    })
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

fn interval(value: f64, relative_error: f64) -> Interval {
    let factor = relative_error.exp();
    Interval { value, low: value / factor, high: value * factor }
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
