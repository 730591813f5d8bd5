//! A latency curve fitted to measurements: T(x) = base + gain/(1 - x/capacity) at load x.
//!
//! In practice, latency grows in proportion to 1/(1-ρ), but E\[S\]/(1-ρ) is not accurate: arrivals
//! and services are not exponential, the network adds its own latency, and resources are shared.
//! The tutorial (document 004, "In Practice: Queueing Models") gives a better approximation with
//! fitted parameters, but its formula was in a picture that has been lost. We interpret it as an
//! offset, a factor, and a capacity that replaces the measured service rate. Measurements at four
//! loads are enough to determine these three parameters. The mean of M/G/1 has exactly this form,
//! with base = E\[S\]·(1-c²)/2, gain = E\[S\]·(1+c²)/2, capacity = 1/E\[S\]. The base can therefore
//! be negative, but the latency without load, base + gain, cannot.
//!
//! The fit uses least squares. For a given capacity, the curve is linear in the other two
//! parameters. The search for the capacity tries logarithmically spaced distances above the highest
//! load, and then refines the best one by golden-section search. All points have the same weight,
//! so the latencies near the capacity, which vary most, have the largest influence. Each point
//! should therefore be the mean or a percentile of many requests. Cost: about 170 passes over the
//! points.

use serde::Serialize;

use crate::solve;

/// The minimum number of different loads for a fit.
pub const MIN_POINTS: usize = 4;

/// The smallest distance of a tried capacity from the highest load, relative to that load.
const NEAREST: f64 = 1e-4;
/// The largest such distance, at which a curve can no longer be distinguished from a straight line.
const FARTHEST: f64 = 1e2;
const GRID: u32 = 120;

/// A measured latency at a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The load in requests per unit of time, or in any other measure that has a capacity; 0 or
    /// more.
    pub load: f64,
    /// A mean or a percentile, in units of time; above 0.
    pub latency: f64,
}

/// Latency as a function of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyCurve {
    /// The part that does not grow with load, in units of time; may be negative.
    pub base: f64,
    /// The part that grows with load, at zero load, in units of time; above 0.
    pub gain: f64,
    /// The load at which latency becomes infinite.
    pub capacity: f64,
}

/// A fitted curve and its goodness of fit.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveFit {
    /// The curve.
    pub curve: LatencyCurve,
    /// The share of the latencies' variance that the curve explains; 1 for a perfect fit.
    pub r_squared: f64,
    /// The measured latency minus the fitted latency of each point, in units of time.
    pub residuals: Vec<f64>,
}

/// The reason why there is no curve. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    #[error(
        "point {index} has load {load} and latency {latency}; loads must be 0 or more, latencies \
         above 0, both finite"
    )]
    BadPoint { index: usize, load: f64, latency: f64 },
    #[error("there are {0} different loads; measure at {MIN_POINTS} or more")]
    TooFewLoads(usize),
    #[error("latency does not rise up to load {0}; measure at higher loads")]
    NotRising(f64),
    #[error("latency rises, but does not bend up to load {0}; measure at higher loads")]
    NoBend(f64),
    #[error("the point at the highest load, {0}, is at capacity; leave it out, or measure between")]
    AtCapacity(f64),
}

impl LatencyCurve {
    /// Returns the latency at a `load` below the capacity, in units of time.
    pub fn latency(&self, load: f64) -> f64 {
        self.base + self.gain / (1.0 - load / self.capacity)
    }

    /// Returns the highest load at which latency is at most `latency`. `None` if latency is higher
    /// at every load.
    pub fn highest_load(&self, latency: f64) -> Option<f64> {
        let above_base = latency - self.base;
        (above_base >= self.gain).then(|| self.capacity * (1.0 - self.gain / above_base))
    }

