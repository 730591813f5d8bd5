//! `curtail model bottleneck`, `split` and `fluid`: which of several components saturates first, how to
//! split a stream over servers of different speeds, and how queues evolve at servers that several
//! clients share.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use curtail_queueing::bottleneck::{BottleneckError, Component, Demand, bottleneck as saturation};
use curtail_queueing::fluid::{Evolution, Fluid};
use curtail_queueing::optimal_split;
use curtail_report::number::{counted, figure, unit_words};
use curtail_report::table::Table;
use serde::Serialize;

use super::ModelResult;
use super::input::{OneUnit, Rate, Scale, malformed, rate_words, read, time_words};
use crate::exit::{Stop, bad};

/// The format of the file's rows.
const FORM: &str = "NAME,VISITS,SERVICE,SERVERS";

/// Find which component saturates first, and at what throughput, which is the maximum of the whole
/// system.
///
/// A visit takes SERVICE on average,
/// not counting the wait. The component has SERVERS servers. Visits may be fractions: 0.2 if one
/// request in five reaches the component. The results are valid for any distributions.
///
/// Each line of the file describes a component as NAME,VISITS,SERVICE,SERVERS. A header line is
/// skipped, and `#` starts a comment. Either all service times have a unit (5ms), or none do.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  printf '%s\\n' 'web,1,2ms,4' 'cache,3,0.1ms,1' 'disk,0.2,8ms,1' > system.csv
  curtail model bottleneck system.csv --throughput 500/s")]
pub(super) struct BottleneckArgs {
    /// File with the components
    file: PathBuf,
    /// Print utilizations at this throughput: a number of requests per unit of time, or a rate with
    /// a unit, such as 100/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    throughput: Option<Rate>,
}

/// The saturation points of the components.
#[derive(Serialize)]
pub(super) struct Saturation {
    bottleneck: String,
    max_throughput: f64,
    throughput: Option<f64>,
    unit: &'static str,
    rate_unit: &'static str,
    /// Sorted: the bottleneck comes first.
    components: Vec<Bears>,
}

#[derive(Serialize)]
struct Bears {
    /// `max_throughput` is infinite (null in JSON) if requests never use the component.
    #[serde(flatten)]
    demand: Demand,
    /// Utilization at the throughput that was given; above 1 if the component cannot keep up.
    utilization: Option<f64>,
}

pub(super) fn bottleneck(args: &BottleneckArgs) -> Result<Saturation, Stop> {
    let file = &args.file;
    let mut unit = OneUnit::default();
    let components = components(file, &mut unit)?;
    let scale = unit.scale();
    let throughput =
        args.throughput.map(|rate| rate.of_model(scale, "--throughput")).transpose()?;
    let found = saturation(&components).map_err(|error| bad!("{}: {error}", file.display()))?;
    let bears = found.components.into_iter().map(|demand| Bears {
        utilization: throughput.map(|throughput| demand.utilization(throughput)),
        demand: Demand { max_throughput: scale.rate(demand.max_throughput), ..demand },
    });
    let components: Vec<Bears> = bears.collect();
    Ok(Saturation {
        bottleneck: components.first().map_or(String::new(), |of| of.demand.component.name.clone()),
        max_throughput: scale.rate(found.max_throughput),
        throughput: throughput.map(|rate| scale.rate(rate)),
        unit: scale.unit(),
        rate_unit: scale.rate_unit(),
        components,
    })
}

fn components(file: &Path, unit: &mut OneUnit) -> Result<Vec<Component>, Stop> {
    let rows = read(file, FORM, |fields| {
        let &[name, visits, service, servers] = fields else {
            return Err(malformed(fields, FORM, "disk,3,2ms,1"));
        };
        let bad = |what, text, mend| format!("`{text}` is not a number of {what}; write {mend}");
        let component = Component {
            name: checked(name)?,
            visits: visits.parse().map_err(|_| bad("visits", visits, "a number such as 0.5"))?,
            mean_service: unit.read(service)?,
            servers: servers.parse().map_err(|_| bad("servers", servers, "1 or more"))?,
        };
        // Check each component separately, so that a value out of range is reported with its line.
        match saturation(std::slice::from_ref(&component)) {
            Err(error @ BottleneckError::OutOfRange { .. }) => Err(error.to_string()),
            _ => Ok(component),
        }
    })?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}

/// Rejects names that cannot be printed.
fn checked(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("a component has an empty name; name it".to_owned());
    }
    if name.contains(char::is_control) {
        return Err(format!("the name `{name}` has a control character; leave it out"));
    }
    Ok(name.to_owned())
}

