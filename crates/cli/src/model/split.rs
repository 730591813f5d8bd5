//! `curtail model split`: splits a stream over servers of different speeds.

use std::fmt::Write as _;

use curtail_queueing::optimal_split;
use serde::Serialize;

use super::values::{Rate, Scale, figure, rate_words, time_words};
use super::{ModelResult, refused};
use crate::exit::Stop;
use crate::plot::format::counted;
use crate::table::row;

/// How to split a stream over unequal servers, each with its own queue.
///
/// Weights proportional to speed are not optimal. The mean sojourn is lowest if the spare capacity
/// of the servers is proportional to the square root of their speeds. Fast servers then get more
/// than their proportional share, and at low load slow servers get no queries at all. Exact for
/// Poisson arrivals and exponential service (M/M/1), and for processor sharing.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model split --arrival-rate 8 --rates 10,5,1
  curtail model split --arrival-rate 800/s --rates 1000/s,500/s,100/s")]
pub(super) struct Args {
    /// Number of queries per unit of time, or a rate with a unit, such as 100/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    arrival_rate: Rate,
    /// Service rate of each server, in the same unit
    #[arg(
        long,
        value_name = "RATE,…",
        value_delimiter = ',',
        required = true,
        allow_hyphen_values = true
    )]
    rates: Vec<Rate>,
}

/// A split.
#[derive(Serialize)]
pub(super) struct Split {
    arrival_rate: f64,
    unit: &'static str,
    rate_unit: &'static str,
    /// Utilization of all servers together.
    utilization: f64,
    optimal: Way,
    proportional: Way,
    servers: Vec<Server>,
}

#[derive(Serialize)]
struct Way {
    mean_sojourn: f64,
}

#[derive(Serialize)]
struct Server {
    service_rate: f64,
    optimal: Part,
    proportional: Part,
}

/// A server's part of the stream.
#[derive(Serialize)]
struct Part {
    rate: f64,
    /// Fraction of the stream.
    share: f64,
    utilization: f64,
}

pub(super) fn compute(args: &Args) -> Result<Split, Stop> {
    let has_unit = args.arrival_rate.has_unit();
    if args.rates.iter().any(|rate| rate.has_unit() != has_unit) {
        let why = "--arrival-rate and --rates: give all a unit, such as 100/s, or none".to_owned();
        return Err(Stop::BadInput(why));
    }
    let scale = Scale::of(has_unit);
    let arrival_rate = args.arrival_rate.of_model(scale, "--arrival-rate")?;
    let rates = args.rates.iter().map(|rate| rate.of_model(scale, "--rates"));
    let rates = rates.collect::<Result<Vec<f64>, _>>()?;
    let split = optimal_split(arrival_rate, &rates).map_err(refused)?;
    let utilization = arrival_rate / rates.iter().sum::<f64>();
    let part = |sent: f64, rate: f64| Part {
        rate: scale.rate(sent),
        share: sent / arrival_rate,
        utilization: sent / rate,
    };
    let server = |(&rate, &sent): (&f64, &f64)| Server {
        service_rate: scale.rate(rate),
        optimal: part(sent, rate),
        proportional: part(rate * utilization, rate),
    };
    Ok(Split {
        arrival_rate: scale.rate(arrival_rate),
        unit: scale.unit(),
        rate_unit: scale.rate_unit(),
        utilization,
        optimal: Way { mean_sojourn: split.mean_sojourn },
        proportional: Way { mean_sojourn: split.proportional },
        servers: rates.iter().zip(&split.rates).map(server).collect(),
    })
}

impl ModelResult for Split {
    fn text(&self) -> String {
        let servers = counted(self.servers.len(), "server", "servers");
        let mut text = format!(
            "{} over {servers}, utilization {}\n\n",
            rate_words(self.arrival_rate, self.rate_unit),
            figure(self.utilization)
        );
        let columns = [14, 14, 8, 8, 16, 8, 8];
        let heads = ["service rate", "optimal", "share", "busy", "proportional", "share", "busy"];
        text += &row(&columns, heads);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        for Server { service_rate, optimal, proportional } in &self.servers {
            let part = |of: &Part| [figure(of.rate), percent(of.share), percent(of.utilization)];
            let cells = [part(optimal), part(proportional)].concat();
            text += &row(&columns, std::iter::once(figure(*service_rate)).chain(cells));
        }
        let [optimal, proportional] =
            [&self.optimal, &self.proportional].map(|way| time_words(way.mean_sojourn, self.unit));
        let _ = writeln!(text, "\nmean sojourn {optimal} optimal, {proportional} proportional");
        text
    }
}
