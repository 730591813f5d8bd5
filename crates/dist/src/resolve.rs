//! Resolves a [`Spec`] into a [`Distribution`]: converts units to nanoseconds, reads files, and
//! computes samplers and moments once.

use std::path::Path;
use std::sync::Arc;

use rand_distr::{Bernoulli, Exp, Gamma, LogNormal, Pareto, Uniform, Weibull};

use crate::distribution::{Distribution, MAX_SAMPLE_NS, MIN_PARAMETER_NS};
use crate::error::ResolveError;
use crate::quantity::Time;
use crate::sampler::{BoundedPareto, Sampler};
use crate::samples;
use crate::spec::{Family, Scale, Spec, Term};

impl Spec {
    /// Resolves the specification into a distribution. `unit_ns` is the length of the experiment's
    /// unit of time in nanoseconds. Times without a unit are multiples of it. Files are read here.
    pub fn resolve(&self, unit_ns: f64) -> Result<Distribution, ResolveError> {
        if !(unit_ns.is_finite() && unit_ns > 0.0) {
            return Err(ResolveError::BadUnit(unit_ns));
        }
        let mut files_have_units = match self.scale() {
            Scale::Absolute => Some(true),
            Scale::Relative => Some(false),
            Scale::InFiles => None,
        };
        let mut samplers = Vec::with_capacity(self.terms.len());
        let (mut mean, mut variance, mut third) = (0.0, 0.0, 0.0);
        for term in &self.terms {
            let part = part(term, unit_ns, &mut files_have_units)?;
            samplers.push(part.sampler);
            // The draws are independent, so variances and third central moments add up, just like
            // means.
            mean += part.mean;
            variance += part.variance;
            third += part.third;
        }
        let samplers = samplers.into();
        Ok(Distribution { samplers, has_units: files_have_units, mean, variance, third })
    }
}

impl Distribution {
    /// The empirical distribution of samples in nanoseconds, all of which are equally likely.
    /// `have_units` states whether the samples were written with units. `None` if there are no
    /// samples, or if one of them is not a valid time.
    pub fn from_samples(ns: Vec<f64>, have_units: bool) -> Option<Self> {
        if !ns.iter().all(|ns| (0.0..=MAX_SAMPLE_NS).contains(ns)) {
            return None;
        }
        let Part { sampler, mean, variance, third } = empirical(ns).ok()?;
        let samplers = Box::from([sampler]);
        Some(Self { samplers, has_units: Some(have_units), mean, variance, third })
    }

    /// Replaces the samples of each file with the same number of draws from them, made with
    /// replacement. The spread of such distributions shows the uncertainty of the samples (the
    /// bootstrap, Efron 1979). `None` if there are no files.
    pub fn resampled(&self, rng: &mut (impl rand_core::Rng + ?Sized)) -> Option<Self> {
        let mut again = self.clone();
        let mut any = false;
        for sampler in &mut again.samplers {
            let Sampler::Empirical { samples, .. } = &*sampler else { continue };
            let drawn = (0..samples.len()).map(|_| sampler.sample(rng)).collect();
            let (old, new) = (empirical(samples.to_vec()).ok()?, empirical(drawn).ok()?);
            // The means, variances and third central moments of independent terms add up.
            again.mean += new.mean - old.mean;
            again.variance = (again.variance + new.variance - old.variance).max(0.0);
            again.third += new.third - old.third;
            *sampler = new.sampler;
            any = true;
        }
        any.then_some(again)
    }
}

struct Part {
    sampler: Sampler,
    mean: f64,
    variance: f64,
    /// The third central moment.
    third: f64,
}

/// A part of a distribution, or the error that the library returns if it rejects a parameter.
type Made = Result<Part, Box<dyn std::error::Error + Send + Sync>>;