    /// Fits a curve to `points`, in any order.
    pub fn fit(points: &[Point]) -> Result<CurveFit, CurveError> {
        let top = check(points)?;
        // Loads are divided by the highest load and latencies by the longest latency, which keeps
        // sums in range.
        let unit = points.iter().map(|point| point.latency).fold(0.0, f64::max);
        let scaled: Vec<(f64, f64)> =
            points.iter().map(|point| (point.load / top, point.latency / unit)).collect();
        let total = spread(&scaled);
        let distance = nearest_capacity(&scaled, top)?;
        let line = Line::through(&scaled, distance);
        if line.gain <= 0.0 || line.error >= total {
            return Err(CurveError::NotRising(top));
        }
        let curve = LatencyCurve {
            base: line.base * unit,
            gain: line.gain * unit,
            capacity: (1.0 + distance) * top,
        };
        let residual = |point: &Point| point.latency - curve.latency(point.load);
        let residuals = points.iter().map(residual).collect();
        Ok(CurveFit { curve, r_squared: 1.0 - line.error / total, residuals })
    }
}

/// Validates the points and returns the highest load.
fn check(points: &[Point]) -> Result<f64, CurveError> {
    for (index, &Point { load, latency }) in points.iter().enumerate() {
        if !(load.is_finite() && load >= 0.0 && latency.is_finite() && latency > 0.0) {
            return Err(CurveError::BadPoint { index, load, latency });
        }
    }
    let mut loads: Vec<f64> = points.iter().map(|point| point.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    if loads.len() < MIN_POINTS {
        return Err(CurveError::TooFewLoads(loads.len()));
    }
    Ok(loads.last().copied().unwrap_or_default())
}

/// Returns the sum of squares about the mean.
fn spread(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    points.iter().map(|point| (point.1 - mean).powi(2)).sum()
}

/// Returns the distance from the highest load to the best capacity, in units of that load.
fn nearest_capacity(points: &[(f64, f64)], top: f64) -> Result<f64, CurveError> {
    let width = (FARTHEST / NEAREST).ln() / f64::from(GRID);
    let distance = |step: f64| NEAREST * (step * width).exp();
    let error = |step: f64| Line::through(points, distance(step)).error;
    let steps = 0..=GRID;
    let errors = steps.map(|step| (error(f64::from(step)), step));
    let best = errors.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, step)| step);
    let rises = Line::through(points, distance(f64::from(best))).gain > 0.0;
    match best {
        _ if !rises => Err(CurveError::NotRising(top)),
        0 => Err(CurveError::AtCapacity(top)),
        GRID => Err(CurveError::NoBend(top)),
        _ => {
            let best = f64::from(best);
            Ok(distance(solve::valley(error, best - 1.0, best + 1.0)))
        }
    }
}

/// The best base and gain for a given capacity, and their sum of squared residuals.
struct Line {
    base: f64,
    gain: f64,
    error: f64,
}

impl Line {
    fn through(points: &[(f64, f64)], distance: f64) -> Self {
        let capacity = 1.0 + distance;
        // 1/(1-x/c) minus its value at no load (1), so the intercept is the idle latency.
        let rise = |load: f64| load / (capacity - load);
        let count = points.len() as f64;
        let mean_rise = points.iter().map(|point| rise(point.0)).sum::<f64>() / count;
        let mean = points.iter().map(|point| point.1).sum::<f64>() / count;
        let (mut along, mut across) = (0.0, 0.0);
        for &(load, latency) in points {
            along += (rise(load) - mean_rise).powi(2);
            across += (rise(load) - mean_rise) * (latency - mean);
        }
        let mut gain = across / along;
        let mut idle = mean - gain * mean_rise;
        if idle < 0.0 {
            // The latency without load cannot be negative.
            idle = 0.0;
            gain = points.iter().map(|point| rise(point.0) * point.1).sum::<f64>()
                / points.iter().map(|point| rise(point.0).powi(2)).sum::<f64>();
        }
        let residual = |&(load, latency): &(f64, f64)| latency - idle - gain * rise(load);
        let error = points.iter().map(|point| residual(point).powi(2)).sum();
        Self { base: idle - gain, gain, error }
    }
}
