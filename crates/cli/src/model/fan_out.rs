//! `curtail model unloaded` and `fork-join`: requests that wait for the last of many shards, without
//! load and with it.

use curtail_dist::Form;
use curtail_queueing::{HiccupService, fork_join};
use serde::Serialize;

use super::prediction::{Told, table};
use super::service::{Load, Service};
use super::values::{figure, rate_words};
use super::{Answer, refused};
use crate::args::Percentiles;
use crate::digits;
use crate::exit::Stop;
use crate::plot::format::counted;

/// Latency of a request to many shards without load: what fan-out costs, and hedging can win.
///
/// A request asks every shard and takes as long as the slowest. A query's service time is P + J: P is
/// exponential, J a hiccup of constant length with a small probability. With two copies the first
/// answer counts; they share P, and each has a J of its own. There is no queue, so this is the best
/// that hedging can do: the load of the copies costs extra. Exact.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model unloaded --shards 50 --jitter bimodal:0.001:15
      one query in a thousand hiccups for 15 mean service times: what do 50 shards make of it?
  curtail model unloaded --shards 5 --service-time exp:5ms --jitter bimodal:0.003:75ms --copies 1,2,3")]
pub(super) struct UnloadedArgs {
    /// Shards that every request asks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    shards: u32,
    /// P, exponential
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    /// J: bimodal:PROB:VALUE [default: none]
    #[arg(long, value_name = "DIST")]
    jitter: Option<String>,
    /// Copies of each query, each on a replica of its own
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
    /// For each number of copies.
    requests: Vec<Request>,
}

#[derive(Serialize)]
struct Request {
    copies: u32,
    /// The mean has no closed form.
    #[serde(flatten)]
    latency: Told,
}

pub(super) fn unloaded(args: &UnloadedArgs) -> Result<Unloaded, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let service = Service::of_server("--service-time", &args.service)?.exponential(
        "--service-time",
        "the closed form takes exp:MEAN, and hiccups by --jitter bimodal:PROB:VALUE; curtail sim takes any",
    )?;
    let jitter = args.jitter.as_deref().filter(|text| *text != "none");
    let jitter = jitter.map(|text| Service::parse("--jitter", text)).transpose()?;
    let hiccups = hiccups(&service, jitter.as_ref())?;
    let requests = args.copies.iter().map(|&copies| {
        let law = hiccups.all_shards(args.shards, copies).map_err(refused)?;
        let latency = Told::of_law(&law, &percentiles).map_err(refused)?;
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
        return Err(refused(format_args!(
            "--jitter {text} and --service-time {}: give both units or none",
            service.text
        )));
    }
    match jitter.form {
        Form::Bimodal { probability } => {
            Ok(HiccupService { mean, probability, hiccup: jitter.moments.mean / probability })
        }
        Form::Constant if jitter.moments.mean == 0.0 => hiccups(service, None),
        Form::Constant => Ok(HiccupService { mean, probability: 1.0, hiccup: jitter.moments.mean }),
        _ => Err(refused(format_args!(
            "--jitter {text} is not of two values; the closed form takes bimodal:PROB:VALUE, \
             curtail sim takes any"
        ))),
    }
}

impl Answer for Unloaded {
    fn text(&self) -> String {
        let shards = counted(self.shards as usize, "shard", "shards");
        let jitter = self.jitter.as_ref().map_or(String::new(), |jitter| format!(" + {jitter}"));
        let name = |copies| counted(copies as usize, "copy", "copies");
        let rows: Vec<(String, &Told)> =
            self.requests.iter().map(|of| (name(of.copies), &of.latency)).collect();
        format!(
            "latency of requests to {shards} without load, service {}{jitter}\ntimes in {}\n\n{}",
            self.service,
            digits::unit_words(self.unit),
            table(&rows)
        )
    }
}

/// Latency of a request that asks every shard, under load: between two bounds.
///
/// Every request goes to all shards, each with a queue, one server and exponential service, and is
/// done when the last shard is. The queues see the same arrivals, so no closed form is known for more
/// than two shards; but every percentile is between those of shards that never queue, and of shards
/// that are independent. The mean is estimated by Nelson and Tantawi, within 5 % up to 32 shards.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail model fork-join --shards 10 --utilization 0.5
  curtail model fork-join --shards 50 --service-time exp:5ms --arrival-rate 60/s --percentiles 50,99")]
pub(super) struct ForkJoinArgs {
    /// Shards that every request asks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    shards: u32,
    /// The service time of a shard, exponential
    #[arg(long = "service-time", alias = "service", value_name = "DIST", default_value = "exp:1")]
    service: String,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    percentiles: Percentiles,
}

/// What is known of the latency.
#[derive(Serialize)]
pub(super) struct ForkJoin {
    shards: u32,
    service: String,
    unit: &'static str,
    rate_unit: &'static str,
    arrival_rate: f64,
    utilization: f64,
    lower: Told,
    estimate: Told,
    upper: Told,
}

pub(super) fn under_load(args: &ForkJoinArgs) -> Result<ForkJoin, Stop> {
    let percentiles = args.percentiles.checked(None)?;
    let service = Service::of_server("--service-time", &args.service)?.exponential(
        "--service-time",
        "the bounds take exp:MEAN; curtail sim --shards takes any",
    )?;
    let rate = args.load.rate(&service, 1)?;
    let known = fork_join(rate, 1.0 / service.moments.mean, args.shards).map_err(refused)?;
    let told = |tail| Told::tail(tail, &percentiles).map_err(refused);
    Ok(ForkJoin {
        shards: args.shards,
        unit: service.scale.unit(),
        rate_unit: service.scale.rate_unit(),
        arrival_rate: service.scale.rate(rate),
        utilization: known.utilization,
        lower: told(&known.lower)?,
        estimate: told(&known.estimate)?,
        upper: told(&known.upper)?,
        service: service.text,
    })
}

impl Answer for ForkJoin {
    fn text(&self) -> String {
        format!(
            "fork-join over {} of M/M/1: arrival rate {}, service {}, utilization {}\n\
             times in {}\n\n{}",
            counted(self.shards as usize, "shard", "shards"),
            rate_words(self.arrival_rate, self.rate_unit),
            self.service,
            figure(self.utilization),
            digits::unit_words(self.unit),
            table(&[
                ("at least", &self.lower),
                ("estimate", &self.estimate),
                ("at most", &self.upper)
            ])
        )
    }
}
