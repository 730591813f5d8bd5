//! `curtail model fit`, `curve` and `log`: distributions fitted to samples, a curve of latency against
//! load fitted to measurements, and rates estimated from a log and checked against a model.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use curtail_dist::{MAX_SAMPLE_NS, Time, read_samples};
use curtail_queueing::curve::{CurveError, LatencyCurve, Point};
use curtail_queueing::estimate::{Estimate, EstimateError, Interval, Record, estimate};
use curtail_queueing::fit::{By, FitError, Report};
use curtail_queueing::models::{gg1, ggk};
use curtail_report::number::{figure, unit_words};
use curtail_report::table::Table;
use curtail_sim::UNIT_NS;
use serde::Serialize;

use super::ModelResult;
use super::input::{OneUnit, Scale, malformed, read, this, time, time_words};
use super::prediction::Predicted;
use crate::args::Percentiles;
use crate::exit::{Stop, bad};

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
pub(super) struct FitArgs {
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

pub(super) fn fit(args: &FitArgs) -> Result<Fits, Stop> {
    let read = read_samples(&args.file, UNIT_NS as f64).map_err(Stop::bad)?;
    let times = read.ns.iter().map(|ns| ns / UNIT_NS as f64).collect();
    let by = match args.by {
        Criterion::Aic => By::Aic,
        Criterion::Ks => By::Ks,
    };
    let report = Report::new(times, read.have_units, by).map_err(|error| match error {
        FitError::BadSample { index, .. }
        | FitError::BadUnit { index, .. }
        | FitError::ManyZeros { index } => this(&args.file, read.lines[index], "sample", &error),
        _ => bad!("{}: {error}", args.file.display()),
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
            unit_words(unit),
        );
        let mut table = Table::new(["family", "AIC", "KS", "distribution"]).with_notes();
        for fit in fits {
            let parameters = || {
                let one = |(name, value): (&str, f64)| format!("{name} {}", figure(value));
                let all: Vec<String> = fit.law.parameters().into_iter().map(one).collect();
                format!("({})", all.join(", "))
            };
            let shown = fit.spec.clone().unwrap_or_else(parameters);
            let (aic, ks) = (format!("{:.1}", fit.aic), format!("{:.4}", fit.ks));
            table.row([fit.family, &aic, &ks, &shown]);
        }
        text += &table.bare();
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

/// The format of the file's rows.
const CURVE: &str = "LOAD LATENCY";

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
pub(super) struct CurveArgs {
    /// File with the measurements
    file: PathBuf,
    /// Latency objective: also print the highest load that meets it
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    slo: Option<Time>,
}

/// The fitted curve.
#[derive(Serialize)]
pub(super) struct CurveFit {
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

pub(super) fn curve(args: &CurveArgs) -> Result<CurveFit, Stop> {
    let file = &args.file;
    let mut unit = OneUnit::default();
    let rows = read(file, CURVE, |fields| match fields {
        [load, latency] => Ok(Point { load: load_of(load)?, latency: unit.read(latency)? }),
        _ => Err(malformed(fields, CURVE, "100 6ms")),
    })?;
    let slo = args.slo.map(|slo| slo_of(slo, &mut unit)).transpose()?;
    let points: Vec<Point> = rows.iter().map(|row| row.value).collect();
    let fit = LatencyCurve::fit(&points).map_err(|error| match error {
        CurveError::BadPoint { index, .. } => this(file, rows[index].line, "point", &error),
        _ => bad!("{}: {error}", file.display()),
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
    Ok(CurveFit {
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
    let bad = |why: &str| bad!("--slo {slo}: {why}");
    if !(slo.number > 0.0 && slo.ns(UNIT_NS as f64) <= MAX_SAMPLE_NS) {
        return Err(bad("give a time above 0, and below 292 years"));
    }
    unit.take(slo)
        .map_err(|_| bad("give it a unit if the file's latencies have units, and none otherwise"))
}

impl ModelResult for CurveFit {
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
        let mut table = Table::new(["load", "measured", "fitted"]);
        for Measured { load, latency, fitted } in &self.points {
            table.row([*load, *latency, *fitted].map(figure));
        }
        text + "\n" + &table.bare()
    }
}

/// The format of the file's rows.
const LOG: &str = "ARRIVAL END or ARRIVAL START END";

/// Estimate arrival rate, service rate and utilization from a log of requests, with confidence
/// intervals.
///
/// The service rate is not the throughput. It is the rate of a server that never idles: the inverse
/// of the mean service time, excluding the waiting time. If the log has start times, a service time
/// is the end time minus the start time. Otherwise start times are computed for K servers with one
/// first-come, first-served queue.
///
/// Each line of the file contains the times of one request since a common origin, separated by
/// commas or white space. Either all times have a unit, or none do. `#` starts a comment, and a
/// header line is skipped. The file must be the complete log of a station. The estimates are passed
/// to a model, so that you can compare its predicted waits with the measured ones. If they agree,
/// use `curtail model queue` to predict other loads.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model log requests.csv --servers 4

Lines of requests.csv may be:
  arrival,start,end
  0ms,0ms,5ms
  2ms,5ms,9ms")]
pub(super) struct LogArgs {
    /// File with the log
    file: PathBuf,
    /// Number of servers of the station
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    servers: u32,
    #[command(flatten)]
    percentiles: Percentiles,
}

/// Estimates from a log, and the prediction of a model.
#[derive(Serialize)]
pub(super) struct Log {
    servers: u32,
    unit: &'static str,
    rate_unit: &'static str,
    /// Whether the log has start times. Otherwise they were computed.
    starts_logged: bool,
    #[serde(flatten)]
    found: Estimate,
    /// A model's prediction; `None` if it has no steady state.
    predicted: Option<Predicted>,
    /// Why there is no prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpredicted: Option<String>,
}

pub(super) fn log(args: &LogArgs) -> Result<Log, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let file = &args.file;
    let mut unit = OneUnit::default();
    let rows = read(file, LOG, |fields| record(fields, &mut unit))?;
    let records: Vec<Record> = rows.iter().map(|row| row.value).collect();
    let found = estimate(&records, args.servers).map_err(|error| match error {
        EstimateError::BadTime(index)
        | EstimateError::MixedStarts(index)
        | EstimateError::OutOfOrder { index, .. }
        | EstimateError::Overtaken { index, .. } => this(file, rows[index].line, "request", &error),
        EstimateError::Overlap { index, .. } => {
            let mended = format!("{error}; give the number of servers with `--servers N`");
            this(file, rows[index].line, "request", &mended)
        }
        _ => bad!("{}: {error}", file.display()),
    })?;
    let starts_logged = records.iter().all(|record| record.start.is_some());
    let (predicted, unpredicted) = match predict(&found, args.servers, unit.scale(), &percentiles) {
        Ok(predicted) => (Some(predicted), None),
        Err(why) => (None, Some(why)),
    };
    let scale = unit.scale();
    let rate = |of: Interval| of.map(|rate| scale.rate(rate));
    Ok(Log {
        servers: args.servers,
        unit: scale.unit(),
        rate_unit: scale.rate_unit(),
        starts_logged,
        found: Estimate {
            arrival_rate: rate(found.arrival_rate),
            service_rate: rate(found.service_rate),
            ..found
        },
        predicted,
        unpredicted,
    })
}

fn record(fields: &[&str], unit: &mut OneUnit) -> Result<Record, String> {
    let mut time = |text: &str| unit.read(text);
    match *fields {
        [arrival, end] => Ok(Record { arrival: time(arrival)?, start: None, end: time(end)? }),
        [arrival, start, end] => {
            Ok(Record { arrival: time(arrival)?, start: Some(time(start)?), end: time(end)? })
        }
        _ => Err(malformed(fields, LOG, "0ms 5ms")),
    }
}

/// Predicts from means and variances, because the distributions are unknown.
fn predict(
    found: &Estimate,
    servers: u32,
    scale: Scale,
    percentiles: &[f64],
) -> Result<Predicted, String> {
    let (arrivals, service) = (found.arrivals(), found.service());
    let prediction = match servers {
        1 => gg1(arrivals, service),
        _ => ggk(arrivals, service, servers),
    };
    let prediction = prediction.map_err(|error| error.to_string())?;
    let prediction = prediction.given_skewness(service, found.service_skewness);
    Predicted::new(&prediction, scale, percentiles).map_err(|_| "it is not finite".to_owned())
}

impl ModelResult for Log {
    fn text(&self) -> String {
        let per = self.rate_unit.strip_prefix('1').unwrap_or_default();
        let starts =
            if self.starts_logged { "logged" } else { "computed for first come, first served" };
        let found = &self.found;
        let mut text = format!(
            "{} requests, servers: {}, starts: {starts}\ntimes in {}\n\n",
            found.requests,
            self.servers,
            unit_words(self.unit),
        );
        let mut table = Table::new(["", "estimate", "95 % interval"]).with_notes();
        for (name, Interval { value, ci95 }) in [
            (format!("arrival rate λ{per}"), found.arrival_rate),
            (format!("service rate μ{per}"), found.service_rate),
            ("mean service".to_owned(), found.mean_service),
            ("utilization ρ".to_owned(), found.utilization),
        ] {
            let [low, high] = ci95.map(figure);
            table.row([name, figure(value), format!("{low} to {high}")]);
        }
        text += &table.bare();
        let [arrivals, service, wait, sojourn] =
            [found.arrival_scv, found.service_scv, found.mean_wait, found.mean_sojourn].map(figure);
        let _ = writeln!(
            text,
            "\nSCV of gaps {arrivals}, of service {service}\n\
             measured: mean wait {wait}, mean sojourn {sojourn}\n"
        );
        match (&self.predicted, &self.unpredicted) {
            (Some(predicted), _) => {
                let _ = write!(text, "{} with these:\n\n{}", predicted.model, predicted.text());
            }
            (None, Some(why)) => {
                let _ = writeln!(text, "no prediction: {why}");
            }
            (None, None) => {}
        }
        text
    }
}
