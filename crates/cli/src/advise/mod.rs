//! `curtail advise`: computes whether hedging would help.

mod question;
mod slots;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use curtail_load::Target;
use curtail_proxy::config;
use curtail_sim::advise::{Advice, Document, WORTH};
use curtail_sim::{PERCENTILES, UtilizationOf, advise, allowed};
use question::Asked;
use serde::Serialize;

use crate::args::{Effort, Json, Seed, ServiceTimes, TrustArgs, share, within};
use crate::exit::{Stop, Typed, bad, lacking};
use crate::sim::args::utilization_of;
use crate::sim::length;
use crate::{run, say};

/// Find out whether hedging would help a replicated service, by how much, with which policy, and up
/// to what load.
///
/// The command simulates the policies at the given load, and then simulates the best of them at all
/// loads. This takes a few seconds. Two yardsticks show what is possible. The policy Idealized
/// Hedge knows the future, and in the bound O1 hiccups cost nothing. The verdict may be no; the
/// exit code is 0 in either case.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("times").required(true).args(["service_time", "samples"])))]
#[command(group(clap::ArgGroup::new("load").required(true).args(["utilization", "rate"])))]
#[command(mut_arg("cacert", |arg| arg.requires("slots_of").help_heading(SERVICE)))]
#[command(mut_arg("insecure", |arg| arg.requires("slots_of").help_heading(SERVICE)))]
#[command(after_help = "\
Examples:
  curtail advise --shards 5 --utilization 0.35 --service-time exp:5ms --jitter bimodal:0.003:75ms
  curtail advise --shards 20 --utilization 0.3 --samples service-times.txt --json
  curtail advise --samples out/jitter --rate 350 --replicas-at 127.0.0.1:9001,127.0.0.1:9002 \\
                 --out hedged

Samples are service times without queueing, one per line, as 5.1ms or 5.1. Samples well beyond the
others count as hiccups. A directory of curtail jitter has repeated times of the same queries, so
hiccups need not be guessed.")]
pub(crate) struct Args {
    /// Number of shards that every request queries
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "replicas_at", value_parser = within(&allowed::SHARDS), help_heading = SERVICE)]
    shards: u32,
    /// Number of replicas of each shard
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "replicas_at", value_parser = within(&allowed::REPLICAS), help_heading = SERVICE)]
    replicas: u32,
    /// Number of queries that a replica serves at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(&allowed::SLOTS), help_heading = SERVICE)]
    slots: u32,
    /// Measure the slots: send load to the replica at this URL over 1, 2, 4 … connections, until
    /// its throughput stops growing; takes a few seconds, or longer if a query takes more than 20
    /// ms
    #[arg(long, value_name = "URL", value_parser = slots::replica, conflicts_with = "slots", help_heading = SERVICE)]
    slots_of: Option<Target>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    times: ServiceTimes,
    /// File with service times, one per line, instead of --service-time and --jitter; or a
    /// directory written by curtail jitter
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "jitter", help_heading = SERVICE)]
    samples: Option<PathBuf>,
    /// What a replica does with a cancelled query: none (it continues) or reset (it stops)
    #[arg(long, value_name = "HOW", default_value = "none", help_heading = SERVICE)]
    cancel: question::Cancel,
    /// Addresses of a shard's replicas, for the configuration; repeat for each shard
    #[arg(long, value_name = "ADDRESS,…", help_heading = SERVICE)]
    replicas_at: Vec<String>,
    /// Utilization of the replicas, a fraction
    #[arg(long, value_name = "U", help_heading = LOAD)]
    utilization: Option<f64>,
    /// Requests per second, instead of --utilization
    #[arg(short, long, value_name = "N", help_heading = LOAD)]
    rate: Option<f64>,
    /// Definition of the utilization: mean (λ·P̄, without jitter) or total (λ·S̄)
    #[arg(long, value_name = "WHAT", value_parser = utilization_of, default_value = "mean", help_heading = LOAD)]
    utilization_of: UtilizationOf,
    /// Arrival process: poisson, constant, mmpp:…, on-off:…, trace:PATH
    #[arg(long, value_name = "PROCESS", default_value = "poisson", help_heading = LOAD)]
    arrivals: String,
    #[command(flatten)]
    seed: Seed,
    #[command(flatten)]
    effort: Effort,
    /// Simulate this share of what a person is willing to wait for
    #[arg(long, hide = true, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    simulate: f64,
    /// Write the proxy's configuration to this directory, as proxy.toml
    #[arg(long, value_name = "DIR", requires = "replicas_at", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Write the configuration to this file (kept for scripts that were written for earlier
    /// versions)
    #[arg(long, hide = true, requires = "replicas_at", conflicts_with = "out")]
    write_config: Option<PathBuf>,
    /// Overwrite an existing configuration
    #[arg(long, help_heading = "Output")]
    force: bool,
    #[command(flatten)]
    output: Json,
}

