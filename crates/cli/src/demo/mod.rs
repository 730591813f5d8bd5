//! `curtail demo`: measures policies on a real search service, in one command.

mod args;
mod cluster;
mod findings;
mod index;
mod measure;
mod page;
mod results;
mod table;

use std::process::ExitCode;
use std::time::Instant;

pub(crate) use args::Args;
use args::Plan;
use cluster::Cluster;
use index::Built;
use results::{Results, Setup};

use crate::exit::Stop;
use crate::out::Folder;
use crate::run::{self, Termination};
use crate::say;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let plan = args.plan()?;
    if let Some(note) = plan.overload() {
        say::aside(note);
    }
    let (results, failure) = run::on_all_cores(measured(&plan))?;
    let done = finish(args, results)?;
    failure.map_or(Ok(done), Err)
}

/// Runs the demo until it is done, a signal arrives or something fails. The cells measured by then
/// are kept.
async fn measured(plan: &Plan<'_>) -> Result<(Results, Option<Stop>), Stop> {
    let start = Instant::now();
    let mut signals = Termination::listen_at_terminal()?;
    let built = index::build(plan, &mut signals).await?;
    let mut results = results(plan, &built);
    let work = async {
        let mut cluster = Cluster::start(plan).await?;
        measure::all(plan, &built.queries, &mut cluster, &mut results).await
    };
    // Dropping `work` kills every process that it started. Signals are polled first, because they
    // also reach the child processes. Otherwise, a child that such a signal ends would count as a
    // failure.
    let done = tokio::select! {
        biased;
        () = signals.next() => None,
        done = work => Some(done),
    };
    let interrupted = done.is_none();
    let failure = match done {
        Some(Err(failure)) if results.policies.is_empty() => return Err(failure),
        None if results.policies.is_empty() => {
            let when = "before the first cell was measured: no report is written";
            return Err(Stop::Interrupted(when));
        }
        Some(done) => done.err(),
        None => None,
    };
    results.partial = failure.is_some() || interrupted;
    results.setup.elapsed_s = start.elapsed().as_secs_f64();
    Ok((results, failure))
}

/// Results without cells.
fn results(plan: &Plan<'_>, built: &Built) -> Results {
    let args = plan.args;
    Results {
        loads: plan.loads.clone(),
        policies: Default::default(),
        order: plan.policies.iter().map(|(name, _)| name.clone()).collect(),
        setup: Setup {
            shards: args.shards,
            replicas: args.replicas,
            slots: args.slots,
            corpus: built.corpus.clone(),
            documents: built.documents,
            service_time: args.service_time.to_string(),
            hiccup: plan.hiccups(),
            strata: plan.strata(),
            service_mean_ms: plan.service_mean_ns / 1e6,
            seed: args.seed.seed,
            requests: plan.requests,
            honesty: plan.honesty(),
            command: plan.command(),
            elapsed_s: 0.0,
        },
        busy_machine: None,
        partial: false,
        report: None,
    }
}

/// Writes the files and prints the findings.
fn finish(args: &Args, mut results: Results) -> Result<ExitCode, Stop> {
    results.watch();
    results.compare();
    let report = args.out.join("report.html").display().to_string();
    results.report = Some(report.clone());
    let json = say::json(&results)?;
    let mut folder = Folder::over(&args.out)?;
    folder.write_text("report.html", Some(page::render(&results)));
    folder.write_text("p99.svg", page::picture(&results));
    folder.write_text("results.json", Some(json.clone()));
    if !args.timings {
        folder.write_text(measure::FILE, None);
    }
    // The results are printed even if the files cannot be written.
    let written = folder.finish();
    if args.output.json {
        say::result(json)?;
    } else {
        let color = say::colored(&std::io::stdout());
        let table = table::render(&results, say::width(), color);
        say::result(table)?;
        if written.is_ok() {
            say::result(format_args!("report: {report}"))?;
        }
    }
    written?;
    Ok(if results.partial { ExitCode::from(130) } else { ExitCode::SUCCESS })
}
