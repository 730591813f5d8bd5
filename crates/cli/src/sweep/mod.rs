//! `curtail sweep`: a grid of experiments.

mod axes;
mod heat;
mod plan;
mod report;
mod store;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use curtail_sim::sweep::{Grid, check, run as run_points};
use curtail_sim::{Candidate, Outcome, Plan as How};
use indicatif::ProgressBar;

use crate::exit::Stop;
use crate::sim::args::{ExperimentArgs, Written};
use crate::sim::{POLICIES, work};
use crate::{progress, say};
use plan::Plan;
use store::Store;

/// Simulate a grid of experiments: every combination of the values that you name.
///
/// Each point of the grid is an experiment as of `curtail sim`: all policies meet the same arrivals
/// and the same draws. Results go to a directory as they come. The same command goes on where it
/// was interrupted, and the results are the same whether it was or not, on any number of threads.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail sweep --grid utilization=0.05..0.95:0.05 --jitter bimodal:0.001:15
  curtail sweep --jitter 'bimodal:{p}:{d}' --grid p=1e-5..1e-1:9:log --grid d=5,15,50
  curtail sweep --grid shards=1,10,100 --grid service=exp:1,det:1 --policy psq --policy laedge
  curtail sweep --file grid.toml --out results/hiccups

A grid in a file, which is one of curtail sim with a table more:
  policies = [\"psq\", \"laedge\"]
  [experiment]
  jitter = \"bimodal:{p}:15\"
  [grid]
  utilization = { from = 0.1, to = 0.9, step = 0.1 }
  p = { from = 1e-5, to = 1e-1, count = 9, scale = \"log\" }

A key is a parameter (the name of its flag), or stands in braces in a text of the experiment. The
last key varies fastest. In the directory:
  sweep.json       what is run; another sweep needs another directory, or --restart
  results.jsonl    a line per point, as soon as it is done: its values, and what curtail sim prints
  results.csv      when all are done: a row per point and policy
  results.parquet  the same, where curtail was built with --features parquet
  results.html     plots, where a key has three numbers or more")]
pub(crate) struct Args {
    /// What is varied: KEY=A,B,C or KEY=FROM..TO:STEP or KEY=FROM..TO:COUNT:log; may be repeated
    #[arg(long = "grid", value_name = "KEY=VALUES")]
    grid: Vec<String>,
    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "sweep-results")]
    out: PathBuf,
    /// Drop the results that are there
    #[arg(long)]
    restart: bool,
    /// Insist on results.parquet: fail at once if this curtail cannot write it
    #[arg(long)]
    parquet: bool,
    /// Print one JSON document on stdout: the list of all points
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if args.parquet && !cfg!(feature = "parquet") {
        return Err(Stop::Lacking(
            "this curtail was built without Parquet; build one that has it: \
             cargo build --release --features parquet"
                .to_owned(),
        ));
    }
    let written = args.experiment.written(POLICIES)?;
    let axes = axes::all(&written.grid, &args.grid)?;
    let bad = |error: curtail_sim::sweep::Error| Stop::BadInput(error.to_string());
    let grid = Grid::new(&written.parameters, axes).map_err(bad)?;
    let plan = Plan::new(&written, &grid)?;
    let lengths = check(&grid, &written.candidates).map_err(bad)?;
    let mut store = Store::open(&args.out, &plan, args.restart)?;
    let left = store.missing();
    let queries: f64 = left.iter().map(|&point| lengths[point].1).sum();
    args.experiment.check_length(queries, written.threads)?;
    store.begin(&plan)?;
    let there = grid.points() - left.len();
    let out = args.out.display();
    if there > 0 {
        say::aside(format_args!("{there} of {} points are in {out} already", grid.points()));
    }
    let bar = progress::bar("sweeping");
    bar.set_length(left.iter().fold(0, |sum, &point| sum.saturating_add(lengths[point].0)));
    let complete = simulate(&plan, &written, &mut store, &left, &bar)?;
    if !complete {
        let there = grid.points() - store.missing().len();
        say::aside(format_args!("{there} of {} points are in {out}", grid.points()));
        return Err(Stop::Interrupted("before all points were done; the same command goes on"));
    }
    finish(args, &plan, &store)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the points that are left; false where it was interrupted.
fn simulate(
    plan: &Plan<'_>,
    written: &Written,
    store: &mut Store,
    left: &[usize],
    bar: &ProgressBar,
) -> Result<bool, Stop> {
    let mut unwritten = None;
    let all = plan.grid.points();
    let mut there = all - left.len();
    let candidates: &[Candidate] = &written.candidates;
    let ran = work::watched(bar, |watch| {
        let how = How {
            threads: written.threads,
            percentiles: &written.percentiles,
            progress: &watch.progress,
            stop: &watch.stop,
        };
        let done = |point: usize, outcomes: Vec<Outcome>| {
            if let Err(stop) = store.append(plan, point, &outcomes) {
                unwritten = Some(stop);
                return false;
            }
            there += 1;
            bar.set_message(format!("{there}/{all} points"));
            !watch.stop.load(Ordering::Relaxed)
        };
        run_points(plan.grid, left, candidates, &how, done)
    })?;
    match unwritten {
        Some(stop) => Err(stop),
        None => ran.map_err(|error| Stop::BadInput(error.to_string())),
    }
}

/// Writes what there is when all points are done.
fn finish(args: &Args, plan: &Plan<'_>, store: &Store) -> Result<(), Stop> {
    let figures = table::write(plan, store)?;
    let mut files = vec!["results.csv"];
    if cfg!(feature = "parquet") {
        files.push("results.parquet");
    }
    if let Some(page) = report::render(plan, &figures) {
        store.replace("results.html", |file| std::io::Write::write_all(file, page.as_bytes()))?;
        files.push("results.html");
    }
    if args.json {
        return store.print();
    }
    let mut text = format!("{} points × {} policies", plan.grid.points(), plan.policies.len());
    for file in files {
        text += &format!("\n{}", args.out.join(file).display());
    }
    say::result(text)
}
