//! The families of distributions, and the methods that fit them.

use statrs::function::gamma::digamma;

use super::erlangs::erlangs;
use super::{FitError, Law, Sample};
use crate::models::Hyper;
use crate::solve;

/// A distribution, and its `curtail-dist` form without units if there is one.
type Fitted = (Law, Option<String>);

/// Fits a family to samples.
type Method = fn(&Sample) -> Result<Fitted, FitError>;

/// All families with their names, the simplest first.
pub(super) const FAMILIES: [(&str, Method); 8] = [
    ("exponential", exponential),
    ("log-normal", lognormal),
    ("gamma", gamma),
    ("Weibull", weibull),
    ("Pareto", pareto),
    ("hyper-exponential, balanced", hyper_balanced),
    ("hyper-exponential", hyper),
    ("mixture of Erlangs", erlangs),
];

/// Maximum likelihood: the mean is the mean of the samples. Cost: O(n).
#[expect(clippy::unnecessary_wraps, reason = "all families have this signature")]
fn exponential(sample: &Sample) -> Result<Fitted, FitError> {
    let mean = sample.mean();
    Ok((Law::Exponential { mean }, Some(format!("exp:{mean}"))))
}

/// Maximum likelihood: the parameters are the mean and the standard deviation of the logarithms.
/// Cost: O(n).
fn lognormal(sample: &Sample) -> Result<Fitted, FitError> {
    sample.spread()?;
    let location = sample.mean_ln();
    let variance = sample.average(|x| (x.ln() - location).powi(2));
    if variance == 0.0 {
        // The samples are not all equal, but their logarithms are, because of rounding.
        return Err(FitError::NoSpread(sample.least()));
    }
    let (mean, cv) = ((location + 0.5 * variance).exp(), variance.exp_m1().sqrt());
    let law = Law::LogNormal { location, deviation: variance.sqrt() };
    Ok((law, Some(format!("lognormal:{mean}:{cv}"))))
}

/// Maximum likelihood: the shape a solves ln a - ψ(a) = ln x̄ - mean of ln x. The left side falls
/// from ∞ to 0 and lies between 1/(2a) and 1/a, which brackets the root.
///
/// Source of the equation: Minka, "Estimating a Gamma distribution", 2002. Cost: O(n), plus
/// O(√shape) for each sample's rank.
fn gamma(sample: &Sample) -> Result<Fitted, FitError> {
    sample.spread()?;
    let mean = sample.mean();
    let gap = mean.ln() - sample.mean_ln();
    // A smaller difference has too few accurate digits.
    if gap < 1e-10 {
        return Err(FitError::NoSpread(sample.least()));
    }
    let excess = |shape: f64| shape.ln() - digamma(shape) - gap;
    let shape = solve::root(excess, 0.5 / gap, 1.0 / gap);
    let text = format!("gamma:{mean}:{}", shape.sqrt().recip());
    Ok((Law::Gamma { shape, scale: mean / shape }, Some(text)))
}

/// The range of shapes that is searched: those that `curtail-dist` accepts and that can be
/// distinguished.
const SHAPES: (f64, f64) = (1e-3, 1e4);

/// Maximum likelihood: the shape k solves Σ xᵏ ln x / Σ xᵏ - 1/k = mean of ln x, whose left side
/// rises. The scale follows from k: scaleᵏ is the mean of xᵏ.
///
/// Source: Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, ch. 21. Cost:
/// O(n), with a factor of about 60.
fn weibull(sample: &Sample) -> Result<Fitted, FitError> {
    sample.spread()?;
    // Times are in units of the largest sample, so powers cannot overflow.
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
    Ok((Law::Weibull { shape, scale }, Some(format!("weibull:{shape}:{scale}"))))
}

/// Maximum likelihood: the minimum is the smallest sample, and the exponent is n/Σ ln(x/min).
///
/// Source: Johnson, Kotz and Balakrishnan, ch. 20. Cost: O(n).
fn pareto(sample: &Sample) -> Result<Fitted, FitError> {
    sample.spread()?;
    let min = sample.least();
    let alpha = sample.average(|x| (x / min).ln()).recip();
    Ok((Law::Pareto { alpha, min }, Some(format!("pareto:{alpha}:{min}"))))
}

/// Matches three moments if such a distribution exists, otherwise two. The third moment of samples
/// is dominated by the largest few, so there may be no such distribution.
///
/// Source: document 004, Takeaway 4; Whitt, "Approximating a point process by a renewal process,
/// I", 1982. Cost: O(n).
fn hyper(sample: &Sample) -> Result<Fitted, FitError> {
    let mean = sample.mean();
    // Times are in units of the mean, so third powers cannot overflow.
    let moment = |k: i32| sample.average(|x| (x / mean).powi(k));
    let Some(scaled) = Hyper::from_moments([1.0, moment(2), moment(3)]) else {
        return hyper_balanced(sample);
    };
    let law = Hyper { rates: scaled.rates.map(|rate| rate / mean), ..scaled };
    Ok((Law::Hyper(law), None))
}

/// Matches two moments, with phases that contribute equally to the mean. Fails if the samples vary
/// less than an exponential distribution does.
fn hyper_balanced(sample: &Sample) -> Result<Fitted, FitError> {
    let scv = sample.scv();
    let law = Some(scv).filter(|scv| *scv > 1.0);
    let law = law.and_then(|scv| Hyper::balanced(sample.mean(), scv).ok());
    let law = law.ok_or(FitError::TooRegular(scv))?;
    // Mean and variance determine the distribution only with balanced means.
    Ok((Law::Hyper(law), Some(format!("h2:{}:{}", law.mean(), law.scv().sqrt()))))
}