const SERVICE: &str = "Service";
const LOAD: &str = "Load";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    may_be_written(args)?;
    let find = |target| slots::find(target, &args.trust);
    let found = args.slots_of.as_ref().map(find).transpose()?;
    let slots = found.as_ref().map(|found| found.slots);
    let Asked { experiment, resampled, samples, replicas_at } =
        question::asked(args, slots.unwrap_or(args.slots))?;
    let question = advise::Question {
        experiment: &experiment,
        cancel: args.cancel == question::Cancel::Reset,
        effort: args.simulate,
        resampled: &resampled,
        replicas_at: &replicas_at,
    };
    let threads = args.effort.threads();
    let requests = advise::total(&question);
    let speed = if question.cancel { length::STOPPED } else { length::HEDGED };
    let queries = requests as f64 * f64::from(args.shards);
    args.effort.check(queries, speed * threads as f64, "shards")?;
    let bar = run::bar("simulating", requests);
    let answered =
        run::watched(&bar, |watch| advise::advise(&question, &watch.plan(threads, &PERCENTILES)))?;
    let advice = answered.map_err(|error| question::bad(args.rate, error))?;
    let Some(advice) = advice else {
        return Err(Stop::Interrupted("before the advice was complete"));
    };
    let written = write(args, &advice.config);
    let output =
        Output { verdict: verdict(&advice), slots, document: Document { advice, samples } };
    say::answer(args.output.json, &output, || {
        let Document { advice, samples } = &output.document;
        let slots = found.map(|found| found.to_string());
        words::answer(advice, samples.as_ref(), slots.as_deref(), say::width())
    })?;
    written?;
    Ok(ExitCode::SUCCESS)
}

/// The JSON document of `--json`.
#[derive(Serialize)]
struct Output {
    verdict: Typed<Verdict>,
    /// The measured number of slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u32>,
    #[serde(flatten)]
    document: Document,
}

/// Whether hedging pays, and if not, why not.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Verdict {
    Pays {
        policy: String,
        p99_gain: Option<f64>,
    },
    /// There is too little data to decide.
    CannotBeTold {
        policy: String,
        p99_gain: Option<f64>,
        p99_gain_ci95: Option<[f64; 2]>,
    },
    /// The copies of a query all take the same time.
    NoJitter,
    /// Even if hiccups cost nothing, p99 would hardly improve.
    LittleToGain {
        p99_bound: Option<f64>,
    },
    /// Second copies cost as much latency as they save.
    CostsWhatItGains {
        policy: String,
        p99_gain: Option<f64>,
        p99_bound: Option<f64>,
    },
}

/// A remark if the utilization includes the jitter.
fn counted(advice: &Advice) -> &'static str {
    if advice.utilization_of == UtilizationOf::Total { " with the jitter" } else { "" }
}

fn verdict(advice: &Advice) -> Typed<Verdict> {
    let (p99_gain, p99_bound) = (advice.gain.p99, advice.bound.p99);
    let policy = advice.hedging_policy.clone();
    let of = match p99_bound {
        _ if !advice.settled => {
            Verdict::CannotBeTold { policy, p99_gain, p99_gain_ci95: advice.gain_ci95.p99 }
        }
        _ if advice.hedge => Verdict::Pays { policy, p99_gain },
        _ if advice.hiccups.lesser_of_two.is_none() => Verdict::NoJitter,
        Some(bound) if bound < WORTH => Verdict::LittleToGain { p99_bound },
        _ => Verdict::CostsWhatItGains { policy, p99_gain, p99_bound },
    };
    Typed::new(of, &*advice.because)
}

/// Returns the path of the configuration, and the flag that sets it.
fn path(args: &Args) -> Option<(PathBuf, &'static str)> {
    match (&args.out, &args.write_config) {
        (Some(folder), _) => Some((folder.join("proxy.toml"), "--out")),
        (None, file) => Some((file.clone()?, "--write-config")),
    }
}

/// Checks that the file does not exist, unless it may be overwritten. Called first, so that a bad
/// path does not waste minutes of work.
fn may_be_written(args: &Args) -> Result<(), Stop> {
    match path(args) {
        Some((path, flag)) if path.symlink_metadata().is_ok() && !args.force => Err(bad!(
            "{flag} {}: it exists already; give another one, or --force to overwrite it",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// Writes the configuration, and checks it as the proxy does.
fn write(args: &Args, text: &str) -> Result<(), Stop> {
    let Some((path, flag)) = path(args) else { return Ok(()) };
    let shown = path.display();
    let made = args.out.as_ref().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(&path, text))
        .map_err(|error| lacking!("cannot write {shown}: {error}; give another {flag}"))?;
    config::load(&path).map_err(|errors| Stop::BadConfig(errors.to_string()))?;
    say::aside(format_args!("configuration: {shown}"));
    Ok(())
}
