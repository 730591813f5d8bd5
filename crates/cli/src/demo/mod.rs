//! `curtail demo`: the main job on a real service, in one command.

mod args;
mod cluster;
mod findings;
mod gain;
mod index;
mod measure;
mod pause;
mod report;
mod results;
mod table;
mod throttle;
mod timings;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub(crate) use args::Args;
use args::Plan;
use cluster::Cluster;
use index::Built;
use results::{Results, Setup};

use crate::exit::Stop;
use crate::progress;
use crate::say;
use crate::signals::Termination;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let plan = args.plan()?;
    if let Some(note) = plan.overload() {
        say::aside(note);
    }
    let runtime = crate::runtime()?;
    let measured = runtime.block_on(measured(&plan));
    // A corpus that nobody waits for any more may still be being read.
    runtime.shutdown_background();
    let (results, failure) = measured?;
    let done = finish(args, &plan, results)?;
    failure.map_or(Ok(done), Err)
}

/// Does it all, or what there is time for before a signal comes or something fails: what has been
/// measured by then is kept.
async fn measured(plan: &Plan) -> Result<(Results, Option<Stop>), Stop> {
    let start = Instant::now();
    let mut signals = Termination::listen_at_terminal()
        .map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
    let built = index::build(plan, &mut signals).await?;
    let mut results = results(plan, &built);
    let work = async {
        let mut cluster = Cluster::start(plan).await?;
        measure::all(plan, &built.queries, &mut cluster, &mut results).await
    };
    // Dropping the work kills every process that it started. A signal comes first: it goes to the
    // processes, too, and their end is then no failure.
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

/// Results without any cell yet.
fn results(plan: &Plan, built: &Built) -> Results {
    Results {
        loads: plan.loads.clone(),
        policies: Default::default(),
        order: plan.policies.iter().map(|(name, _)| name.clone()).collect(),
        setup: Setup {
            shards: plan.shards,
            replicas: plan.replicas,
            slots: plan.slots,
            corpus: built.corpus.clone(),
            documents: built.documents,
            service_time: plan.service_time.to_string(),
            hiccup: plan.hiccups(),
            service_mean_ms: plan.service_mean_ns / 1e6,
            seed: plan.seed,
            requests: plan.requests,
            honesty: plan.honesty(),
            command: plan.command(),
            elapsed_s: 0.0,
        },
        partial: false,
        report: None,
    }
}

/// Writes what there is, and says what it means.
fn finish(args: &Args, plan: &Plan, mut results: Results) -> Result<ExitCode, Stop> {
    results.compare();
    let out = &plan.out;
    let page = out.join("report.html");
    results.report = Some(page.display().to_string());
    write(&page, &report::render(&results))?;
    let file = out.join("p99.svg");
    match report::picture(&results) {
        Some(picture) => write(&file, &picture)?,
        None => remove(&file)?,
    }
    if !plan.timings {
        remove(&out.join(timings::FILE))?;
    }
    let json = crate::json(&results)?;
    write(&out.join("results.json"), &json)?;
    if args.output.json {
        say::result(json)?;
    } else {
        let color = say::colored(&std::io::stdout());
        let table = table::render(&results, progress::width(), color);
        say::result(format_args!("{table}\nreport: {}", page.display()))?;
    }
    Ok(if results.partial { ExitCode::from(130) } else { ExitCode::SUCCESS })
}

/// Removes a file of an earlier run, which would be taken for this one's.
fn remove(path: &Path) -> Result<(), Stop> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Stop::Lacking(format!("{}: cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn write(path: &PathBuf, text: &str) -> Result<(), Stop> {
    let lacking = |error| Stop::Lacking(format!("{}: cannot be written: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(lacking)?;
    }
    std::fs::write(path, text).map_err(lacking)
}
