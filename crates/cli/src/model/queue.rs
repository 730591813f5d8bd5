//! `curtail model queue`: predicts wait and latency at one station.

use std::fmt::Write as _;

use curtail_dist::Form;
use curtail_queueing::ModelError;
use curtail_queueing::models::Hyper;
use serde::Serialize;

use super::pick::{Model, Station, Why};
use super::prediction::Predicted;
use super::service::{Load, Service};
use super::values::{figure, rate_words, scv};
use super::{ModelResult, refused};
use crate::args::Percentiles;
use crate::digits;
use crate::exit::Stop;
use crate::verdict::Typed;

/// Width of the longest bar, in columns.
const WIDTH: f64 = 50.0;

/// Utilizations to plot, which are denser where the latency rises steeply.
const UTILIZATIONS: [f64; 11] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95];

/// How long queries wait at a station with one first-come, first-served queue and k equal servers.
///
/// The sojourn is the latency: wait plus service. By default the most exact model that fits is
/// used. M/M/1, M/M/k, M/D/1, M/H2/1 and H2/H2/1 give exact means and percentiles, and M/G/1 gives
/// exact means. All other models are approximate.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model queue --service-time exp:5ms --arrival-rate 160
      what is the latency of 160 queries per second that take 5 ms each on average?
  curtail model queue --service-time exp:5ms --arrival-rate 640/s --servers 4
      the same load per server, but one queue in front of four of them
  curtail model queue --service-time h2:1:4 --utilization 0.8
      what does a variable service cost? Compare with exp:1 and det:1
  curtail model queue --service-time gamma:1:0.5 --utilization 0.8 --arrival-scv 4
      what do bursts cost? SCV is variance/mean² of the gaps; 1 for Poisson arrivals
  curtail model queue --gaps file:gaps.txt --service-time file:services.txt --model h2h21
      from measurements: two phases are fitted to the three moments of each
  curtail model queue --utilization 0.8 --plot")]
pub(super) struct Args {
    /// Service time
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    #[command(flatten)]
    load: Load,
    /// Number of servers behind the queue
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    servers: u32,
    /// Squared coefficient of variation of the gaps between arrivals [default: Poisson arrivals]
    #[arg(long, value_name = "SCV", value_parser = scv, conflicts_with = "gaps")]
    arrival_scv: Option<f64>,
    /// Distribution of the gaps between arrivals, instead of a rate
    #[arg(long, value_name = "DIST", group = "Load")]
    gaps: Option<String>,
    /// Model to use
    #[arg(long, value_name = "MODEL", default_value = "auto")]
    model: Model,
    #[command(flatten)]
    percentiles: Percentiles,
    /// Plot the sojourn at utilizations from 0.1 to 0.95
    #[arg(long)]
    plot: bool,
}

/// The prediction, and its inputs.
#[derive(Serialize)]
pub(super) struct Queue {
    because: Typed<Why>,
    service: String,
    mean_service: f64,
    service_scv: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gaps: Option<String>,
    /// Squared coefficient of variation of the gaps.
    arrival_scv: f64,
    /// The phases of the gaps and of the service times in H2/H2/1, with rates in `rate_unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Phases>,
    servers: u32,
    unit: &'static str,
    rate_unit: &'static str,
    #[serde(flatten)]
    predicted: Predicted,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<Curve>,
}

#[derive(Serialize)]
struct Phases {
    gaps: Hyper,
    service: Hyper,
}

/// Sojourn as a function of utilization.
#[derive(Serialize)]
struct Curve {
    /// The percentile that `tail` reports.
    percentile: Option<f64>,
    points: Vec<Point>,
}

/// Sojourn at a utilization.
#[derive(Debug, Serialize)]
struct Point {
    utilization: f64,
    mean: f64,
    /// The highest requested percentile, if the model has percentiles.
    tail: Option<f64>,
}

