//! `curtail model variability`: how far the mean service time may rise in exchange for a lower
//! variance.

use std::fmt::Write as _;
use std::path::PathBuf;

use curtail_queueing::models::{Service as Moments, mg1, mg1_break_even};
use curtail_report::chart::frame::Caption;
use curtail_report::chart::heat;
use curtail_report::chart::heat::Map;
use curtail_report::number::{NONE, figure, or_none, three, unit_words};
use curtail_report::page::{Page, escape, figure as figure_of};
use curtail_report::table::Table;
use serde::Serialize;

use super::ModelResult;
use super::input::{Load, Service, rate_words, time_words};
use crate::args::share;
use crate::exit::{Stop, bad};
use crate::out::write_page;

/// Rows of the map: fractions of today's variance.
const VARIANCES: [f64; 7] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5];

/// Columns of the map, spaced by a constant factor. Column 0 is today's mean, and column `EVEN` is
/// the mean that breaks even if the variance is zero.
const COLUMNS: std::ops::RangeInclusive<i32> = -3..=4;
const EVEN: i32 = 3;

/// A latency within this factor of today's latency counts as equal to it, to allow for rounding.
const AS_FAST: f64 = 1.0 + 1e-9;

/// How much slower a service may become on average, if it varies less: the latency of M/G/1 as a
/// function of the mean and the variance of the service time.
///
/// The mean latency (wait and service) depends on both (Pollaczek and Khinchine). A lower variance
/// therefore pays off even if the mean rises, up to the limit in the output. The arrival rate stays
/// the same, so a higher mean service time means a higher utilization. Exact for Poisson arrivals
/// and one server.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model variability --service-time h2:5ms:2 --arrival-rate 100
      without variance, how long may the service take for the same latency?
  curtail model variability --service-time file:services.txt --utilization 0.7 --reduce 0.3 --out map")]
pub(super) struct Args {
    /// Today's service time; only its mean and variance count
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    #[command(flatten)]
    load: Load,
    /// Fractions by which to reduce the variance
    #[arg(
        long,
        value_name = "SHARE,…",
        value_delimiter = ',',
        value_parser = share,
        default_value = "0.25,0.5,0.75,1",
        allow_hyphen_values = true
    )]
    reduce: Vec<f64>,
    /// Write the map to variability.html in this directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
}

/// The answer: how far the mean service time may rise in exchange for a lower variance.
#[derive(Serialize)]
pub(super) struct Variability {
    service: String,
    mean_service: f64,
    service_scv: f64,
    variance: f64,
    unit: &'static str,
    rate_unit: &'static str,
    arrival_rate: f64,
    utilization: f64,
    mean_sojourn: f64,
    break_even: Vec<Even>,
    heat_map: Grid,
}

/// The mean service time that breaks even at a reduced variance.
#[derive(Serialize)]
struct Even {
    reduction: f64,
    variance: f64,
    mean_service: f64,
    /// Relative increase of this mean over today's mean.
    rise: f64,
    utilization: f64,
}

/// Mean sojourn as a function of the mean and the variance of the service time.
#[derive(Serialize)]
struct Grid {
    mean_service: Vec<f64>,
    variance: Vec<f64>,
    /// One row per variance; `None` if the queue grows without bound.
    mean_sojourn: Vec<Vec<Option<f64>>>,
    /// The mean that breaks even at each variance; `None` if no mean is low enough.
    break_even: Vec<Option<f64>>,
}

pub(super) fn compute(args: &Args) -> Result<Variability, Stop> {
    let service = Service::of_server("--service-time", &args.service)?;
    let rate = args.load.rate(&service, 1)?;
    let bad = |error| bad!("--service-time {}: {error}", args.service);
    let Moments { mean, scv } = service.moments;
    let today = mg1(rate, service.moments).map_err(|error| bad(error.to_string()))?;
    if scv == 0.0 {
        return Err(bad(
            "its variance is 0, so there is none to remove; give one that varies".into()
        ));
    }
    let variance = scv * mean * mean;
    let even = |variance| mg1_break_even(rate, service.moments, variance).map_err(Stop::bad);
    let break_even = args.reduce.iter().map(|&reduction| {
        let variance = variance * (1.0 - reduction);
        let longest = even(variance)?;
        let (rise, utilization) = (longest / mean - 1.0, longest * rate);
        Ok(Even { reduction, variance, mean_service: longest, rise, utilization })
    });
    let step = (even(0.0)? / mean).powf(f64::from(EVEN).recip());
    let means: Vec<f64> = COLUMNS.map(|column| mean * step.powi(column)).collect();
    let variances = VARIANCES.map(|share| share * variance);
    let sojourn = |mean: f64, variance: f64| {
        let moments = Moments { mean, scv: variance / mean / mean };
        mg1(rate, moments).ok().map(|queue| queue.sojourn.mean())
    };
    let row = |&variance: &f64| means.iter().map(|&mean| sojourn(mean, variance)).collect();
    let of = Variability {
        mean_service: mean,
        service_scv: scv,
        variance,
        unit: service.scale.unit(),
        rate_unit: service.scale.rate_unit(),
        arrival_rate: service.scale.rate(rate),
        utilization: today.utilization,
        mean_sojourn: today.sojourn.mean(),
        break_even: break_even.collect::<Result<_, Stop>>()?,
        heat_map: Grid {
            mean_sojourn: variances.iter().map(row).collect(),
            break_even: variances.iter().map(|&at| even(at).ok()).collect(),
            variance: variances.to_vec(),
            mean_service: means,
        },
        service: service.text,
    };
    if let Some(out) = &args.out {
        write_page(out, "variability.html", &page(&of), "the map")?;
    }
    Ok(of)
}

