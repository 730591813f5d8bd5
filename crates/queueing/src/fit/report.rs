//! All fits to samples as a document: ranked, each as it is written everywhere.

use curtail_dist::Spec;
use curtail_kernel::duration::Unit;
use serde::{Serialize, Serializer};

use super::{By, Family, Fit, FitError, Parameters, Sample, best_fit};

/// How distributions fit.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How many there are.
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
    /// The best first.
    pub fits: Vec<Fitted>,
    /// Families that do not fit.
    pub refused: Vec<Refused>,
}

/// A family that fits.
#[derive(Clone, Debug, Serialize)]
pub struct Fitted {
    /// Its name.
    pub family: &'static str,
    /// As a service is written; none for families that have no such form.
    pub spec: Option<String>,
    /// By their names; times and rates are in the unit of the samples.
    #[serde(serialize_with = "by_name")]
    pub parameters: Vec<(&'static str, f64)>,
    /// As in [`Fit`].
    pub log_likelihood: f64,
    /// As in [`Fit`].
    pub aic: f64,
    /// As in [`Fit`].
    pub ks: f64,
}

/// A family that does not.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// Its name.
    pub family: &'static str,
    /// Why not.
    pub because: String,
}

fn by_name<S: Serializer>(
    parameters: &[(&'static str, f64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(parameters.iter().copied())
}

impl Report {
    /// Fits all families. Times are in milliseconds where they have units, else in the samples' own
    /// unit. Few of them may be 0: a clock rounded them.
    pub fn new(mut times: Vec<f64>, have_units: bool, by: By) -> Result<Self, FitError> {
        let zeros = lift(&mut times)?;
        let sample = Sample::new(&times)?;
        let ranking = best_fit(&sample, by);
        let fits: Vec<Fitted> =
            ranking.fits.iter().map(|(family, fit)| fitted(*family, fit, have_units)).collect();
        let constant = sample.sorted().first() == sample.sorted().last();
        let best = if constant {
            spec(&format!("det:{}", sample.mean()), have_units)
        } else {
            ranking.best_with_spec().and_then(|fit| written(fit, have_units))
        };
        let why = |(family, error): &(Family, FitError)| Refused {
            family: name(*family),
            because: error.to_string(),
        };
        Ok(Self {
            samples: times.len(),
            zeros,
            unit: if have_units { "ms" } else { "1" },
            mean: sample.mean(),
            scv: sample.scv(),
            by,
            best,
            fits,
            refused: ranking.refused.iter().map(why).collect(),
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

fn name(family: Family) -> &'static str {
    match family {
        Family::Exponential => "exponential",
        Family::LogNormal => "log-normal",
        Family::Gamma => "gamma",
        Family::Weibull => "Weibull",
        Family::Pareto => "Pareto",
        Family::HyperBalanced => "hyper-exponential, balanced",
        Family::Hyper => "hyper-exponential",
        Family::Erlangs => "mixture of Erlangs",
    }
}

fn fitted(family: Family, fit: &Fit, have_units: bool) -> Fitted {
    Fitted {
        family: name(family),
        spec: written(fit, have_units),
        parameters: parameters(fit.parameters),
        log_likelihood: fit.log_likelihood,
        aic: fit.aic,
        ks: fit.ks,
    }
}

fn written(fit: &Fit, have_units: bool) -> Option<String> {
    fit.spec.as_ref().and_then(|text| spec(&text.to_string(), have_units))
}

/// By their names; times and rates are in the unit of the samples.
fn parameters(of: Parameters) -> Vec<(&'static str, f64)> {
    let mixture = |probability, [one, two]: [f64; 2]| {
        [("probability", probability), ("rate_1", one), ("rate_2", two)]
    };
    match of {
        Parameters::Exponential(law) => vec![("mean", law.mean)],
        Parameters::LogNormal(law) => {
            vec![("location", law.location), ("deviation", law.deviation)]
        }
        Parameters::Gamma(law) => vec![("shape", law.shape), ("scale", law.scale)],
        Parameters::Weibull(law) => vec![("shape", law.shape), ("scale", law.scale)],
        Parameters::Pareto(law) => vec![("alpha", law.alpha), ("min", law.min)],
        Parameters::HyperBalanced(law) | Parameters::Hyper(law) => {
            mixture(law.probability, law.rates).to_vec()
        }
        Parameters::Erlangs(law) => {
            let order = [("order", f64::from(law.order))];
            order.into_iter().chain(mixture(law.probability, law.rates)).collect()
        }
    }
}

/// A distribution to paste, with the unit of the samples and six digits of each number: there is
/// no more in any measurement.
fn spec(text: &str, have_units: bool) -> Option<String> {
    let rounded: Vec<String> = text.split(':').map(rounded).collect();
    let spec: Spec = rounded.join(":").parse().ok()?;
    Some(if have_units { spec.in_unit(Unit::Millisecond).to_string() } else { spec.to_string() })
}

fn rounded(piece: &str) -> String {
    let number = piece.parse::<f64>().ok().and_then(|x| format!("{x:.5e}").parse::<f64>().ok());
    number.map_or_else(|| piece.to_owned(), |x| x.to_string())
}
