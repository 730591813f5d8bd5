//! Distributions fitted to samples, and ranked by how well they fit.
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
//! Every [`Fit`] comes with its likelihood, AIC and Kolmogorov–Smirnov distance.
//!
//! Source: document 004, "In Practice: IAT and ST distributions" (Takeaway 4); each family names its
//! own.

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

/// What fits are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The Kolmogorov–Smirnov distance: looks at the body, whatever the number of parameters.
    Ks,
    /// Akaike's criterion: looks at every sample's likelihood, and charges for parameters.
    Aic,
}

/// How distributions fit, as a document.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How many samples there are.
    pub samples: usize,
    /// How many of them are 0, and are taken for half of the shortest other.
    pub zeros: usize,
    /// What times are in: `ms`, or `1` for the samples' own unit.
    pub unit: &'static str,
    /// Of the samples.
    pub mean: f64,
    /// Their squared coefficient of variation.
    pub scv: f64,
    /// What fits are ranked by.
    pub by: By,
    /// The best that can be written as a distribution, and simulated: it has a mean.
    pub best: Option<String>,
    /// The best first; those that fit equally well, the simplest first.
    pub fits: Vec<Fit>,
    /// Families that do not fit.
    pub refused: Vec<Refused>,
}

/// A fitted distribution, and how well it fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The name of the family.
    pub family: &'static str,
    /// As a service is written, with six digits of each number: there is no more in any measurement.
    /// None for families that have no such form, or where a number is outside of what it may be.
    pub spec: Option<String>,
    /// The distribution, in the unit of the samples.
    #[serde(rename = "parameters", serialize_with = "by_name")]
    pub law: Law,
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

/// A family that does not fit.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// Its name.
    pub family: &'static str,
    /// Why not.
    pub because: String,
}

fn by_name<S: Serializer>(law: &Law, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(law.parameters())
}

impl Report {
    /// Fits all families. Times are in milliseconds where they have units, else in the samples' own
    /// unit. Few of them may be 0: a clock rounded them. The mixture of Erlangs dominates the cost.
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
                // A fallback may have led to what is there already.
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

/// The largest part of the times that may be 0.
const ZEROS: f64 = 0.01;

/// Makes times of 0 half as long as the shortest other, and counts them: a clock rounded them, and
/// no distribution to be fitted has them. If they are more than a few, their lengths matter.
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
        // Balanced means leave one number less to choose.
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

/// The distribution function of the samples jumps at each, so both sides count.
fn kolmogorov_smirnov(law: &Law, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let distance = |(i, &x): (usize, &f64)| {
        let cdf = law.cdf(x);
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
         use gamma or erlangs", rounded(*.0, 4)
    )]
    TooRegular(f64),
}

/// A number with so many digits: there is no more in any measurement.
fn rounded(number: f64, digits: usize) -> f64 {
    format!("{number:.*e}", digits - 1).parse().unwrap_or(number)
}
