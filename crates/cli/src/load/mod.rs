//! `curtail load`: runs a load, prints its report and writes its results.

mod args;
mod calibrate;
pub(crate) mod out;
pub(crate) mod table;

use std::process::ExitCode;

use curtail_load::agents::{self, Agents, AgentsError};
use curtail_load::{Extent, Invalid, LoadError, Outcome, Plan, Report, Snapshot};

use curtail_report::number::or_none;

use args::plan;
pub(crate) use args::{Args, ProtocolArgs};
use out::Results;
pub(crate) use table::ms;
use table::table;

use crate::exit::Stop;
use crate::run::{self, Termination};
use crate::{files, say};

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if args.calibrate {
        return calibrate::run(&args.output);
    }
    let plan = plan(args)?;
    let agents = match args.agents.is_empty() {
        true => {
            files::room_for(&plan)?;
            None
        }
        false => Some(Agents { addresses: args.agents.clone(), token: args.token.token()? }),
    };
    run::reserve(&plan.processors)?;
    let mut results = args.outputs.begin(&plan, agents.is_some())?;
    let measured = run::on_all_cores(measure(&plan, agents.as_ref(), results.as_mut()));
    let report = match measured {
        // If the run ended before any measured request was due, there is nothing to write.
        Ok(report) if report.partial && report.requests == 0 => {
            results.take().into_iter().for_each(Results::discard);
            report
        }
        Ok(report) => report,
        Err(stop) => {
            results.into_iter().for_each(Results::discard);
            return Err(stop);
        }
    };
    // Print first, then write. If one of the two fails, the other is still done.
    let printed = print(args, &report);
    let written = results.map_or(Ok(()), |results| results.finish(&plan, &report));
    printed.and(written)?;
    // The loss of an agent also makes results partial, but does not count as an interruption.
    let interrupted = |reason: &Invalid| matches!(reason, Invalid::Interrupted { .. });
    Ok(match &report {
        report if report.invalid_because.iter().any(interrupted) => ExitCode::from(130),
        Report { valid: false, .. } => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// Runs the plan, and writes results as they arrive.
async fn measure(
    plan: &Plan,
    agents: Option<&Agents>,
    results: Option<&mut Results>,
) -> Result<Report, Stop> {
    let mut signals = Termination::listen_at_terminal()?;
    let bar = run::bar("load", length(&plan.extent, plan.warmup_ns));
    let (mut snapshots, samples) = match results {
        Some(Results { snapshots, samples, .. }) => (Some(snapshots), samples.as_mut()),
        None => (None, None),
    };
    let observe = |at: &Snapshot| {
        bar.set_position(match plan.extent {
            Extent::Requests(_) => at.answered + at.errors,
            Extent::Duration { .. } => at.elapsed_ns,
        });
        bar.set_message(line(at));
        snapshots.iter_mut().for_each(|snapshots| snapshots.see(at));
    };
    if let Some(agents) = agents {
        let report = agents::run(plan, agents, signals.next(), observe).await;
        bar.finish_and_clear();
        return Ok(report?);
    }
    let report = match samples {
        Some(samples) => {
            let seen = |sample: &Outcome| samples.see(sample);
            curtail_load::run_sampled(plan, signals.next(), observe, seen).await
        }
        None => curtail_load::run(plan, signals.next(), observe).await,
    };
    bar.finish_and_clear();
    Ok(report?)
}

impl From<AgentsError> for Stop {
    fn from(error: AgentsError) -> Self {
        match error {
            AgentsError::Lacking { .. } => Self::Lacking(error.to_string()),
            AgentsError::Interrupted => Self::Interrupted("before the agents were ready"),
            _ => Self::BadInput(error.to_string()),
        }
    }
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Thread(_) | LoadError::Stamps(_) => Self::Lacking(error.to_string()),
            LoadError::Interrupted => Self::Interrupted("while the host was being resolved"),
            LoadError::Plan(_) | LoadError::Resolve { .. } => Self::BadInput(error.to_string()),
        }
    }
}

fn print(args: &Args, report: &Report) -> Result<(), Stop> {
    if args.output.json {
        // JSON is for programs, so print the warning for people. The table already contains it.
        if let Some(warning) = report.warning() {
            say::aside(format_args!("warning: {warning}"));
        }
        say::result(say::json(report)?)
    } else if report.partial && report.requests == 0 {
        Err(Stop::Interrupted("before anything was measured"))
    } else {
        say::result(table(report))
    }
}

/// The planned length of a run, in requests or in nanoseconds. A run may stop early, and a warm-up
/// adds requests.
fn length(extent: &Extent, warmup_ns: u64) -> u64 {
    match *extent {
        Extent::Requests(requests) => requests,
        Extent::Duration { ns } => ns.saturating_add(warmup_ns),
    }
}

/// A one-line status.
fn line(at: &Snapshot) -> String {
    let Snapshot { warming_up, answered, errors, rate_now, .. } = at;
    let phase = if *warming_up { "warming up   " } else { "" };
    let [p50, p99, lag] = [at.p50_ns, at.p99_ns, at.lag_p99_ns].map(|ns| or_none(ns, ms));
    format!(
        "{phase}{rate_now:.0}/s   responses {answered}   errors {errors}   p50 {p50}   p99 {p99}   \
         lag p99 {lag}"
    )
}