impl ModelResult for Saturation {
    fn text(&self) -> String {
        let rate = |rate| rate_words(rate, self.rate_unit);
        let busy = self.throughput.map(|throughput| format!("busy at {}", rate(throughput)));
        let busy = busy.unwrap_or_default();
        let head = ["component", "demand", "servers", "saturates at", &busy];
        let mut table = Table::new(head).with_notes();
        for Bears { demand: Demand { component, demand, max_throughput }, utilization } in
            &self.components
        {
            let never = max_throughput.is_infinite();
            let max = if never { "never".to_owned() } else { rate(*max_throughput) };
            let busy = utilization.map_or(String::new(), |busy| {
                let over = if busy >= 1.0 { ": overload" } else { "" };
                format!("{:.1} %{over}", busy * 100.0)
            });
            let (demand, servers) = (figure(*demand), component.servers.to_string());
            table.row([&component.name, &demand, &servers, &max, &busy]);
        }
        format!(
            "{} saturates first, at {}; times in {}\n\n{}",
            self.bottleneck,
            rate(self.max_throughput),
            unit_words(self.unit),
            table.bare()
        )
    }
}

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
pub(super) struct SplitArgs {
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

pub(super) fn split(args: &SplitArgs) -> Result<Split, Stop> {
    let has_unit = args.arrival_rate.has_unit();
    if args.rates.iter().any(|rate| rate.has_unit() != has_unit) {
        let why = "--arrival-rate and --rates: give all a unit, such as 100/s, or none".to_owned();
        return Err(Stop::BadInput(why));
    }
    let scale = Scale::of(has_unit);
    let arrival_rate = args.arrival_rate.of_model(scale, "--arrival-rate")?;
    let rates = args.rates.iter().map(|rate| rate.of_model(scale, "--rates"));
    let rates = rates.collect::<Result<Vec<f64>, _>>()?;
    let split = optimal_split(arrival_rate, &rates).map_err(Stop::bad)?;
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
        let mut table = Table::new([
            "service rate",
            "optimal",
            "share",
            "busy",
            "proportional",
            "share",
            "busy",
        ]);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        for Server { service_rate, optimal, proportional } in &self.servers {
            let part = |of: &Part| [figure(of.rate), percent(of.share), percent(of.utilization)];
            let cells = [part(optimal), part(proportional)].concat();
            table.row(std::iter::once(figure(*service_rate)).chain(cells));
        }
        let [optimal, proportional] =
            [&self.optimal, &self.proportional].map(|way| time_words(way.mean_sojourn, self.unit));
        format!(
            "{} over {servers}, utilization {}\n\n{}\nmean sojourn {optimal} optimal, \
             {proportional} proportional",
            rate_words(self.arrival_rate, self.rate_unit),
            figure(self.utilization),
            table.bare()
        )
    }
}

/// How queues evolve when clients share servers and rank them as C3 does, in a fluid model without
/// randomness.
///
/// All clients are alike and act in step, which is the worst case for herding. The output is the
/// mean queue of each server, and its range during the second half of the simulated time. An
/// oscillating queue is a sign of herding. To see the effect of randomness, run `curtail sim
/// --servers`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fluid --service 4ms,20ms --network 250us --for 1s
  curtail model fluid --service 4ms,4ms,4ms --network 250us --for 1s --clients 150 --blind")]
pub(super) struct FluidArgs {
    /// Mean service time of each server
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', required = true)]
    service: Vec<String>,
    /// Requests that a server executes at once
    #[arg(long, value_name = "N", default_value = "4")]
    slots: NonZeroU32,
    /// Number of clients
    #[arg(long, value_name = "N", default_value = "30")]
    clients: NonZeroU32,
    /// Load of the clients, as a fraction of the servers' capacity
    #[arg(long, value_name = "FRACTION", default_value = "0.7", value_parser = super::input::utilization)]
    utilization: f64,
    /// One-way latency between client and server
    #[arg(long, value_name = "TIME")]
    network: String,
    /// Length of time to simulate
    #[arg(long = "for", value_name = "TIME")]
    duration: String,
    /// Exponent b of the queue in C3's score, 1 to 8: a higher exponent avoids long queues more
    /// strongly
    #[arg(long, value_name = "B", default_value = "3")]
    score_exponent: u32,
    /// Weight of a new response in a client's moving averages, above 0 and below 1
    #[arg(long, value_name = "WEIGHT", default_value = "0.9")]
    sample_weight: f64,
    /// Clients exclude their own outstanding requests from the score
    #[arg(long)]
    blind: bool,
}

/// The evolution of the queues over time.
#[derive(Serialize)]
pub(super) struct Queues {
    unit: &'static str,
    duration: f64,
    clients: u32,
    servers: Vec<Evolution>,
}

pub(super) fn fluid(args: &FluidArgs) -> Result<Queues, Stop> {
    let mut unit = OneUnit::default();
    let mut time =
        |flag: &str, text: &str| unit.read(text.trim()).map_err(|why| bad!("{flag}: {why}"));
    let services = args.service.iter().map(|text| time("--service", text));
    let model = Fluid {
        services: services.collect::<Result<_, _>>()?,
        slots: args.slots.get(),
        clients: args.clients.get(),
        utilization: args.utilization,
        network: time("--network", &args.network)?,
        exponent: args.score_exponent,
        compensates: !args.blind,
        sample_weight: args.sample_weight,
    };
    let duration = time("--for", &args.duration)?;
    let servers = model.evolve(duration).map_err(Stop::bad)?;
    Ok(Queues { unit: unit.scale().unit(), duration, clients: model.clients, servers })
}

impl ModelResult for Queues {
    fn text(&self) -> String {
        let mut table = Table::new(["service time", "share", "mean queue", "least", "most"]);
        for Evolution { service, share, mean, least, most, .. } in &self.servers {
            let share = format!("{:.1} %", share * 100.0);
            let queues = [*mean, *least, *most].map(|queue| format!("{queue:.1}"));
            table.row([figure(*service), share].into_iter().chain(queues));
        }
        format!(
            "{} and {}; times in {}\n\n{}",
            counted(self.clients as usize, "client", "clients"),
            counted(self.servers.len(), "server", "servers"),
            unit_words(self.unit),
            table.bare()
        )
    }
}
