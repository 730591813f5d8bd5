//! `curtail soak`: a proxy in front of real leaves that are killed, paused and turned into black
//! holes, under clients that go away. Hidden: `cargo xtask soak` runs it.
//!
//! It passes when every request whose client stayed was answered, next to all of them well, every
//! slot is free in the end, and the proxy's memory is flat; and if there were faults to survive.

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
use chaos::{Chaos, Faults};
use clients::Counts;
use memory::Memory;
use scene::Scene;

/// The share of answers that may be errors: a request may lose both its copies.
const ERRORS_FINE: f64 = 0.01;

/// In a run this long faults strike, whatever is drawn.
const LONG: Duration = Duration::from_secs(15);

/// Put the proxy under faults, and see what is lost.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For how long
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    minutes: f64,
    /// The proxy's policy
    #[arg(long, default_value = "laedge", value_parser = crate::root::policy)]
    policy: curtail_kernel::Policy,
    /// Requests per second; by default the leaves are about a quarter busy
    #[arg(long, default_value_t = 600.0, value_name = "N")]
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
    /// The reasons against it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed_because: Vec<String>,
    policy: String,
    minutes: f64,
    requests: Counts,
    faults: Faults,
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
    if !(0.01..=100_000.0).contains(&args.rate) {
        let text = format!("--rate {:?}: give requests per second from 0.01 to 100000", args.rate);
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
    let mut signals = Termination::listen_at_terminal()
        .map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
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
    let watching = Memory::watch(scene.proxy_process(), length);
    let mut chaos = Chaos::new(args.seed);
    let bar = progress::bar("soaking");
    bar.set_length(length.as_secs());
    while Instant::now() < end {
        sleep_until((Instant::now() + chaos.pause()).min(end)).await;
        chaos.strike(&mut scene).await?;
        bar.set_position((length - end.saturating_duration_since(Instant::now())).as_secs());
        bar.set_message(format!("{} faults", chaos.faults().total()));
    }
    bar.finish_and_clear();
    chaos.mend(&mut scene).await?;
    let requests = clients.finish().await;
    let leaked = scene.settle().await;
    let watched = watching.await;
    let mut memory = watched.map_err(|error| Stop::Lacking(format!("no memory: {error}")))?;
    memory.finish();
    let failed_because =
        failures(&requests, chaos.faults(), length, leaked.is_none(), memory.is_flat());
    Ok(Outcome {
        passed: failed_because.is_empty(),
        failed_because,
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

/// What speaks against it.
fn failures(
    requests: &Counts,
    faults: Faults,
    length: Duration,
    idle: bool,
    flat: bool,
) -> Vec<String> {
    let errors = requests.errors as f64 > ERRORS_FINE * requests.answered as f64;
    let reasons = [
        (requests.answered == 0, "no request was answered"),
        (requests.unanswered > 0, "requests were not answered"),
        (errors, "more than 1 % of the answers are errors"),
        (length >= LONG && faults.total() == 0, "no fault struck"),
        (!idle, "the proxy is not known to be at rest"),
        (!flat, "its memory is not known to be flat"),
    ];
    reasons.iter().filter(|(is, _)| *is).map(|(_, why)| (*why).to_owned()).collect()
}

fn told(outcome: &Outcome) -> String {
    let Outcome { requests, faults, memory, .. } = outcome;
    let rest = match &outcome.leaked {
        None => "every slot is free, nothing waits".to_owned(),
        Some(leaked) => format!("NOT all idle: {leaked}"),
    };
    let verdict = match &outcome.failed_because[..] {
        [] => "passed".to_owned(),
        reasons => format!("FAILED, for {}", reasons.join(", ")),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Counts = Counts { answered: 1_000, errors: 10, aborted: 50, unanswered: 0 };
    const FAULTS: Faults = Faults { kills: 0, pauses: 1, black_holes: 0 };

    fn of(requests: Counts) -> Vec<String> {
        failures(&requests, FAULTS, LONG, true, true)
    }

    #[test]
    fn a_soak_passes_if_nothing_speaks_against_it() {
        assert_eq!(of(GOOD), [""; 0]);
        assert_eq!(failures(&GOOD, FAULTS, LONG, false, true).len(), 1);
        assert_eq!(failures(&GOOD, FAULTS, LONG, true, false).len(), 1);
    }

    #[test]
    fn requests_need_answers_that_are_good() {
        let errors = "more than 1 % of the answers are errors";
        assert_eq!(of(Counts { errors: 11, ..GOOD }), [errors]);
        assert_eq!(of(Counts { errors: 1_000, ..GOOD }), [errors]);
        assert_eq!(of(Counts { unanswered: 1, ..GOOD }), ["requests were not answered"]);
        assert_eq!(of(Counts::default()), ["no request was answered"]);
    }

    #[test]
    fn a_run_of_15_seconds_needs_faults() {
        let none =
            |seconds| failures(&GOOD, Faults::default(), Duration::from_secs(seconds), true, true);
        assert_eq!(none(14), [""; 0]);
        assert_eq!(none(15), ["no fault struck"]);
    }
}