fn part(
    term: &Term,
    unit_ns: f64,
    files_have_units: &mut Option<bool>,
) -> Result<Part, ResolveError> {
    let ns = |time: Time| time.ns(unit_ns);
    // A positive number may become zero nanoseconds, so the check for zero uses the number as
    // written.
    let usable =
        |time: &Time| time.number == 0.0 || (MIN_PARAMETER_NS..=MAX_SAMPLE_NS).contains(&ns(*time));
    if let Some(time) = term.times().find(|time| !usable(time)) {
        return Err(ResolveError::OutOfRange { time: time.to_string(), ns: ns(time) });
    }
    let values =
        term.values().map(|(value, is_time)| if is_time { ns(value) } else { value.number });
    let made = match (term.family, &values.collect::<Vec<_>>()[..]) {
        (Family::Exp, &[mean]) => exponential(mean),
        (Family::Det, &[value]) => Ok(constant(value)),
        (Family::LogNormal, &[mean, cv]) => lognormal(mean, cv),
        (Family::Gamma, &[mean, cv]) => gamma(mean, cv * cv),
        (Family::Erlang, &[stages, mean]) => gamma(mean, 1.0 / stages),
        (Family::Hyper, &[mean, cv]) => hyper(mean, cv * cv),
        (Family::Pareto, &[alpha, min]) => pareto(alpha, min),
        (Family::Pareto, &[alpha, min, max]) => Ok(bounded(alpha, min, max)),
        (Family::Weibull, &[shape, scale]) => weibull(shape, scale),
        (Family::Bimodal, &[probability, value]) => bimodal(probability, value),
        (Family::Hiccup, &[probability, mean]) => hiccup(probability, mean),
        (Family::Uniform, &[low, high]) => uniform(low, high),
        (Family::File, _) => empirical(read(&term.path, unit_ns, files_have_units)?),
        (family, values) => unreachable!("{family:?} of {values:?} was not parsed"),
    };
    made.map_err(|source| ResolveError::Degenerate { term: term.to_string(), source })
}

/// Reads the samples of a file. `have_units` states whether the times that have already been read
/// have units. If it is `None`, this file determines whether times have units.
fn read(
    path: &Path,
    unit_ns: f64,
    have_units: &mut Option<bool>,
) -> Result<Vec<f64>, ResolveError> {
    let samples = samples::read_samples(path, unit_ns)?;
    if *have_units.get_or_insert(samples.have_units) == samples.have_units {
        return Ok(samples.ns);
    }
    Err(ResolveError::MixedUnits { path: path.to_owned(), file_has_units: samples.have_units })
}

fn constant(value: f64) -> Part {
    Part { sampler: Sampler::Constant(value), mean: value, variance: 0.0, third: 0.0 }
}

fn exponential(mean: f64) -> Made {
    let sampler = Sampler::Exp(Exp::new(1.0 / mean)?);
    Ok(Part { sampler, mean, variance: mean * mean, third: 2.0 * mean.powi(3) })
}

fn lognormal(mean: f64, cv: f64) -> Made {
    let sampler = Sampler::LogNormal(LogNormal::from_mean_cv(mean, cv)?);
    let third = (mean * cv).powi(3) * cv * (cv * cv + 3.0);
    Ok(Part { sampler, mean, variance: (mean * cv).powi(2), third })
}

/// A gamma distribution. The shape of a gamma distribution is the inverse of the squared
/// coefficient of variation.
fn gamma(mean: f64, scv: f64) -> Made {
    let shape = 1.0 / scv;
    if shape.is_infinite() {
        return Ok(constant(mean));
    }
    let sampler = Sampler::Gamma(Gamma::new(shape, mean * scv)?);
    let variance = mean * mean * scv;
    Ok(Part { sampler, mean, variance, third: 2.0 * variance * mean * scv })
}

/// The distribution has two exponential branches that contribute equally to the mean ("balanced
/// means"). The fast branch has the probability p = (1 + √((c²-1)/(c²+1)))/2 and the mean m/2p, and
/// the slow branch has the mean m/2(1-p). Source: Whitt, "Approximating a point process by a
/// renewal process, I", 1982.
fn hyper(mean: f64, scv: f64) -> Made {
    let root = ((scv - 1.0) / (scv + 1.0)).sqrt();
    // 1-root is computed as (1-root²)/(1+root), which avoids a subtraction of nearly equal numbers.
    let (twice_fast, twice_slow) = (1.0 + root, 2.0 / (scv + 1.0) / (1.0 + root));
    let sampler = Sampler::Hyper {
        is_fast: Bernoulli::new(twice_fast / 2.0)?,
        fast: Exp::new(twice_fast / mean)?,
        slow: Exp::new(twice_slow / mean)?,
    };
    // The third moment is 6·Σ pᵢmᵢ³, and each pᵢmᵢ is half the mean.
    let phases = twice_fast.recip().powi(2) + twice_slow.recip().powi(2);
    let third = mean.powi(3) * central(1.0, scv, 3.0 * phases);
    Ok(Part { sampler, mean, variance: mean * mean * scv, third })
}

