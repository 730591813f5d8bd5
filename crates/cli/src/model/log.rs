//! `curtail model log`: estimates rates and utilization from a log, and checks a model against it.

use std::fmt::Write as _;
use std::path::PathBuf;

use curtail_queueing::estimate::{Estimate, EstimateError, Interval, Record, estimate};
use curtail_queueing::models::{gg1, ggk};
use serde::Serialize;

use super::prediction::Predicted;
use super::rows::{self, malformed, this};
use super::values::{OneUnit, Scale, figure};
use super::{ModelResult, refused};
use crate::args::Percentiles;
use crate::digits;
use crate::exit::Stop;
use crate::table::row;

/// The format of the file's rows.
const FORM: &str = "ARRIVAL END or ARRIVAL START END";

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
pub(super) struct Args {
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

pub(super) fn compute(args: &Args) -> Result<Log, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let file = &args.file;
    let mut unit = OneUnit::default();
    let rows = rows::read(file, FORM, |fields| record(fields, &mut unit))?;
    let records: Vec<Record> = rows.iter().map(|row| row.value).collect();
    let found = estimate(&records, args.servers).map_err(|error| match error {
        EstimateError::BadTime(index)
        | EstimateError::MixedStarts(index)
        | EstimateError::OutOfOrder { index, .. }
        | EstimateError::Overtaken { index, .. } => {
            this(file, rows[index].line, ("request", index), &error)
        }
        EstimateError::Overlap { index, .. } => {
            let mended = format!("{error}; give the number of servers with `--servers N`");
            this(file, rows[index].line, ("request", index), &mended)
        }
        _ => refused(format_args!("{}: {error}", file.display())),
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
        _ => Err(malformed(fields, FORM, "0ms 5ms")),
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
            digits::unit_words(self.unit),
        );
        let columns = [-20, 10, 0];
        text += &row(&columns, ["", "estimate", "   95 % interval"]);
        for (name, Interval { value, ci95 }) in [
            (format!("arrival rate λ{per}"), found.arrival_rate),
            (format!("service rate μ{per}"), found.service_rate),
            ("mean service".to_owned(), found.mean_service),
            ("utilization ρ".to_owned(), found.utilization),
        ] {
            let [low, high] = ci95.map(figure);
            text += &row(&columns, [name, figure(value), format!("   {low} to {high}")]);
        }
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
