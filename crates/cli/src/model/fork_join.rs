//! `curtail model fork-join`: requests that wait for the last of many queues.

use curtail_queueing::fork_join;
use serde::Serialize;

use super::prediction::{Told, table};
use super::service::{Load, Service};
use super::values::{figure, rate_words, unit_words};
use super::{Answer, refused};
use crate::args::Percentiles;
use crate::exit::Stop;

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
pub(super) struct Args {
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

pub(super) fn answer(args: &Args) -> Result<ForkJoin, Stop> {
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
            if self.shards == 1 { "1 shard".to_owned() } else { format!("{} shards", self.shards) },
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
