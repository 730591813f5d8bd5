//! `curtail model curve`: fits a curve of latency against load to measurements.

use std::fmt::Write as _;
use std::path::PathBuf;

use curtail_dist::{MAX_SAMPLE_NS, Time};
use curtail_queueing::curve::{CurveError, LatencyCurve, Point};
use curtail_sim::UNIT_NS;
use serde::Serialize;

use super::rows::{self, malformed, this};
use super::values::{OneUnit, figure, time, time_words};
use super::{ModelResult, refused};
use crate::exit::Stop;
use crate::table::row;

/// The format of the file's rows.
const FORM: &str = "LOAD LATENCY";

/// Fit a curve of latency against load to measurements, to find the capacity and the highest load
/// that meets a latency objective.
///
/// Fits base + gain/(1 - load/capacity) by least squares. Each line of the file contains a load and
/// a latency, separated by a comma or white space. At least four different loads are needed, and
/// the latency must be clearly higher at the highest load than at low loads. `#` starts a comment,
/// and a header line is skipped. The latency is a mean or a percentile, with or without a time
/// unit. The load is in requests per second, or any other quantity with a capacity.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  printf '%s\\n' '100 6ms' '200 7.2ms' '300 10ms' '400 18ms' '450 33ms' > measured.txt
  curtail model curve measured.txt --slo 20ms
      what is the highest load with 20 ms?")]
pub(super) struct Args {
    /// File with the measurements
    file: PathBuf,
    /// Latency objective: also print the highest load that meets it
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    slo: Option<Time>,
}

/// The fitted curve.
#[derive(Serialize)]
pub(super) struct Curve {
    unit: &'static str,
    #[serde(flatten)]
    curve: LatencyCurve,
    /// The latency without load.
    idle: f64,
    r_squared: f64,
    slo: Option<Slo>,
    points: Vec<Measured>,
}

#[derive(Serialize)]
struct Slo {
    latency: f64,
    /// `None` if even an idle system exceeds the objective.
    highest_load: Option<f64>,
    /// Whether the load is within the measured range.
    within_measurements: bool,
}

#[derive(Serialize)]
struct Measured {
    load: f64,
    latency: f64,
    fitted: f64,
}

pub(super) fn compute(args: &Args) -> Result<Curve, Stop> {
    let file = &args.file;
    let mut unit = OneUnit::default();
    let rows = rows::read(file, FORM, |fields| match fields {
        [load, latency] => Ok(Point { load: load_of(load)?, latency: unit.read(latency)? }),
        _ => Err(malformed(fields, FORM, "100 6ms")),
    })?;
    let slo = args.slo.map(|slo| slo_of(slo, &mut unit)).transpose()?;
    let points: Vec<Point> = rows.iter().map(|row| row.value).collect();
    let fit = LatencyCurve::fit(&points).map_err(|error| match error {
        CurveError::BadPoint { index, .. } => {
            this(file, rows[index].line, ("point", index), &error)
        }
        _ => refused(format_args!("{}: {error}", file.display())),
    })?;
    let top = points.iter().map(|point| point.load).fold(0.0, f64::max);
    let slo = slo.map(|latency| {
        let highest_load = fit.curve.highest_load(latency);
        Slo { latency, highest_load, within_measurements: highest_load.is_some_and(|x| x <= top) }
    });
    let measured = |(&Point { load, latency }, residual): (&Point, &f64)| Measured {
        load,
        latency,
        fitted: latency - residual,
    };
    Ok(Curve {
        unit: unit.scale().unit(),
        curve: fit.curve,
        idle: fit.curve.base + fit.curve.gain,
        r_squared: fit.r_squared,
        slo,
        points: points.iter().zip(&fit.residuals).map(measured).collect(),
    })
}

fn load_of(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a load; write a number such as 500"))
}

fn slo_of(slo: Time, unit: &mut OneUnit) -> Result<f64, Stop> {
    let bad = |why: &str| refused(format_args!("--slo {slo}: {why}"));
    if !(slo.number > 0.0 && slo.ns(UNIT_NS as f64) <= MAX_SAMPLE_NS) {
        return Err(bad("give a time above 0, and below 292 years"));
    }
    unit.take(slo)
        .map_err(|_| bad("give it a unit if the file's latencies have units, and none otherwise"))
}

impl ModelResult for Curve {
    fn text(&self) -> String {
        let shown = |time| time_words(time, self.unit);
        let LatencyCurve { base, gain, capacity } = self.curve;
        let mut text = format!(
            "latency = {} + {} / (1 - load/{}), R² {:.4}\nat no load {}, capacity {}\n",
            figure(base),
            figure(gain),
            figure(capacity),
            self.r_squared,
            shown(self.idle),
            figure(capacity)
        );
        match &self.slo {
            Some(Slo { latency, highest_load: Some(load), within_measurements }) => {
                let (latency, load) = (shown(*latency), figure(*load));
                let beyond =
                    if *within_measurements { "" } else { "; this is beyond the measured loads" };
                let _ = writeln!(text, "{latency} up to load {load}{beyond}");
            }
            Some(Slo { latency, .. }) => {
                let _ = writeln!(
                    text,
                    "{} at no load: even an idle system takes longer",
                    shown(*latency)
                );
            }
            None => {}
        }
        let columns = [12, 14, 14];
        text = text + "\n" + &row(&columns, ["load", "measured", "fitted"]);
        for Measured { load, latency, fitted } in &self.points {
            text += &row(&columns, [*load, *latency, *fitted].map(figure));
        }
        text
    }
}
