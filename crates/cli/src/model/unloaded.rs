//! `curtail model unloaded`: requests to many shards while nothing queues.

use curtail_dist::Form;
use curtail_queueing::unloaded::HiccupService;
use serde::Serialize;

use super::prediction::{Told, table};
use super::service::Service;
use super::values::unit_words;
use super::{Answer, refused};
use crate::args::Percentiles;
use crate::exit::Stop;

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
pub(super) struct Args {
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

pub(super) fn answer(args: &Args) -> Result<Unloaded, Stop> {
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
        let shards = if self.shards == 1 { "shard" } else { "shards" };
        let jitter = self.jitter.as_ref().map_or(String::new(), |jitter| format!(" + {jitter}"));
        let name = |copies| if copies == 1 { "1 copy".into() } else { format!("{copies} copies") };
        let rows: Vec<(String, &Told)> =
            self.requests.iter().map(|of| (name(of.copies), &of.latency)).collect();
        let rows: Vec<(&str, &Told)> = rows.iter().map(|(name, told)| (&**name, *told)).collect();
        format!(
            "latency of requests to {} {shards} without load, service {}{jitter}\ntimes in {}\n\n{}",
            self.shards,
            self.service,
            unit_words(self.unit),
            table(&rows)
        )
    }
}