impl Variability {
    /// Returns `, ms` and `, ms²`, or empty strings if times have no unit.
    fn units(&self) -> [&'static str; 2] {
        if self.unit == "1" { ["", ""] } else { [", ms", ", ms²"] }
    }

    /// A sentence that states today's latency, and the mean that breaks even if the variance is
    /// zero.
    fn headline(&self) -> String {
        let longest = self.heat_map.break_even.first().copied().flatten();
        format!(
            "A service without variance may take {} on average, instead of {}, for the same mean \
             latency of {}.",
            time_words(longest.unwrap_or(self.mean_service), self.unit),
            time_words(self.mean_service, self.unit),
            time_words(self.mean_sojourn, self.unit)
        )
    }
}

impl ModelResult for Variability {
    fn text(&self) -> String {
        let percent = |share: f64| format!("{} %", figure(share * 100.0));
        let mut text = format!(
            "M/G/1: arrival rate {}, service {} (mean {}, SCV {}), utilization {}\n\
             times in {}; mean sojourn {}: exact\n\n",
            rate_words(self.arrival_rate, self.rate_unit),
            self.service,
            figure(self.mean_service),
            figure(self.service_scv),
            figure(self.utilization),
            unit_words(self.unit),
            figure(self.mean_sojourn),
        );
        let mut table = Table::new(["less variance", "break-even mean", "longer", "utilization"]);
        for even in &self.break_even {
            let cells = [figure(even.mean_service), percent(even.rise), figure(even.utilization)];
            table.row(std::iter::once(percent(even.reduction)).chain(cells));
        }
        text += &table.bare();
        text += "\nmean sojourn by variance (rows) and mean (columns) of the service; *: at most \
                 today's\n";
        let mut table = Table::new([""; 9]);
        let Grid { mean_service, variance, mean_sojourn, .. } = &self.heat_map;
        let cell = |sojourn: &Option<f64>| {
            let pays = sojourn.is_some_and(|sojourn| sojourn <= self.mean_sojourn * AS_FAST);
            or_none(*sojourn, figure) + if pays { "*" } else { " " }
        };
        for (variance, sojourns) in variance.iter().zip(mean_sojourn).rev() {
            let name = std::iter::once(figure(*variance));
            table.row(name.chain(sojourns.iter().map(cell)));
        }
        let means = mean_service.iter().map(|mean| figure(*mean) + " ");
        table.row(std::iter::once(String::new()).chain(means));
        text += &table.bare();
        if mean_sojourn.iter().flatten().any(Option::is_none) {
            let _ = writeln!(text, "\n{NONE}: the queue grows without end");
        }
        text
    }
}

fn page(of: &Variability) -> String {
    let Grid { mean_service, variance, mean_sojourn, break_even } = &of.heat_map;
    let [unit, square] = of.units();
    let last = mean_service.len().saturating_sub(1);
    let width = mean_service.last().map_or(1.0, |most| (most / mean_service[0]).ln());
    let column = |mean: f64| (mean / mean_service[0]).ln() / width * last as f64;
    let on_map = |column: &f64| (-0.5..=last as f64 + 0.5).contains(column);
    let even = break_even.iter().enumerate();
    let point =
        |(row, mean): (usize, &Option<f64>)| Some((mean.map(column).filter(on_map)?, row as f64));
    let line: Vec<(f64, f64)> = even.filter_map(point).collect();
    let map = |size| {
        let title = "Mean latency by mean and variance of the service";
        Some(heat::draw(&Map {
            caption: Caption::new("map", size, title, of.headline()),
            name: &format!("Mean latency{unit}, by the variance of the service{square}"),
            x: (&format!("Mean service{unit}"), mean_service),
            y: ("variance", variance),
            values: mean_sojourn,
            word: &three,
            shade: &|sojourn| 1.0 - sojourn / of.mean_sojourn,
            unknown: "endless",
            line: &line,
            size,
        }))
    };
    let caption = format!(
        "M/G/1 at {}, {}. Line: as fast as today. Blue: faster; orange: slower; gray: the queue grows \
         without end.",
        rate_words(of.arrival_rate, of.rate_unit),
        escape(&of.service)
    );
    Page {
        verb: "model",
        title: "What variance costs",
        headline: &escape(&of.headline()),
        more: "",
        main: &figure_of(&[], &caption, map),
    }
    .render()
}
