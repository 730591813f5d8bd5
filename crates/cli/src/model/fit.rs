//! `curtail model fit`: distributions that samples may have come from.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use curtail_dist::{Spec, read_samples};
use curtail_kernel::duration::Unit;
use curtail_queueing::fit::{By, Family, Fit, FitError, Parameters, Sample, best_fit};
use curtail_sim::UNIT_NS;
use serde::{Serialize, Serializer};

use super::rows::at;
use super::values::{Scale, figure, unit_words};
use super::{Answer, refused};
use crate::exit::Stop;

/// Which distribution fits measured times, ranked, each as --service takes it.
///
/// The file has one time per line, all with a unit (5ms) or none; `#` starts a comment. By AIC every
/// sample's likelihood counts, and parameters cost; by KS the largest distance of the distribution
/// functions counts, which is in the body. Neither sees far into the tail, where there are few
/// samples: for the tail as it was measured, use the samples themselves, as --service file:PATH.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fit service-times.txt
  curtail model fit service-times.txt --by ks --json
  curtail sim --service \"$(curtail model fit service-times.txt --json | jq -r .best)\"")]
pub(super) struct Args {
    /// The file of times
    file: PathBuf,
    /// What fits are ranked by
    #[arg(long, default_value = "aic")]
    by: Criterion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Criterion {
    /// Akaike's information criterion
    Aic,
    /// The Kolmogorov–Smirnov distance
    Ks,
}

/// How distributions fit.
#[derive(Serialize)]
pub(super) struct Fits {
    file: PathBuf,
    samples: usize,
    unit: &'static str,
    mean: f64,
    scv: f64,
    by: Criterion,
    /// The best that can be written as a distribution.
    best: Option<String>,
    /// The best first.
    fits: Vec<Fitted>,
    refused: Vec<Refused>,
}

#[derive(Serialize)]
struct Fitted {
    family: &'static str,
    /// As `--service` takes it; none for families that have no such form.
    spec: Option<String>,
    #[serde(serialize_with = "by_name")]
    parameters: Vec<(&'static str, f64)>,
    log_likelihood: f64,
    aic: f64,
    ks: f64,
}

#[derive(Serialize)]
struct Refused {
    family: &'static str,
    because: String,
}

fn by_name<S: Serializer>(
    parameters: &[(&'static str, f64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(parameters.iter().copied())
}

pub(super) fn answer(args: &Args) -> Result<Fits, Stop> {
    let read = read_samples(&args.file, UNIT_NS as f64).map_err(refused)?;
    let times: Vec<f64> = read.ns.iter().map(|ns| ns / UNIT_NS as f64).collect();
    let sample = Sample::new(&times).map_err(|error| match error {
        FitError::BadSample { index, .. } | FitError::BadUnit { index, .. } => {
            at(&args.file, read.lines[index], error)
        }
        _ => refused(format_args!("{}: {error}", args.file.display())),
    })?;
    let scale = Scale::of(read.have_units);
    let by = match args.by {
        Criterion::Aic => By::Aic,
        Criterion::Ks => By::Ks,
    };
    let ranking = best_fit(&sample, by);
    let fits: Vec<Fitted> =
        ranking.fits.iter().map(|(family, fit)| fitted(*family, fit, scale)).collect();
    let constant = sample.sorted().first() == sample.sorted().last();
    let best = if constant {
        spec(&format!("det:{}", sample.mean()), scale)
    } else {
        fits.iter().find_map(|fit| fit.spec.clone())
    };
    let why = |(family, error): &(Family, FitError)| Refused {
        family: name(*family),
        because: error.to_string(),
    };
    Ok(Fits {
        file: args.file.clone(),
        samples: times.len(),
        unit: scale.unit(),
        mean: sample.mean(),
        scv: sample.scv(),
        by: args.by,
        best,
        fits,
        refused: ranking.refused.iter().map(why).collect(),
    })
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

fn fitted(family: Family, fit: &Fit, scale: Scale) -> Fitted {
    Fitted {
        family: name(family),
        spec: fit.spec.as_ref().and_then(|text| spec(&text.to_string(), scale)),
        parameters: parameters(fit.parameters),
        log_likelihood: fit.log_likelihood,
        aic: fit.aic,
        ks: fit.ks,
    }
}

/// By their names in JSON; times and rates are in the unit of the samples.
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
fn spec(text: &str, scale: Scale) -> Option<String> {
    let rounded: Vec<String> = text.split(':').map(rounded).collect();
    let spec: Spec = rounded.join(":").parse().ok()?;
    Some(match scale {
        Scale::Milliseconds => spec.in_unit(Unit::Millisecond).to_string(),
        Scale::Multiples => spec.to_string(),
    })
}

fn rounded(piece: &str) -> String {
    let number = piece.parse::<f64>().ok().and_then(|x| format!("{x:.5e}").parse::<f64>().ok());
    number.map_or_else(|| piece.to_owned(), |x| x.to_string())
}

impl Answer for Fits {
    fn text(&self) -> String {
        let mut text = format!(
            "{} samples, mean {}, SCV {}; times in {}\n\n{:<28}{:>12}{:>9}  {}\n",
            self.samples,
            figure(self.mean),
            figure(self.scv),
            unit_words(self.unit),
            "family",
            "AIC",
            "KS",
            "distribution"
        );
        for fit in &self.fits {
            let parameters = || {
                let one = |(name, value): &(&str, f64)| format!("{name} {}", figure(*value));
                let all: Vec<String> = fit.parameters.iter().map(one).collect();
                format!("({})", all.join(", "))
            };
            let shown = fit.spec.clone().unwrap_or_else(parameters);
            let _ = writeln!(text, "{:<28}{:>12.1}{:>9.4}  {shown}", fit.family, fit.aic, fit.ks);
        }
        for group in self.refused.chunk_by(|a, b| a.because == b.because) {
            let families: Vec<&str> = group.iter().map(|refused| refused.family).collect();
            let because = group.first().map_or("", |refused| &refused.because);
            let _ = writeln!(text, "\nnot {}: {because}", families.join("; "));
        }
        if let Some(best) = &self.best {
            let _ = writeln!(text, "\nbest: --service {best}");
        }
        text
    }
}
