//! Fits distributions to samples, and ranks them by goodness of fit.
//!
//! | family | method | `curtail-dist` |
//! |---|---|---|
//! | exponential | maximum likelihood | `exp:MEAN` |
//! | log-normal | maximum likelihood | `lognormal:MEAN:CV` |
//! | gamma | maximum likelihood | `gamma:MEAN:CV` |
//! | Weibull | maximum likelihood | `weibull:SHAPE:SCALE` |
//! | Pareto | maximum likelihood | `pareto:ALPHA:MIN` |
//! | hyper-exponential, balanced | two moments, balanced means | `h2:MEAN:CV` |
//! | hyper-exponential | three moments, or else two | none for three moments |
//! | mixture of Erlangs | expectation maximization | none |
//!
//! Every [`Fit`] has its likelihood, AIC and Kolmogorov–Smirnov distance.
//!
//! Source: document 004, "In Practice: IAT and ST distributions" (Takeaway 4); each family cites
//! its own source.

mod erlangs;
mod families;
mod law;
mod sample;

pub use law::Law;

use curtail_dist::Spec;
use curtail_kernel::duration::Unit;
use serde::{Serialize, Serializer};

use families::FAMILIES;
use sample::{LARGEST, MIN_SAMPLES, SMALLEST, Sample};

/// The criterion by which fits are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The Kolmogorov–Smirnov distance, which measures how well the body of the distribution fits,
    /// regardless of the number of parameters.
    Ks,
    /// Akaike's criterion, which measures the likelihood of all samples and penalizes parameters.
    Aic,
}

/// All fits to a set of samples, as a serializable document.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The number of samples.
    pub samples: usize,
    /// The number of samples that are 0. Each of them is treated as half of the shortest other
    /// sample.
    pub zeros: usize,
    /// The unit of times: `ms`, or `1` for the samples' own unit.
    pub unit: &'static str,
    /// The mean of the samples.
    pub mean: f64,
    /// The squared coefficient of variation of the samples.
    pub scv: f64,
    /// The criterion by which fits are ranked.
    pub by: By,
    /// The best distribution that can be specified as a service and simulated. Such a distribution
    /// must have a mean.
    pub best: Option<String>,
    /// The fits, with the best one first. Among equally good fits, the simplest comes first.
    pub fits: Vec<Fit>,
    /// Families that could not be fitted.
    pub refused: Vec<Refused>,
}

/// A fitted distribution, and its goodness of fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The name of the family.
    pub family: &'static str,
    /// The distribution in the format of a service. Numbers have six significant digits, because
    /// measurements are not more precise. `None` for families without such a form, or if a number
    /// is out of range.
    pub spec: Option<String>,
    /// The distribution, in the unit of the samples.
    #[serde(rename = "parameters", serialize_with = "by_name")]
    pub law: Law,
    /// The logarithm of the likelihood of all samples. It depends on the unit, so only the
    /// likelihoods of fits to the same samples can be compared.
    pub log_likelihood: f64,
    /// Akaike's criterion: twice the number of parameters minus twice the log-likelihood. Lower is
    /// better.
    pub aic: f64,
    /// The Kolmogorov–Smirnov distance: the largest difference between the distribution functions,
    /// from 0 to 1. Lower is better. It is not a test, because the parameters come from the same
    /// samples.
    pub ks: f64,
}

/// A family that could not be fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// The name of the family.
    pub family: &'static str,
    /// The reason.
    pub because: String,
}

fn by_name<S: Serializer>(law: &Law, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(law.parameters())
}

impl Report {
    /// Fits all families. Times are in milliseconds if `have_units`, otherwise in the samples' own
    /// unit. At most 1 % of the times may be 0, as the result of a clock's rounding. The mixture of
    /// Erlangs dominates the cost.
    ///
    /// ```
    /// use curtail_queueing::fit::{By, Report};
    ///
    /// let measured = (1..1000).map(|i| -(f64::from(i) / 1000.0).ln()).collect();
    /// let report = Report::new(measured, true, By::Aic)?;
    /// assert!(report.best.is_some_and(|best| best.starts_with("exp:0.99") && best.ends_with("ms")));
    /// # Ok::<(), curtail_queueing::fit::FitError>(())
    /// ```
    pub fn new(mut times: Vec<f64>, have_units: bool, by: By) -> Result<Self, FitError> {
        let zeros = lift(&mut times)?;
        let sample = Sample::new(&times)?;
        let (mut fits, mut refused) = (Vec::<Fit>::new(), Vec::new());
        for (family, fit) in FAMILIES {
            match fit(&sample) {
                // A family's fallback may produce the same law as an earlier family.
                Ok((law, _)) if fits.iter().any(|other| other.law == law) => {}
                Ok((law, text)) => fits.push(Fit::of(family, law, text.as_deref(), &sample)),
                Err(error) => refused.push(Refused { family, because: error.to_string() }),
            }
        }
        let key = |fit: &Fit| match by {
            By::Ks => fit.ks,
            By::Aic => fit.aic,
        };
        fits.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let mut best = fits.iter().filter_map(|fit| fit.spec.clone()).find(|spec| has_mean(spec));
        if sample.least() == sample.largest() {
            best = written(&format!("det:{}", sample.mean()));
        }
        if have_units {
            let specs = fits.iter_mut().map(|fit| &mut fit.spec);
            specs.chain([&mut best]).flatten().for_each(in_milliseconds);
        }
        Ok(Self {
            samples: times.len(),
            zeros,
            unit: if have_units { "ms" } else { "1" },
            mean: sample.mean(),
            scv: sample.scv(),
            by,
            best,
            fits,
            refused,
        })
    }
}

