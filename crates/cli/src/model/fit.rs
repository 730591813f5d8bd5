//! `curtail model fit`: fits distributions to samples.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use curtail_dist::read_samples;
use curtail_queueing::fit::{By, FitError, Report};
use curtail_sim::UNIT_NS;
use serde::Serialize;

use super::rows::this;
use super::values::figure;
use super::{ModelResult, refused};
use crate::digits;
use crate::exit::Stop;
use crate::table::row;

/// Rank the distributions that fit measured times, and print each in the form that --service-time
/// accepts.
///
/// Each line of the file contains one time, and `#` starts a comment. Either all times have a unit
/// (5ms), or none do. If a few times are 0 because the clock is coarse, each of them is replaced by
/// half the shortest nonzero time. AIC weighs the likelihood of every sample against the number of
/// parameters. KS is the largest distance between the distribution functions, which occurs in the
/// body of the distribution. Neither is sensitive to the far tail, where samples are few. To keep
/// the measured tail, use the samples themselves as the distribution: --service-time file:PATH.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fit service-times.txt
  curtail model fit service-times.txt --by ks --json
  curtail sim --service-time \"$(curtail model fit service-times.txt --json | jq -r .best)\"")]
pub(super) struct Args {
    /// File with the times
    file: PathBuf,
    /// Criterion to rank fits by
    #[arg(long, default_value = "aic")]
    by: Criterion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Criterion {
    /// Akaike information criterion
    Aic,
    /// Kolmogorov–Smirnov distance
    Ks,
}

/// The ranked fits for a file.
#[derive(Serialize)]
pub(super) struct Fits {
    file: PathBuf,
    #[serde(flatten)]
    report: Report,
}

pub(super) fn compute(args: &Args) -> Result<Fits, Stop> {
    let read = read_samples(&args.file, UNIT_NS as f64).map_err(refused)?;
    let times = read.ns.iter().map(|ns| ns / UNIT_NS as f64).collect();
    let by = match args.by {
        Criterion::Aic => By::Aic,
        Criterion::Ks => By::Ks,
    };
    let report = Report::new(times, read.have_units, by).map_err(|error| match error {
        FitError::BadSample { index, .. }
        | FitError::BadUnit { index, .. }
        | FitError::ManyZeros { index } => {
            this(&args.file, read.lines[index], ("sample", index), &error)
        }
        _ => refused(format_args!("{}: {error}", args.file.display())),
    })?;
    Ok(Fits { file: args.file.clone(), report })
}

impl ModelResult for Fits {
    fn text(&self) -> String {
        let Report { samples, mean, scv, unit, fits, refused, zeros, best, .. } = &self.report;
        let mut text = format!(
            "{samples} samples, mean {}, SCV {}; times in {}\n\n",
            figure(*mean),
            figure(*scv),
            digits::unit_words(unit),
        );
        let columns = [-28, 12, 9, 0];
        text += &row(&columns, ["family", "AIC", "KS", "  distribution"]);
        for fit in fits {
            let parameters = || {
                let one = |(name, value): (&str, f64)| format!("{name} {}", figure(value));
                let all: Vec<String> = fit.law.parameters().into_iter().map(one).collect();
                format!("({})", all.join(", "))
            };
            let shown = fit.spec.clone().unwrap_or_else(parameters);
            let (aic, ks) = (format!("{:.1}", fit.aic), format!("{:.4}", fit.ks));
            text += &row(&columns, [fit.family, &aic, &ks, &format!("  {shown}")]);
        }
        for group in refused.chunk_by(|a, b| a.because == b.because) {
            let families: Vec<&str> = group.iter().map(|refused| refused.family).collect();
            let because = group.first().map_or("", |refused| &refused.because);
            let _ = writeln!(text, "\nnot {}: {because}", families.join("; "));
        }
        if *zeros > 0 {
            let _ = writeln!(
                text,
                "\ntimes of 0, counted as half of the shortest positive time: {zeros}"
            );
        }
        if let Some(best) = best {
            let is_first = fits.first().is_some_and(|fit| fit.spec.is_some());
            let of = if is_first { "" } else { " of those that --service-time accepts" };
            let _ = writeln!(text, "\nbest{of}: --service-time {best}");
        }
        text
    }
}
