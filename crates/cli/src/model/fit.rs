//! `curtail model fit`: distributions that samples may have come from.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use curtail_dist::read_samples;
use curtail_queueing::fit::{By, FitError, Report};
use curtail_sim::UNIT_NS;
use serde::Serialize;

use super::rows::this;
use super::values::figure;
use super::{Answer, refused};
use crate::digits;
use crate::exit::Stop;
use crate::table::row;

/// Which distribution fits measured times, ranked, each as --service-time takes it.
///
/// The file has one time per line, all with a unit (5ms) or none; `#` starts a comment. A few times of 0,
/// which a clock has rounded, count as half of the shortest other. By AIC every
/// sample's likelihood counts, and parameters cost; by KS the largest distance of the distribution
/// functions counts, which is in the body. Neither sees far into the tail, where there are few
/// samples: for the tail as it was measured, use the samples themselves, as --service-time file:PATH.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fit service-times.txt
  curtail model fit service-times.txt --by ks --json
  curtail sim --service-time \"$(curtail model fit service-times.txt --json | jq -r .best)\"")]
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
    #[serde(flatten)]
    report: Report,
}

pub(super) fn answer(args: &Args) -> Result<Fits, Stop> {
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

impl Answer for Fits {
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
            let _ = writeln!(text, "\ntimes of 0, taken for half of the shortest other: {zeros}");
        }
        if let Some(best) = best {
            let is_first = fits.first().is_some_and(|fit| fit.spec.is_some());
            let of = if is_first { "" } else { " of those that can be written so" };
            let _ = writeln!(text, "\nbest{of}: --service-time {best}");
        }
        text
    }
}
