//! Measures the effect of memcached and Apache httpd knobs on latency (document 004, part 2). Some
//! of the knobs are those that the analysis of variability suggests, and the others do not help.
//!
//! `cases.toml` contains the cases, each with a server, a load, and the difference between the two
//! sides. One runner handles both servers, because they differ only in how they are started.
//! Latencies are the client's (`curtail-load`, open loop). The published figures come from 6 cores
//! and up to 300,000 requests per second, so only signs and intervals are comparable here.

mod profile;
mod requests;
mod rounds;
mod server;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use curtail_stats::Ratio;

use requests::Pool;
use rounds::{Case, Effort, Outcome, cases, take};

/// Measure memcached and httpd before and after turning a knob, and print the published change and
/// our change.
#[derive(Parser)]
#[command(name = "curtail-stages")]
struct Args {
    /// Names of cases; all by default
    cases: Vec<String>,
    /// Use the sizes and gaps of one of Facebook's pools
    #[arg(long)]
    pool: Option<Pool>,
    /// Requests per second, instead of the case's rate
    #[arg(long)]
    rate: Option<f64>,
    /// Number of undisturbed rounds (two turns during which the hypervisor took no time). At most
    /// three times this number of rounds are run
    #[arg(long, default_value = "80")]
    rounds: NonZeroUsize,
    /// Length of a turn in seconds. Short turns usually contain no hiccups of the machine
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Take a tenth of the rounds
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Also profile both sides with this program. `build` builds it first
    #[arg(long, value_name = "CURTAIL")]
    curtail: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let curtail = match args.curtail.as_deref() {
        Some(path) if path == Path::new("build") => Some(profile::build()?),
        path => path.map(Path::to_owned),
    };
    let rounds = if args.quick { 8 } else { args.rounds.get() };
    let effort = Effort { rounds, seconds: args.seconds, curtail: curtail.as_deref() };
    let mut outcomes = Vec::new();
    for mut case in chosen(args)? {
        case.traffic.pool = args.pool.unwrap_or(case.traffic.pool);
        if let Some(rate) = args.rate {
            (case.client.rate, case.client.of_capacity) = (rate, None);
        }
        outcomes.push(take(case, effort)?);
        if !args.json {
            print(outcomes.last().expect("one was pushed"));
        }
    }
    if args.json {
        println!("{}", serde_json::to_string(&outcomes)?);
    }
    Ok(())
}

fn chosen(args: &Args) -> Result<Vec<Case>> {
    let mut cases = cases()?;
    let known: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    for name in &args.cases {
        ensure!(known.contains(name), "there is no case {name}; use one of {}", known.join(", "));
    }
    cases.retain(|case| args.cases.is_empty() || args.cases.contains(&case.name));
    Ok(cases)
}

fn print(outcome: &Outcome) {
    let Outcome { name, knob, pool, rate, published, medians, .. } = outcome;
    println!("{name}: {knob} ({pool:?} at {rate} requests/s)");
    let change = |of: Ratio| {
        let [value, low, high] = [of.value, of.low, of.high].map(|ratio| (ratio - 1.0) * 100.0);
        format!("{value:+.0} % ({low:+.0} to {high:+.0})")
    };
    for (what, [least, most], ours) in
        [("mean", published.mean, outcome.mean), ("p99", published.p99, outcome.p99)]
    {
        println!("  {what:<5} published {least:+} to {most:+} %, ours {}", change(ours));
    }
    println!("  p50   ours {}, p95 {}", change(outcome.p50), change(outcome.p95));
    for (side, turn) in ["before", "after"].iter().zip(medians) {
        let figures: Vec<_> =
            turn.iter().map(|(name, figure)| format!("{name} {figure:.3}")).collect();
        println!("  {side:<7} {}", figures.join(", "));
    }
}
