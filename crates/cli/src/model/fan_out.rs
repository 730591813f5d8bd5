//! `curtail model unloaded` and `fork-join`: latency of requests that wait for the slowest of many
//! shards, without and with load.

use curtail_dist::Form;
use curtail_queueing::{HiccupService, fork_join};
use curtail_report::number::{counted, figure, unit_words};
use serde::Serialize;

use super::ModelResult;
use super::input::{Load, Service, rate_words};
use super::prediction::{TimeReport, table};
use crate::args::Percentiles;
use crate::exit::{Stop, bad};

/// Latency of a request to many idle shards: the cost of fan-out, and the gain from hedging.
///
/// A request queries every shard and takes as long as the slowest query. A query's service time is
/// P + J: P is exponential, and J is a hiccup of constant length and small probability. If there
/// are two copies, the first response counts; the copies share P, and each has its own J. There is
/// no queue, so this is the best case for hedging, without the cost of the additional load. Exact.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model unloaded --shards 50 --jitter bimodal:0.001:15
      one query in a thousand has a hiccup of 15 mean service times: what is the latency of 50 shards?
  curtail model unloaded --shards 5 --service-time exp:5ms --jitter bimodal:0.003:75ms --copies 1,2,3")]
pub(super) struct UnloadedArgs {
    /// Number of shards that every request queries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    shards: u32,
    /// P, the service time of a query; must be exponential
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    /// J, the hiccups: bimodal:PROB:VALUE [default: none]
    #[arg(long, value_name = "DIST")]
    jitter: Option<String>,
    /// Number of copies of each query, each on its own replica
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    copies: Vec<u32>,
    #[command(flatten)]
    percentiles: Percentiles,
}

/// Latencies without load.
#[derive(Serialize)]
pub(super) struct Unloaded {
    shards: u32,
    service: String,
    jitter: Option<String>,
    unit: &'static str,
    /// One entry per number of copies.
    requests: Vec<Request>,
}

#[derive(Serialize)]
struct Request {
    copies: u32,
    /// The mean is absent, because it has no closed form.
    #[serde(flatten)]
    latency: TimeReport,
}

pub(super) fn unloaded(args: &UnloadedArgs) -> Result<Unloaded, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let service = Service::of_server("--service-time", &args.service)?.exponential(
        "--service-time",
        "the closed form needs exp:MEAN, and hiccups as --jitter bimodal:PROB:VALUE; curtail sim \
         accepts any",
    )?;
    let jitter = args.jitter.as_deref().filter(|text| *text != "none");
    let jitter = jitter.map(|text| Service::parse("--jitter", text)).transpose()?;
    let hiccups = hiccups(&service, jitter.as_ref())?;
    let requests = args.copies.iter().map(|&copies| {
        let law = hiccups.all_shards(args.shards, copies).map_err(Stop::bad)?;
        let latency = TimeReport::of_law(&law, &percentiles).map_err(Stop::bad)?;
        Ok(Request { copies, latency })
    });
    Ok(Unloaded {
        shards: args.shards,
        requests: requests.collect::<Result<_, Stop>>()?,
        unit: service.scale.unit(),
        service: service.text,
        jitter: jitter.map(|jitter| jitter.text),
    })
}

fn hiccups(service: &Service, jitter: Option<&Service>) -> Result<HiccupService, Stop> {
    let mean = service.moments.mean;
    let Some(jitter) = jitter else {
        return Ok(HiccupService { mean, probability: 0.0, hiccup: mean });
    };
    let text = &jitter.text;
    if jitter.scale != service.scale {
        return Err(bad!(
            "--jitter {text} and --service-time {}: give both units or none",
            service.text
        ));
    }
    match jitter.form {
        Form::Bimodal { probability } => {
            Ok(HiccupService { mean, probability, hiccup: jitter.moments.mean / probability })
        }
        Form::Constant if jitter.moments.mean == 0.0 => hiccups(service, None),
        Form::Constant => Ok(HiccupService { mean, probability: 1.0, hiccup: jitter.moments.mean }),
        _ => Err(bad!(
            "--jitter {text} does not have two values; the closed form needs bimodal:PROB:VALUE, \
             curtail sim accepts any"
        )),
    }
}

impl ModelResult for Unloaded {
    fn text(&self) -> String {
        let shards = counted(self.shards as usize, "shard", "shards");
        let jitter = self.jitter.as_ref().map_or(String::new(), |jitter| format!(" + {jitter}"));
        let name = |copies| counted(copies as usize, "copy", "copies");
        let rows: Vec<(String, &TimeReport)> =
            self.requests.iter().map(|of| (name(of.copies), &of.latency)).collect();
        format!(
            "latency of requests to {shards} without load, service {}{jitter}\ntimes in {}\n\n{}",
            self.service,
            unit_words(self.unit),
            table(&rows)
        )
    }
}

/// Bounds on the latency of a request that queries every shard, under load.
///
/// Every request goes to all shards and is done when the last shard is. Each shard has a queue, one
/// server and exponential service times. The queues see the same arrivals, so no closed form is
/// known for more than two shards. Each percentile lies between two bounds: its value if shards
/// never queue, and its value if shards are independent. The mean is estimated by Nelson and
/// Tantawi's formula, whose error is below 5 % for up to 32 shards.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fork-join --shards 10 --utilization 0.5
  curtail model fork-join --shards 50 --service-time exp:5ms --arrival-rate 60/s --percentiles 50,99")]
pub(super) struct ForkJoinArgs {
    /// Number of shards that every request queries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    shards: u32,
    /// Service time of a shard; must be exponential
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    percentiles: Percentiles,
}

/// Bounds and an estimate of the latency.
#[derive(Serialize)]
pub(super) struct ForkJoin {
    shards: u32,
    service: String,
    unit: &'static str,
    rate_unit: &'static str,
    arrival_rate: f64,
    utilization: f64,
    lower: TimeReport,
    estimate: TimeReport,
    upper: TimeReport,
}

pub(super) fn under_load(args: &ForkJoinArgs) -> Result<ForkJoin, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let service = Service::of_server("--service-time", &args.service)?.exponential(
        "--service-time",
        "the bounds need exp:MEAN; curtail sim --shards accepts any",
    )?;
    let rate = args.load.rate(&service, 1)?;
    let known = fork_join(rate, 1.0 / service.moments.mean, args.shards).map_err(Stop::bad)?;
    let report = |tail| TimeReport::tail(tail, &percentiles).map_err(Stop::bad);
    Ok(ForkJoin {
        shards: args.shards,
        unit: service.scale.unit(),
        rate_unit: service.scale.rate_unit(),
        arrival_rate: service.scale.rate(rate),
        utilization: known.utilization,
        lower: report(&known.lower)?,
        estimate: report(&known.estimate)?,
        upper: report(&known.upper)?,
        service: service.text,
    })
}

impl ModelResult for ForkJoin {
    fn text(&self) -> String {
        format!(
            "fork-join over {} of M/M/1: arrival rate {}, service {}, utilization {}\n\
             times in {}\n\n{}",
            counted(self.shards as usize, "shard", "shards"),
            rate_words(self.arrival_rate, self.rate_unit),
            self.service,
            figure(self.utilization),
            unit_words(self.unit),
            table(&[
                ("at least", &self.lower),
                ("estimate", &self.estimate),
                ("at most", &self.upper)
            ])
        )
    }
}
