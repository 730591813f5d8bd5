//! Distributions fitted to samples, and ranked by how well they fit.
//!
//! | function | method | `curtail-dist` |
//! |---|---|---|
//! | [`exponential`] | maximum likelihood | `exp:MEAN` |
//! | [`lognormal`] | maximum likelihood | `lognormal:MEAN:CV` |
//! | [`gamma`] | maximum likelihood | `gamma:MEAN:CV` |
//! | [`weibull`] | maximum likelihood | `weibull:SHAPE:SCALE` |
//! | [`pareto`] | maximum likelihood | `pareto:ALPHA:MIN` |
//! | [`hyper_balanced`] | two moments, balanced means | `h2:MEAN:CV` |
//! | [`hyper`] | three moments, or else two | none for three moments |
//! | [`erlangs`] | expectation maximization | none |
//!
//! Every [`Fit`] comes with its likelihood, AIC and Kolmogorov–Smirnov distance. [`hill`] looks at
//! the far tail alone.
//!
//! Source: document 004, "In Practice: IAT and ST distributions" (Takeaway 4); each file names its
//! own.

mod erlangs;
mod families;
mod hyper;
mod rank;
mod report;
mod sample;

pub use erlangs::{Erlangs, erlangs};
pub use families::{
    Exponential, Gamma, LogNormal, Pareto, Weibull, exponential, gamma, hill, lognormal, pareto,
    weibull,
};
pub use hyper::{hyper, hyper_balanced};
pub use rank::{By, Family, Ranking, best_fit};
pub use report::{Fitted as FittedFamily, Refused, Report};
pub use sample::{MIN_SAMPLES, Sample};

use curtail_dist::Spec;

use crate::models::Hyper;
use sample::{LARGEST, SMALLEST};

/// What a fitted distribution can tell.
trait Fitted {
    /// P(X ≤ x), for x > 0.
    fn cdf(&self, x: f64) -> f64;
    /// The logarithm of the density, for x > 0.
    fn ln_density(&self, x: f64) -> f64;
    fn mean(&self) -> f64;
    /// How many numbers it takes.
    fn parameters(&self) -> u32;
    /// As `curtail-dist` writes it, if it has the form.
    fn text(&self) -> Option<String>;
}

/// A fitted distribution by its parameters, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameters {
    /// Exponential.
    Exponential(Exponential),
    /// Log-normal.
    LogNormal(LogNormal),
    /// Gamma.
    Gamma(Gamma),
    /// Weibull.
    Weibull(Weibull),
    /// Pareto.
    Pareto(Pareto),
    /// Hyper-exponential of two phases with balanced means.
    HyperBalanced(Hyper),
    /// Hyper-exponential of two phases.
    Hyper(Hyper),
    /// A mixture of two Erlang distributions of the same order.
    Erlangs(Erlangs),
}

impl Parameters {
    fn law(&self) -> &dyn Fitted {
        match self {
            Self::Exponential(law) => law,
            Self::LogNormal(law) => law,
            Self::Gamma(law) => law,
            Self::Weibull(law) => law,
            Self::Pareto(law) => law,
            Self::HyperBalanced(law) | Self::Hyper(law) => law,
            Self::Erlangs(law) => law,
        }
    }

    /// P(X ≤ `x`), from 0 to 1; 0 for x ≤ 0.
    pub fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 { 0.0 } else { self.law().cdf(x).clamp(0.0, 1.0) }
    }

    /// The logarithm of the density at `x`, per unit of the samples; -∞ where the density is zero.
    pub fn ln_density(&self, x: f64) -> f64 {
        if x <= 0.0 { f64::NEG_INFINITY } else { self.law().ln_density(x) }
    }

    /// The mean, in the unit of the samples; infinite for a Pareto tail of exponent 1 or less.
    pub fn mean(&self) -> f64 {
        self.law().mean()
    }

    /// How many numbers were fitted; balanced means leave one less to choose.
    fn count(&self) -> u32 {
        let all = self.law().parameters();
        if matches!(self, Self::HyperBalanced(_)) { all - 1 } else { all }
    }

    /// The distribution as `curtail-dist` writes it, without units; `None` if it has no such form,
    /// or if a parameter is outside what it reads.
    pub fn spec(&self) -> Option<Spec> {
        let balanced = match self {
            // Only with balanced means do mean and variance say it all.
            Self::Hyper(_) => None,
            _ => self.law().text(),
        };
        balanced?.parse().ok()
    }
}

/// A fitted distribution, and how well it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The distribution.
    pub parameters: Parameters,
    /// It as `curtail-dist` writes it, without units: in multiples of the samples' unit. `None` if
    /// there is no such form.
    pub spec: Option<Spec>,
    /// The logarithm of the likelihood of all samples. It depends on their unit, so it compares
    /// only fits to the same samples.
    pub log_likelihood: f64,
    /// Akaike's criterion: twice the number of parameters less twice the log-likelihood. Lower is
    /// better.
    pub aic: f64,
    /// The Kolmogorov–Smirnov distance: the largest difference of the distribution functions, from
    /// 0 to 1. Lower is better. It is not a test: the parameters come from the same samples.
    pub ks: f64,
}

impl Fit {
    fn of(parameters: Parameters, sample: &Sample) -> Self {
        let values = sample.sorted();
        let log_likelihood: f64 = values.iter().map(|&x| parameters.ln_density(x)).sum();
        Self {
            spec: parameters.spec(),
            log_likelihood,
            aic: 2.0 * f64::from(parameters.count()) - 2.0 * log_likelihood,
            ks: kolmogorov_smirnov(&parameters, values),
            parameters,
        }
    }
}

/// The distribution function of the samples jumps at each, so both sides count.
fn kolmogorov_smirnov(parameters: &Parameters, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let distance = |(i, &x): (usize, &f64)| {
        let cdf = parameters.cdf(x);
        (cdf - i as f64 / count).max((i + 1) as f64 / count - cdf)
    };
    sorted.iter().enumerate().map(distance).fold(0.0, f64::max)
}

/// Why a distribution does not fit. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error("there {}; at least {MIN_SAMPLES} are needed", crate::check::are(*.0, "sample"))]
    TooFew(usize),
    #[error("sample {index} is {value}; samples are greater than 0 and finite: leave it out")]
    BadSample { index: usize, value: f64 },
    #[error(
        "sample {index} is 0, the first of more than one in a hundred; \
         measure by a finer clock, or leave them out"
    )]
    ManyZeros { index: usize },
    #[error(
        "sample {index} is {value:e}; \
         give samples from {SMALLEST:e} to {LARGEST:e}, by another unit"
    )]
    BadUnit { index: usize, value: f64 },
    #[error("every sample is {0}, or nearly so; a constant is written det:{0}")]
    NoSpread(f64),
    #[error(
        "the squared coefficient of variation is {}, and a hyper-exponential has more than 1; \
         use gamma or erlangs", four(*.0)
    )]
    TooRegular(f64),
    #[error("the {asked} largest of {count} samples are no tail; ask for 2 to {most}",
        most = count.saturating_sub(1))]
    BadTail { asked: usize, count: usize },
}

/// Four digits that say something: there is no more in any sample.
fn four(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