fn pareto(alpha: f64, min: f64) -> Made {
    let sampler = Sampler::Pareto(Pareto::new(min, alpha)?);
    let mean = if alpha > 1.0 { alpha * min / (alpha - 1.0) } else { f64::INFINITY };
    let variance = if alpha > 2.0 {
        (min / (alpha - 1.0)).powi(2) * alpha / (alpha - 2.0)
    } else {
        f64::INFINITY
    };
    let third = if alpha > 3.0 {
        (min / (alpha - 1.0)).powi(3) * 2.0 * alpha * (alpha + 1.0) / (alpha - 2.0) / (alpha - 3.0)
    } else {
        f64::INFINITY
    };
    Ok(Part { sampler, mean, variance, third })
}

fn bounded(alpha: f64, min: f64, max: f64) -> Part {
    // Bounds that are close together may have become equal in the conversion to nanoseconds.
    if min >= max {
        return constant(min);
    }
    let pareto = BoundedPareto::new(alpha, min, max);
    let mean = pareto.moment(1);
    let variance = (pareto.moment(2) - mean * mean).max(0.0);
    let third = central(mean, variance, pareto.moment(3));
    Part { sampler: Sampler::BoundedPareto(pareto), mean, variance, third }
}

fn weibull(shape: f64, scale: f64) -> Made {
    let sampler = Sampler::Weibull(Weibull::new(scale, shape)?);
    // Below a shape of about 0.006 the moments overflow to infinity.
    let first = libm::tgamma(1.0 + 1.0 / shape);
    let second = libm::tgamma(1.0 + 2.0 / shape);
    let spread = if second.is_finite() { (second - first * first).max(0.0) } else { f64::INFINITY };
    let skew = central(first, spread, libm::tgamma(1.0 + 3.0 / shape));
    let third = scale.powi(3) * skew;
    Ok(Part { sampler, mean: scale * first, variance: scale * scale * spread, third })
}

fn bimodal(probability: f64, value: f64) -> Made {
    let sampler = Sampler::Bimodal { is_high: Bernoulli::new(probability)?, high: value };
    let variance = value * value * probability * (1.0 - probability);
    let third = value * variance * (1.0 - 2.0 * probability);
    Ok(Part { sampler, mean: probability * value, variance, third })
}

fn hiccup(probability: f64, length: f64) -> Made {
    let sampler =
        Sampler::Hiccup { occurs: Bernoulli::new(probability)?, length: Exp::new(1.0 / length)? };
    let mean = probability * length;
    let variance = mean * (2.0 * length - mean);
    let third = central(mean, variance, 6.0 * mean * length * length);
    Ok(Part { sampler, mean, variance, third })
}

fn uniform(low: f64, high: f64) -> Made {
    if low == high {
        return Ok(constant(low));
    }
    let sampler = Sampler::Uniform(Uniform::new(low, high)?);
    Ok(Part {
        sampler,
        mean: low.midpoint(high),
        variance: (high - low).powi(2) / 12.0,
        third: 0.0,
    })
}

/// The samples are the whole distribution, so the variance is divided by their number.
fn empirical(samples: Vec<f64>) -> Made {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let third = samples.iter().map(|x| (x - mean).powi(3)).sum::<f64>() / count;
    let index = Uniform::new(0, samples.len())?;
    let sampler = Sampler::Empirical { samples: Arc::from(samples), index };
    Ok(Part { sampler, mean, variance, third })
}

/// The third central moment, from mean, variance and third moment; infinite if the third moment is
/// infinite.
fn central(mean: f64, variance: f64, third: f64) -> f64 {
    if third.is_finite() { third - 3.0 * mean * variance - mean.powi(3) } else { f64::INFINITY }
}
