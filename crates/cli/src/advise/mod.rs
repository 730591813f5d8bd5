//! `curtail advise`: would hedging help?

mod config;
mod picture;
mod question;
mod words;

use std::ops::RangeInclusive;
use std::process::ExitCode;

use curtail_sim::advise::{self, Document};
use curtail_sim::{PERCENTILES, Plan, UtilizationOf, allowed};

use crate::exit::Stop;
use crate::sim::{args, length, work};
use crate::{progress, say};
use question::Asked;

const THREADS: RangeInclusive<u32> = 1..=1024;

/// Say whether hedging would help a replicated service: by how much, with which policy, up to which
/// load.
///
/// It simulates the policies at the load at hand, and the best of them over all loads, in some
/// seconds. Two yardsticks tell what is possible at all: Idealized Hedge, which knows the future,
/// and the bound O1, a world whose hiccups cost nothing. The answer may be no; the exit code is 0
/// all the same.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("times").required(true).args(["service", "samples"])))]
#[command(group(clap::ArgGroup::new("load").required(true).args(["utilization", "rate"])))]
#[command(after_help = "\
Examples:
  curtail advise --shards 5 --utilization 0.35 --service exp:5ms --jitter bimodal:0.003:75ms
  curtail advise --shards 20 --utilization 0.3 --samples service-times.txt --json
  curtail advise --samples out/jitter --rate 350 --replicas-at 127.0.0.1:9001,127.0.0.1:9002 \\
                 --write-config proxy.toml

Samples are service times without queueing, one per line, as 5.1ms or 5.1. Hiccups are found in
them where they are well beyond the other samples. A folder of curtail jitter has times of the same
queries, repeated, so that nothing need be guessed.")]
pub(crate) struct Args {
    /// Shards that every request asks
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "replicas_at", value_parser = args::within(&allowed::SHARDS))]
    shards: u32,
    /// Replicas of each shard
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "replicas_at", value_parser = args::within(&allowed::REPLICAS))]
    replicas: u32,
    /// Queries that a replica serves at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = args::within(&allowed::SLOTS))]
    slots: u32,
    /// The utilization of the replicas, a fraction
    #[arg(long, value_name = "U")]
    utilization: Option<f64>,
    /// Requests per second, in place of --utilization
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Of what: mean (λ·P̄, without jitter) or total (λ·S̄)
    #[arg(long, value_name = "WHAT", value_parser = args::utilization_of, default_value = "mean")]
    utilization_of: UtilizationOf,
    /// P, a query's own service time, the same for all of its copies
    #[arg(long, value_name = "DIST")]
    service: Option<String>,
    /// J, what each copy adds: hiccups, as bimodal:0.001:15 [default: none]
    #[arg(long, value_name = "DIST", conflicts_with = "samples")]
    jitter: Option<String>,
    /// Service times, one per line, in place of --service and --jitter; or a folder of curtail jitter
    #[arg(long, value_name = "FILE|DIR")]
    samples: Option<std::path::PathBuf>,
    /// Arrivals: poisson, constant, mmpp:…, on-off:…, trace:PATH
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    arrivals: String,
    /// What a replica does with a query that is given up: none (it goes on) or reset (it stops)
    #[arg(long, value_name = "HOW", default_value = "none")]
    cancel: question::Cancel,
    /// The addresses of a shard's replicas, for the configuration; once per shard
    #[arg(long, value_name = "ADDRESS,…")]
    replicas_at: Vec<String>,
    /// Write the configuration of the proxy to a file
    #[arg(long, value_name = "FILE", requires = "replicas_at")]
    write_config: Option<std::path::PathBuf>,
    /// Overwrite that file
    #[arg(long, requires = "write_config")]
    force: bool,
    /// Decides every draw
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Threads; the answer does not depend on them [default: all cores]
    #[arg(long, value_name = "N", value_parser = args::within(&THREADS))]
    threads: Option<u32>,
    /// Go on although it takes more than an hour
    #[arg(long)]
    yes: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let Asked { experiment, resampled, samples, replicas_at } = question::asked(args)?;
    config::may_be_written(args)?;
    let question = advise::Question {
        experiment: &experiment,
        cancel: args.cancel == question::Cancel::Reset,
        effort: 1.0,
        resampled: &resampled,
        replicas_at: &replicas_at,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads =
        args.threads.map_or(cores, |threads| threads as usize).min(*THREADS.end() as usize);
    let requests = advise::total(&question);
    if !args.yes {
        let speed = if question.cancel { length::STOPPED } else { length::HEDGED };
        let queries = requests as f64 * f64::from(args.shards);
        length::check_length(queries, speed * threads as f64, "shards")?;
    }
    let bar = progress::bar("simulating");
    bar.set_length(requests);
    let answered = work::watched(&bar, |watch| {
        let plan = Plan {
            threads,
            percentiles: &PERCENTILES,
            progress: &watch.progress,
            stop: &watch.stop,
        };
        advise::advise(&question, &plan)
    })?;
    let advice = answered.map_err(|error| question::bad(args.rate, error))?;
    let Some(advice) = advice else {
        return Err(Stop::Interrupted("before there was an answer"));
    };
    let written = config::write(args, &advice.config);
    if args.json {
        say::result(crate::json(&Document { advice, samples })?)?;
    } else {
        say::result(words::answer(&advice, samples.as_ref(), progress::width()))?;
    }
    written?;
    Ok(ExitCode::SUCCESS)
}