pub(super) fn compute(args: &Args) -> Result<Queue, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let service = Service::of_server("--service-time", &args.service)?;
    let gaps = args.gaps.as_ref().map(|text| service.gaps(text)).transpose()?;
    let rate = match &gaps {
        Some(gaps) => 1.0 / gaps.moments.mean,
        None => args.load.rate(&service, args.servers)?,
    };
    let of_gaps = gaps.as_ref().filter(|gaps| gaps.form != Form::Exponential);
    let station = Station {
        service: &service,
        servers: args.servers,
        arrival_scv: of_gaps.map(|gaps| gaps.moments.scv).or(args.arrival_scv),
        gaps: gaps.as_ref(),
    };
    let (model, because) = station.pick(args.model)?;
    let prediction = station.predict(model, rate).map_err(|error| match (error, &gaps) {
        (error @ ModelError::InfiniteMoment(_), Some(gaps)) if gaps.moments.scv.is_infinite() => {
            refused(format_args!("--gaps {}: {error}", gaps.text))
        }
        (error @ ModelError::InfiniteMoment(_), _) => {
            refused(format_args!("--service-time {}: {error}", args.service))
        }
        (error, _) => refused(error),
    })?;
    let phases = (model == Model::H2h21).then(|| phases(&station, rate)).transpose()?;
    let curve = args.plot.then(|| curve(&station, model, &percentiles)).transpose()?;
    Ok(Queue {
        because,
        mean_service: service.moments.mean,
        service_scv: service.moments.scv,
        arrival_scv: station.arrival_scv.unwrap_or(1.0),
        phases,
        gaps: args.gaps.clone(),
        servers: args.servers,
        unit: service.scale.unit(),
        rate_unit: service.scale.rate_unit(),
        predicted: Predicted::new(&prediction, service.scale, &percentiles)?,
        curve,
        service: service.text,
    })
}

fn phases(station: &Station<'_>, rate: f64) -> Result<Phases, Stop> {
    let scale = station.service.scale;
    let rates = |of: Hyper| Hyper { rates: of.rates.map(|rate| scale.rate(rate)), ..of };
    let [gaps, service] = station.hypers(rate).map_err(refused)?.map(rates);
    Ok(Phases { gaps, service })
}

fn curve(station: &Station<'_>, model: Model, percentiles: &[f64]) -> Result<Curve, Stop> {
    let percentile = percentiles.iter().copied().max_by(f64::total_cmp);
    let point = |&utilization: &f64| {
        let rate = utilization * f64::from(station.servers) / station.service.moments.mean;
        let sojourn = station.predict(model, rate)?.sojourn;
        let tail = percentile.filter(|_| sojourn.law().is_some());
        let tail = tail.map(|p| sojourn.quantile(p / 100.0)).transpose()?;
        Ok(Point { utilization, mean: sojourn.mean(), tail })
    };
    let points = UTILIZATIONS.iter().map(point).collect::<Result<_, _>>();
    let points = points.map_err(|error: ModelError| refused(error))?;
    Ok(Curve { percentile, points })
}

impl Queue {
    fn gaps_words(&self) -> String {
        let scv = figure(self.arrival_scv);
        self.gaps.as_ref().map_or_else(String::new, |gaps| format!(", gaps {gaps} (SCV {scv})"))
    }
}

impl ModelResult for Queue {
    fn text(&self) -> String {
        let Predicted { model, arrival_rate, utilization, .. } = self.predicted;
        let mut text = format!(
            "{model}: {}\n\
             arrival rate {}{}, service {} (mean {}, SCV {}), utilization {}\n\
             times in {}\n\n{}",
            self.because.text,
            rate_words(arrival_rate, self.rate_unit),
            self.gaps_words(),
            self.service,
            figure(self.mean_service),
            figure(self.service_scv),
            figure(utilization),
            digits::unit_words(self.unit),
            self.predicted.text(),
        );
        if let Some(phases) = &self.phases {
            for (what, of) in [("gaps", phases.gaps), ("service", phases.service)] {
                let words = |share: f64, rate| {
                    format!(
                        "{} % at rate {}",
                        figure(share * 100.0),
                        rate_words(rate, self.rate_unit)
                    )
                };
                let [one, two] = of.rates;
                let (one, two) = (words(of.probability, one), words(1.0 - of.probability, two));
                let _ = writeln!(text, "{what}: {one}, {two}");
            }
        }
        if let Some(Curve { percentile, points }) = &self.curve {
            text += &bars(points, *percentile);
        }
        text
    }
}

/// Draws one bar per point: solid up to the mean, lighter up to the percentile.
fn bars(points: &[Point], percentile: Option<f64>) -> String {
    let reach = |point: &Point| point.tail.unwrap_or(point.mean).max(point.mean);
    let longest = points.iter().map(reach).fold(0.0, f64::max);
    let has_tail = points.iter().any(|point| point.tail.is_some());
    let percentile = percentile.filter(|_| has_tail);
    let tail = percentile.map_or(String::new(), |p| format!(", ░ up to p{p}"));
    let mut text = format!("\nsojourn over utilization: █ up to the mean{tail}\n");
    for point in points {
        let columns = |time: f64| (time / longest * WIDTH).round() as usize;
        let (mean, all) = (columns(point.mean), columns(reach(point)));
        let bar = "█".repeat(mean) + &"░".repeat(all.saturating_sub(mean));
        let value = figure(point.mean);
        let tail = point.tail.map_or(String::new(), |tail| format!(" – {}", figure(tail)));
        let _ = writeln!(text, "{:>5} {bar} {value}{tail}", point.utilization);
    }
    text
}
