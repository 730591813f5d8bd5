//! `curtail soak`: a proxy in front of real leaves that are killed, paused and turned into black
//! holes, under clients that go away. Hidden: `cargo xtask soak` runs it.
//!
//! It passes when every request whose client stayed was answered, every slot is free in the end, and
//! the proxy's memory is flat.

mod chaos;
mod clients;
mod memory;
mod scene;

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;
use chaos::Chaos;
use clients::Counts;
use memory::Memory;
use scene::Scene;

/// Put the proxy under faults, and see what is lost.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For how long
    #[arg(long, default_value_t = 1.0, value_name = "N", allow_negative_numbers = true)]
    minutes: f64,
    /// The proxy's policy
    #[arg(long, default_value = "laedge", value_parser = crate::root::policy)]
    policy: curtail_kernel::Policy,
    /// Requests per second; by default the leaves are about a quarter busy
    #[arg(long, default_value_t = 600.0, value_name = "N", allow_negative_numbers = true)]
    rate: f64,
    /// Decides what happens when
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Serialize)]
struct Outcome {
    passed: bool,
    policy: String,
    minutes: f64,
    requests: Counts,
    faults: chaos::Faults,
    /// What is not idle in the end.
    leaked: Option<String>,
    memory: Memory,
    replay: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if !(args.minutes > 0.0 && args.minutes <= 10_000.0) {
        let text = format!("--minutes {:?}: give a number above 0, up to 10000", args.minutes);
        return Err(Stop::BadInput(text));
    }
    if !(args.rate > 0.0 && args.rate <= 100_000.0) {
        let text = format!("--rate {:?}: give a number above 0, up to 100000", args.rate);
        return Err(Stop::BadInput(text));
    }
    let outcome = crate::runtime()?.block_on(soak(args))?;
    if args.json {
        say::result(crate::json(&outcome)?)?;
    } else {
        say::result(told(&outcome))?;
    }
    Ok(if outcome.passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn soak(args: &Args) -> Result<Outcome, Stop> {
    let mut signals =
        Termination::listen().map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
    // Dropping the work kills every process that it started.
    tokio::select! {
        outcome = faults(args) => outcome,
        () = signals.next() => Err(Stop::Interrupted("before the end of the soak")),
    }
}

async fn faults(args: &Args) -> Result<Outcome, Stop> {
    let mut scene = Scene::start(args.policy, args.seed).await?;
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    let end = Instant::now() + length;
    let clients = clients::start(&scene, args.rate, args.seed, end);
    let mut memory = Memory::watch(scene.proxy_process());
    let mut chaos = Chaos::new(args.seed);
    let bar = progress::bar("soaking");
    bar.set_length(length.as_secs());
    while Instant::now() < end {
        sleep_until((Instant::now() + chaos.pause()).min(end)).await;
        chaos.strike(&mut scene).await?;
        memory.sample(length.saturating_sub(end.saturating_duration_since(Instant::now())), length);
        bar.set_position((length - end.saturating_duration_since(Instant::now())).as_secs());
        bar.set_message(format!("{} faults", chaos.faults().total()));
    }
    bar.finish_and_clear();
    chaos.mend(&mut scene).await?;
    let requests = clients.finish().await;
    let leaked = scene.settle().await;
    memory.finish();
    let flat = memory.is_flat();
    Ok(Outcome {
        passed: requests.unanswered == 0 && requests.answered > 0 && leaked.is_none() && flat,
        policy: args.policy.to_string(),
        minutes: args.minutes,
        requests,
        faults: chaos.faults(),
        leaked,
        memory,
        replay: format!(
            "curtail soak --minutes {} --policy {} --rate {} --seed {}",
            args.minutes, args.policy, args.rate, args.seed
        ),
    })
}

fn told(outcome: &Outcome) -> String {
    let Outcome { requests, faults, memory, .. } = outcome;
    let rest = match &outcome.leaked {
        None => "every slot is free, nothing waits".to_owned(),
        Some(leaked) => format!("NOT all idle: {leaked}"),
    };
    let verdict = if outcome.passed { "passed" } else { "FAILED" };
    format!(
        "{} under {} kills, {} pauses, {} black holes for {} minutes\n\
         {} requests answered ({} of them with an error), {} left by their clients, {} unanswered\n\
         {rest}\n{memory}\n{verdict}; again with: {}",
        outcome.policy,
        faults.kills,
        faults.pauses,
        faults.black_holes,
        outcome.minutes,
        requests.answered,
        requests.errors,
        requests.aborted,
        requests.unanswered,
        outcome.replay
    )
}