/// The maximum share of times that may be 0.
const ZEROS: f64 = 0.01;

/// Replaces times of 0 by half of the shortest other time, and counts them. Such times were rounded
/// to 0 by a clock, and the fitted distributions only allow times above 0. Too many zeros are an
/// error, because the result would depend on their true lengths.
fn lift(times: &mut [f64]) -> Result<usize, FitError> {
    let Some(index) = times.iter().position(|&time| time == 0.0) else { return Ok(0) };
    let shortest = times.iter().copied().filter(|&time| time > 0.0).fold(f64::INFINITY, f64::min);
    let zeros = times.iter().filter(|&&time| time == 0.0).count();
    if zeros as f64 > ZEROS * times.len() as f64 {
        return Err(FitError::ManyZeros { index });
    }
    for time in times.iter_mut().filter(|time| **time == 0.0) {
        *time = shortest / 2.0;
    }
    Ok(zeros)
}

/// Whether a queue with such a service can have a steady state.
fn has_mean(spec: &str) -> bool {
    let law = spec.parse().ok().and_then(|spec: Spec| spec.resolve(1.0).ok());
    law.is_some_and(|law| law.mean().is_finite())
}

fn written(text: &str) -> Option<String> {
    let piece = |piece: &str| match piece.parse() {
        Ok(number) => rounded(number, 6).to_string(),
        Err(_) => piece.to_owned(),
    };
    let text = text.split(':').map(piece).collect::<Vec<_>>().join(":");
    text.parse().ok().map(|spec: Spec| spec.to_string())
}

fn in_milliseconds(text: &mut String) {
    if let Ok(spec) = text.parse::<Spec>() {
        *text = spec.in_unit(Unit::Millisecond).to_string();
    }
}

impl Fit {
    fn of(family: &'static str, law: Law, text: Option<&str>, sample: &Sample) -> Self {
        let values = sample.sorted();
        let log_likelihood: f64 = values.iter().map(|&x| law.ln_density(x)).sum();
        // The condition of balanced means removes one free parameter.
        let balanced = text.is_some() && matches!(law, Law::Hyper(_));
        let chosen = law.parameters().len() - usize::from(balanced);
        Self {
            family,
            spec: text.and_then(written),
            law,
            log_likelihood,
            aic: 2.0 * chosen as f64 - 2.0 * log_likelihood,
            ks: kolmogorov_smirnov(&law, values),
        }
    }
}

/// Returns the Kolmogorov–Smirnov distance. The distribution function of the samples jumps at each
/// sample, so both sides of each jump are compared.
fn kolmogorov_smirnov(law: &Law, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let distance = |(i, &x): (usize, &f64)| {
        let cdf = law.cdf(x);
        (cdf - i as f64 / count).max((i + 1) as f64 / count - cdf)
    };
    sorted.iter().enumerate().map(distance).fold(0.0, f64::max)
}

/// The reason why a distribution cannot be fitted. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error("there {}; at least {MIN_SAMPLES} are needed", crate::check::are(*.0, "sample"))]
    TooFew(usize),
    #[error("sample {index} is {value}; samples must be greater than 0 and finite: leave it out")]
    BadSample { index: usize, value: f64 },
    #[error(
        "sample {index} is 0, as is more than one sample in a hundred; measure with a finer \
         clock, or leave them out"
    )]
    ManyZeros { index: usize },
    #[error(
        "sample {index} is {value:e}; give samples from {SMALLEST:e} to {LARGEST:e}, in another \
         unit"
    )]
    BadUnit { index: usize, value: f64 },
    #[error("every sample is {0}, or nearly so; a constant is written det:{0}")]
    NoSpread(f64),
    #[error(
        "the squared coefficient of variation is {}, and a hyper-exponential needs more than 1; \
         use gamma or erlangs", rounded(*.0, 4)
    )]
    TooRegular(f64),
}

/// Rounds a number to this number of significant digits.
fn rounded(number: f64, digits: usize) -> f64 {
    format!("{number:.*e}", digits - 1).parse().unwrap_or(number)
}
