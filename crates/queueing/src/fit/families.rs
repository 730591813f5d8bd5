//! The families of one or two parameters, fitted by maximum likelihood.

use statrs::function::gamma as special;

use super::{Fit, FitError, Fitted, Parameters, Sample};
use crate::solve;
use crate::special::{gamma_cdf, normal_cdf};

// The exponential distribution: its mean is that of the samples. Maximum likelihood. Cost: O(n).

/// An exponential distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    /// The mean, in the unit of the samples.
    pub mean: f64,
}

/// Fits an exponential distribution.
pub fn exponential(sample: &Sample) -> Fit {
    Fit::of(Parameters::Exponential(Exponential { mean: sample.mean() }), sample)
}

impl Fitted for Exponential {
    fn cdf(&self, x: f64) -> f64 {
        -(-x / self.mean).exp_m1()
    }

    fn ln_density(&self, x: f64) -> f64 {
        -x / self.mean - self.mean.ln()
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn parameters(&self) -> u32 {
        1
    }

    fn text(&self) -> Option<String> {
        Some(format!("exp:{}", self.mean))
    }
}

// The log-normal distribution: mean and deviation of the logarithms. Maximum likelihood. Cost:
// O(n).

/// A log-normal distribution: ln X is normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// The mean of ln X; e^location is the median, in the unit of the samples.
    pub location: f64,
    /// The standard deviation of ln X; above 0.
    pub deviation: f64,
}

/// Fits a log-normal distribution.
pub fn lognormal(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let location = sample.mean_ln();
    let deviation = sample.average(|x| (x.ln() - location).powi(2)).sqrt();
    if deviation == 0.0 {
        // They differ, but not in the digits of their logarithms.
        return Err(FitError::NoSpread(sample.least()));
    }
    Ok(Fit::of(Parameters::LogNormal(LogNormal { location, deviation }), sample))
}

impl Fitted for LogNormal {
    fn cdf(&self, x: f64) -> f64 {
        normal_cdf((x.ln() - self.location) / self.deviation)
    }

    fn ln_density(&self, x: f64) -> f64 {
        const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_8;
        let z = (x.ln() - self.location) / self.deviation;
        -0.5 * z * z - LN_ROOT_TAU - self.deviation.ln() - x.ln()
    }

    fn mean(&self) -> f64 {
        (self.location + 0.5 * self.deviation.powi(2)).exp()
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        let cv = self.deviation.powi(2).exp_m1().sqrt();
        Some(format!("lognormal:{}:{cv}", self.mean()))
    }
}

// The gamma distribution by maximum likelihood: the shape a solves ln a - ψ(a) = ln x̄ - mean of
// ln x, whose left side falls from ∞ to 0; it lies between 1/(2a) and 1/a, which brackets the
// root.
//
// Source: Minka, "Estimating a Gamma distribution", 2002, for the equation. Cost: O(n), and
// O(√shape) for each sample's place in the distribution.

/// A gamma distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    /// The shape, 1/CV²; above 0.
    pub shape: f64,
    /// The mean divided by the shape, in the unit of the samples.
    pub scale: f64,
}

/// Fits a gamma distribution.
pub fn gamma(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let gap = sample.mean().ln() - sample.mean_ln();
    // Below this, the difference holds too few digits.
    if gap < 1e-10 {
        return Err(FitError::NoSpread(sample.least()));
    }
    let excess = |shape: f64| shape.ln() - special::digamma(shape) - gap;
    let shape = solve::root(excess, 0.5 / gap, 1.0 / gap);
    let scale = sample.mean() / shape;
    Ok(Fit::of(Parameters::Gamma(Gamma { shape, scale }), sample))
}

impl Fitted for Gamma {
    fn cdf(&self, x: f64) -> f64 {
        gamma_cdf(self.shape, x / self.scale)
    }

    fn ln_density(&self, x: f64) -> f64 {
        let y = x / self.scale;
        (self.shape - 1.0) * y.ln() - y - special::ln_gamma(self.shape) - self.scale.ln()
    }

    fn mean(&self) -> f64 {
        self.shape * self.scale
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        Some(format!("gamma:{}:{}", self.mean(), self.shape.sqrt().recip()))
    }
}

// The Weibull distribution by maximum likelihood: the shape k solves
// Σ xᵏ ln x / Σ xᵏ - 1/k = mean of ln x, whose left side rises; then scaleᵏ is the mean of xᵏ.
//
// Source: Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, ch. 21. Cost:
// O(n) with a factor of about 60.

