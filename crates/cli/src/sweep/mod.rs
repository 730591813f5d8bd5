//! `curtail sweep`: simulates a grid of experiments.

mod axes;
mod report;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use curtail_report::number::{counted, latency};
use curtail_sim::sweep::{Axis, Plan, Store, StoreError, parameter};
use indicatif::ProgressBar;

use crate::exit::{Stop, bad, lacking};
use crate::sim::args::{ExperimentArgs, Written};
use crate::sim::{LESS, POLICIES, length};
use crate::{run, say};
use axes::Axes;
use report::{Figures, Plots};

/// Simulate a grid of experiments: every combination of the given values.
///
/// Each point of the grid is an experiment of `curtail sim`: all policies get the same arrivals and
/// the same draws. Results are written to a directory as points complete. After an interruption,
/// the same command continues. The results do not depend on interruptions or on the number of
/// threads.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail sweep --grid utilization=0.05..0.95:0.05 --jitter bimodal:0.001:15
  curtail sweep --jitter 'bimodal:{p}:{d}' --grid p=1e-5..1e-1:9:log --grid d=5,15,50
  curtail sweep --grid shards=1,10,100 --grid service=exp:1,det:1 --policy psq --policy laedge
  curtail sweep --file grid.toml --out results/hiccups

A grid in a file, which is a file of curtail sim with one more table:
  policies = [\"psq\", \"laedge\"]
  [experiment]
  jitter = \"bimodal:{p}:15\"
  [grid]
  utilization = { from = 0.1, to = 0.9, step = 0.1 }
  p = { from = 1e-5, to = 1e-1, count = 9, scale = \"log\" }

A key is a parameter (the name of its flag), or a name in braces in a text of the experiment. The
last key varies fastest. Files in the directory:
  sweep.json       the sweep; another one needs another directory, or --force
  results.jsonl    a line per point, as soon as it is done: its values and the output of curtail sim
  results.csv      after the last point: a row per point and policy
  results.parquet  the same rows, if curtail was built with --features parquet
  results.html     plots, if a key has three numbers or more
  results.svg      the chart, if there is only one")]
pub(crate) struct Args {
    /// Values to vary: KEY=A,B,C or KEY=FROM..TO:STEP or KEY=FROM..TO:COUNT:log (repeatable)
    #[arg(long = "grid", value_name = "KEY=VALUES", help_heading = "Grid")]
    grid: Vec<String>,
    /// Results directory
    #[arg(long, value_name = "DIR", default_value = "sweep-results", help_heading = "Output")]
    out: PathBuf,
    /// Delete the existing results in the directory
    #[arg(long, alias = "restart", help_heading = "Output")]
    force: bool,
    /// Require results.parquet: fail immediately if this build of curtail cannot write it
    #[arg(long, help_heading = "Output")]
    parquet: bool,
    /// Reference policy of the maps: they compare it with the policies that follow it in the list
    /// (repeatable); may be changed after all points are done [default: the first policy]
    #[arg(long, value_name = "POLICY", help_heading = "Output")]
    versus: Vec<String>,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    if args.parquet && !cfg!(feature = "parquet") {
        return Err(lacking!(
            "this curtail was built without Parquet; rebuild it: cargo build --release --features \
             parquet"
        ));
    }
    let written = args.experiment.written(POLICIES)?;
    let threads = written.threads;
    let Axes { axes, places } = axes::all(&written.grid, &args.grid)?;
    check_given(&written.given, &axes)?;
    let speed = speed(&written, &axes);
    let Written { parameters, candidates, percentiles, .. } = written;
    let bad = |error: curtail_sim::sweep::Error| Stop::BadInput(places.describe(&error));
    let plan = Plan::new(&parameters, axes, candidates, percentiles).map_err(bad)?;
    let versus = versus(&args.versus, plan.policies())?;
    let lengths = plan.check().map_err(bad)?;
    let mut store = Store::open(&args.out, &plan, args.force)?;
    let left = store.lines.missing();
    let events: f64 = left.iter().map(|&point| lengths[point].1).sum();
    args.experiment.effort.check(events, speed, LESS)?;
    store.begin(&plan)?;
    let points = plan.grid().points();
    let there = points - left.len();
    let out = args.out.display();
    if there > 0 {
        say::aside(format_args!("{there} of {points} points are in {out} already"));
    }
    let length = left.iter().fold(0_u64, |sum, &point| sum.saturating_add(lengths[point].0));
    let bar = run::bar("sweeping", length);
    let complete = simulate(&plan, threads, &mut store, &left, &bar)?;
    if !complete {
        let there = points - store.lines.missing().len();
        say::aside(format_args!("{there} of {points} points are in {out}"));
        return Err(Stop::Interrupted("before all points were done; the same command continues"));
    }
    finish(args, &plan, &store, &versus)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns an error if a parameter is both given as a flag and varied by the grid.
fn check_given(given: &[(String, String)], axes: &[Axis]) -> Result<(), Stop> {
    let varied = |(name, _): &&(String, String)| {
        axes.iter().any(|axis| parameter(axis.key()) == parameter(name))
    };
    match given.iter().find(varied) {
        None => Ok(()),
        Some((name, value)) => Err(bad!(
            "--{name} {value}: the grid varies {name}, so each point has its own; drop the flag, or \
             give --grid {name}={value} in place of the grid's values"
        )),
    }
}

/// The number of queries simulated per second at the slowest points.
fn speed(written: &Written, axes: &[Axis]) -> f64 {
    let Written { parameters, candidates, threads, .. } = written;
    let axis = |key: &str| axes.iter().find(|axis| axis.key() == key);
    let most = axis("replicas").and_then(Axis::numbers);
    let most = most.map(|numbers| numbers.into_iter().fold(1.0, f64::max) as usize);
    let network = parameters.network.is_some() || axis("network").is_some();
    length::speed(candidates, most.unwrap_or(parameters.replicas as usize), network, *threads)
}

/// The indexes of the named policies in the list.
fn versus(names: &[String], policies: &[String]) -> Result<Vec<usize>, Stop> {
    let place = |name: &String| match policies.iter().position(|policy| policy == name) {
        Some(place) if place + 1 < policies.len() => Ok(place),
        Some(_) => Err(bad!(
            "--versus {name}: no policy follows it in the list; name it earlier with --policy"
        )),
        None => {
            let text = policies.join(", ");
            Err(bad!("--versus {name}: give a policy of the sweep: {text}"))
        }
    };
    let places: Result<Vec<usize>, Stop> = names.iter().map(place).collect();
    places.map(|places| if places.is_empty() { vec![0] } else { places })
}

/// Runs the remaining points. Returns false if it was interrupted.
fn simulate(
    plan: &Plan,
    threads: usize,
    store: &mut Store,
    left: &[usize],
    bar: &ProgressBar,
) -> Result<bool, Stop> {
    let mut unwritten = None;
    let all = plan.grid().points();
    let mut there = all - left.len();
    let ran = run::watched(bar, |watch| {
        let how = watch.plan(threads, plan.percentiles());
        let done = |line: String| {
            let figures = running(&line);
            if let Err(error) = store.lines.append(plan, line) {
                unwritten = Some(Stop::from(error));
                return false;
            }
            there += 1;
            bar.set_message(format!("{there}/{all} points{figures}"));
            !watch.stop.load(Ordering::Relaxed)
        };
        plan.run(left, &how, done)
    })?;
    match unwritten {
        Some(stop) => Err(stop),
        None => ran.map_err(Stop::bad),
    }
}

/// The median and p99 of a finished point, for its first policy.
fn running(line: &str) -> String {
    let point: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let request = &point["outcomes"][0]["request"];
    let figures = [("p50", &request["p50"]), ("p99", &request["p99"])];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    known.map(|(name, value)| format!("   {name} {}", latency(value))).collect()
}

/// Writes the tables and plots after all points are done.
fn finish(args: &Args, plan: &Plan, store: &Store, versus: &[usize]) -> Result<(), Stop> {
    let mut figures = Figures::new(plan.percentiles());
    store.write_tables(plan, |outcomes| figures.read(outcomes))?;
    let mut files = vec!["results.csv"];
    if cfg!(feature = "parquet") {
        files.push("results.parquet");
    }
    if let Some(Plots { page, picture }) = report::render(plan, &figures, versus) {
        for (name, text) in [("results.html", Some(page)), ("results.svg", picture)] {
            let Some(text) = text else { continue };
            let write = |file: &mut BufWriter<&File>| file.write_all(text.as_bytes());
            store.replace(name, write)?;
            files.push(name);
        }
    }
    if args.experiment.output.json {
        let mut stdout = BufWriter::new(io::stdout().lock());
        let printed = store.lines.write_json(&mut stdout);
        return Ok(printed.map_err(|error| say::unwritten(&error))??);
    }
    let points = counted(plan.grid().points(), "point", "points");
    let mut text = format!("{points} × {}", counted(plan.policies().len(), "policy", "policies"));
    if !figures.stable.contains(&true) {
        text += "; every policy is unstable at every point";
    }
    for file in files {
        text += &format!("\n{}", args.out.join(file).display());
    }
    say::result(say::plain(&text))
}

/// Adds the flag that fixes an error about the directory of a sweep.
impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Another { .. } => {
                bad!("{error}; give another --out, or drop it with --force")
            }
            StoreError::Line { .. } => {
                bad!("{error}; repair the line, or drop all results with --force")
            }
            StoreError::Io { ref source, .. } => Stop::Lacking(match source.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    format!("{error}; a file is in the way: give a directory as --out")
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    format!("{error}; give another --out, in which you may write")
                }
                _ => format!("{error}; free some space, or give another --out"),
            }),
            StoreError::Foreign { .. } | StoreError::Busy { .. } => {
                Stop::Lacking(error.to_string())
            }
        }
    }
}
