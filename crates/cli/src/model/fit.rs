//! `curtail model fit`: distributions that samples may have come from.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use curtail_dist::read_samples;
use curtail_queueing::fit::{By, FitError, Report};
use curtail_sim::UNIT_NS;
use serde::Serialize;

use super::rows::{at, this};
use super::values::{figure, unit_words};
use super::{Answer, refused};
use crate::exit::Stop;

/// Which distribution fits measured times, ranked, each as --service takes it.
///
/// The file has one time per line, all with a unit (5ms) or none; `#` starts a comment. A few times of 0,
/// which a clock has rounded, count as half of the shortest other. By AIC every
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Criterion {
    /// Akaike's information criterion
    Aic,
    /// The Kolmogorov–Smirnov distance
    Ks,
}

/// How distributions fit the times of a file.
#[derive(Serialize)]
pub(super) struct Fits {
    file: PathBuf,
    /// How many times were 0, and are taken for half of the shortest other.
    zeros: usize,
    #[serde(flatten)]
    report: Report,
}

pub(super) fn answer(args: &Args) -> Result<Fits, Stop> {
    let read = read_samples(&args.file, UNIT_NS as f64).map_err(refused)?;
    let mut times: Vec<f64> = read.ns.iter().map(|ns| ns / UNIT_NS as f64).collect();
    let zeros = lift(&mut times).map_err(|first| {
        let why = "more than one time in a hundred is 0, from this one on; measure by a finer \
                   clock, or leave them out";
        at(&args.file, read.lines[first], why)
    })?;
    let by = match args.by {
        Criterion::Aic => By::Aic,
        Criterion::Ks => By::Ks,
    };
    let report = Report::new(&times, read.have_units, by).map_err(|error| match error {
        FitError::BadSample { index, .. } | FitError::BadUnit { index, .. } => {
            this(&args.file, read.lines[index], ("sample", index), &error)
        }
        _ => refused(format_args!("{}: {error}", args.file.display())),
    })?;
    Ok(Fits { file: args.file.clone(), zeros, report })
}

/// The largest part of the times that may be 0.
const ZEROS: f64 = 0.01;

/// Makes times of 0 half as long as the shortest other, and counts them: a clock rounded them, and
/// no distribution to be fitted has them. If they are more than a few, their lengths matter: then
/// it fails with the first.
fn lift(times: &mut [f64]) -> Result<usize, usize> {
    let Some(first) = times.iter().position(|&time| time == 0.0) else { return Ok(0) };
    let shortest = times.iter().copied().filter(|&time| time > 0.0).fold(f64::INFINITY, f64::min);
    let zeros = times.iter().filter(|&&time| time == 0.0).count();
    if zeros as f64 > ZEROS * times.len() as f64 {
        return Err(first);
    }
    for time in times.iter_mut().filter(|time| **time == 0.0) {
        *time = shortest / 2.0;
    }
    Ok(zeros)
}

impl Answer for Fits {
    fn text(&self) -> String {
        let mut text = format!(
            "{} samples, mean {}, SCV {}; times in {}\n\n{:<28}{:>12}{:>9}  {}\n",
            self.report.samples,
            figure(self.report.mean),
            figure(self.report.scv),
            unit_words(self.report.unit),
            "family",
            "AIC",
            "KS",
            "distribution"
        );
        for fit in &self.report.fits {
            let parameters = || {
                let one = |(name, value): &(&str, f64)| format!("{name} {}", figure(*value));
                let all: Vec<String> = fit.parameters.iter().map(one).collect();
                format!("({})", all.join(", "))
            };
            let shown = fit.spec.clone().unwrap_or_else(parameters);
            let _ = writeln!(text, "{:<28}{:>12.1}{:>9.4}  {shown}", fit.family, fit.aic, fit.ks);
        }
        for group in self.report.refused.chunk_by(|a, b| a.because == b.because) {
            let families: Vec<&str> = group.iter().map(|refused| refused.family).collect();
            let because = group.first().map_or("", |refused| &refused.because);
            let _ = writeln!(text, "\nnot {}: {because}", families.join("; "));
        }
        if self.zeros > 0 {
            let _ = writeln!(
                text,
                "\ntimes of 0, taken for half of the shortest other: {}",
                self.zeros
            );
        }
        if let Some(best) = &self.report.best {
            let _ = writeln!(text, "\nbest: --service {best}");
        }
        text
    }
}