/// A Weibull distribution: P(X > x) = e^(-(x/scale)^shape).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weibull {
    /// The shape, above 0; below 1 the tail is heavier than exponential.
    pub shape: f64,
    /// The 63rd percentile, in the unit of the samples.
    pub scale: f64,
}

/// The shapes that are looked for: those that `curtail-dist` reads, as far as they can be distinguished
/// apart.
const SHAPES: (f64, f64) = (1e-3, 1e4);

/// Fits a Weibull distribution.
pub fn weibull(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    // In units of the largest, no power overflows.
    let unit = sample.largest();
    let mean_ln = sample.mean_ln() - unit.ln();
    let excess = |shape: f64| {
        let (mut powers, mut weighted) = (0.0, 0.0);
        for x in sample.sorted() {
            let ln = (x / unit).ln();
            let power = (shape * ln).exp();
            powers += power;
            weighted += power * ln;
        }
        weighted / powers - 1.0 / shape - mean_ln
    };
    let (low, high) = SHAPES;
    if excess(high) <= 0.0 {
        return Err(FitError::NoSpread(sample.least()));
    }
    let shape = solve::root(|ln: f64| excess(ln.exp()), low.ln(), high.ln()).exp();
    let scale = unit * sample.average(|x| (x / unit).powf(shape)).powf(1.0 / shape);
    Ok(Fit::of(Parameters::Weibull(Weibull { shape, scale }), sample))
}

impl Fitted for Weibull {
    fn cdf(&self, x: f64) -> f64 {
        -(-(x / self.scale).powf(self.shape)).exp_m1()
    }

    fn ln_density(&self, x: f64) -> f64 {
        let ln = (x / self.scale).ln();
        self.shape.ln() + (self.shape - 1.0) * ln - (self.shape * ln).exp() - self.scale.ln()
    }

    fn mean(&self) -> f64 {
        self.scale * special::gamma(1.0 + 1.0 / self.shape)
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        Some(format!("weibull:{}:{}", self.shape, self.scale))
    }
}

// The Pareto distribution by maximum likelihood, and Hill's estimate of a tail's exponent.
//
// The minimum is the smallest sample, the exponent n/Σ ln(x/min). Hill's estimate is the same over
// the largest samples only: it sees a heavy tail behind a body of any shape.
//
// Source: Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, ch. 20; Hill,
// "A simple general approach to inference about the tail of a distribution", 1975. Cost: O(n).

/// A Pareto distribution: P(X > x) = (min/x)^alpha from min on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// The exponent, above 0; the mean is infinite for 1 or less, the variance for 2 or less.
    pub alpha: f64,
    /// The least value, in the unit of the samples.
    pub min: f64,
}

/// Fits a Pareto distribution.
pub fn pareto(sample: &Sample) -> Result<Fit, FitError> {
    sample.spread()?;
    let min = sample.least();
    let alpha = sample.average(|x| (x / min).ln()).recip();
    Ok(Fit::of(Parameters::Pareto(Pareto { alpha, min }), sample))
}

/// Hill's estimate of the exponent alpha of P(X > x) ~ x^(-alpha), from the `largest` (2 or more,
/// and fewer than all) samples. Its standard error is alpha/√largest, if that part is a Pareto tail
/// at all.
pub fn hill(sample: &Sample, largest: usize) -> Result<f64, FitError> {
    let all = sample.sorted();
    if largest < 2 || largest >= all.len() {
        return Err(FitError::BadTail { asked: largest, count: all.len() });
    }
    let (body, tail) = all.split_at(all.len() - largest);
    let start = body.last().copied().unwrap_or_default();
    let sum: f64 = tail.iter().map(|x| (x / start).ln()).sum();
    if sum > 0.0 { Ok(largest as f64 / sum) } else { Err(FitError::NoSpread(start)) }
}

impl Fitted for Pareto {
    fn cdf(&self, x: f64) -> f64 {
        -(self.alpha * (self.min / x).ln()).exp_m1()
    }

    fn ln_density(&self, x: f64) -> f64 {
        if x < self.min {
            return f64::NEG_INFINITY;
        }
        self.alpha.ln() - x.ln() - self.alpha * (x / self.min).ln()
    }

    fn mean(&self) -> f64 {
        if self.alpha > 1.0 { self.alpha * self.min / (self.alpha - 1.0) } else { f64::INFINITY }
    }

    fn parameters(&self) -> u32 {
        2
    }

    fn text(&self) -> Option<String> {
        Some(format!("pareto:{}:{}", self.alpha, self.min))
    }
}
