//! `curtail sim`: simulates one experiment.

pub(crate) mod args;
pub(crate) mod length;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use args::{ExperimentArgs, Ready};
use curtail_kernel::Gate;
use curtail_report::chart::curves::{Axis, Curve, Curves, draw};
use curtail_report::chart::frame::Caption;
use curtail_report::page::{Page, escape, figure};
use curtail_report::policy::{Look, look, policy};
use curtail_sim::{Candidate, Outcome, ServerLoad, Shared, World, compare, total};

use crate::exit::Stop;
use crate::out::write_page;
use crate::{run, say};

/// The default policies.
pub(crate) const POLICIES: &[&str] = &["psq", "laedge", "idealized", "o1"];

/// The parameters to reduce if the work would take too long. Used in messages.
pub(crate) const LESS: &str = "requests or replications";

/// Simulate a replicated service, with the same policy code as the proxy.
///
/// A request queries every shard, and takes as long as the slowest query. A query's service time is
/// S = P + J: P belongs to the query, and each copy adds its own J. All policies get the same
/// arrivals and the same draws, so differences between them are not due to chance in the load. The
/// same seed gives the same figures on any number of threads.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail sim --jitter bimodal:0.001:15 --policy psq --policy laedge --utilization 0.3
  curtail sim --service-time exp:5ms --jitter bimodal:0.003:75ms --shards 5 --json
  curtail sim --file experiment.toml --seed 7
  curtail sim --servers 50 --clients 150 --replicas 3 --slots 4 --service-time exp:4ms \
    --speed 3:500ms --network det:250us --utilization 0.7 --policy c3 --policy least-outstanding

An experiment in a file has the same names:
  policies = [\"psq\", \"laedge\"]
  percentiles = [50, 99]
  [experiment]
  shards = 50
  jitter = \"bimodal:0.001:15\"

Times have a unit (5ms) or none. Without one, they and the results are multiples of a unit of your
choice.")]
pub(crate) struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Write a plot of the first server's queue over time to queue.html in this directory; needs
    /// --servers
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let Ready { mut experiment, candidates, percentiles, threads } =
        args.experiment.ready(POLICIES)?;
    if args.out.is_some() {
        let World::Shared(Shared { load: Some(load), .. }) = &mut experiment.world else {
            let why = "--out draws the queue of a server that clients share: give --servers, too";
            return Err(Stop::BadInput(why.to_owned()));
        };
        load.series = true;
    }
    let learns = |candidate: &Candidate| candidate.policy().rescues().is_some();
    if experiment.world.hint_error().is_some() && !candidates.iter().any(learns) {
        say::aside("note: hint-error has no effect: only rescue uses hints");
    }
    let uses_slots = |candidate: &Candidate| {
        candidate.policy().gate() == Gate::Slots || candidate.policy().hedges()
    };
    let has_own = |shared: &Shared| shared.client_slots.is_some();
    if matches!(&experiment.world, World::Shared(shared) if has_own(shared))
        && !candidates.iter().any(uses_slots)
    {
        say::aside("note: client-slots has no effect: none of the policies depends on slots");
    }
    let requests = total(&experiment, &candidates);
    let (replicas, network) = (experiment.world.servers(), experiment.network.is_some());
    let speed = match experiment.world {
        World::Shared(_) => length::SHARED * threads as f64,
        World::Shards(_) => length::speed(&candidates, replicas as usize, network, threads),
    };
    let events = requests as f64 * experiment.events_per_request();
    args.experiment.effort.check(events, speed, LESS)?;
    let bar = run::bar("simulating", requests);
    let outcomes = run::watched(&bar, |watch| {
        compare(&experiment, &candidates, &watch.plan(threads, &percentiles))
    })?;
    let outcomes = outcomes.map_err(Stop::bad)?;
    let Some(outcomes) = outcomes else {
        return Err(Stop::Interrupted("before all replications were done"));
    };
    if let Some(out) = &args.out {
        write_page(out, "queue.html", &render(&outcomes), "the queue")?;
    }
    let table = || table::render(&experiment, &outcomes, &percentiles);
    say::answer(args.experiment.output.json, &outcomes, table)?;
    Ok(ExitCode::SUCCESS)
}

/// Renders `queue.html`.
fn render(outcomes: &[Outcome]) -> String {
    let loads = || {
        let named = |of: &Outcome| Some((of.policy.clone(), of.servers.clone()?));
        outcomes.iter().filter_map(named).enumerate()
    };
    let curve = |(at, (name, load)): (usize, (String, ServerLoad))| Curve {
        name: policy(&name).short,
        look: look(at + 1),
        points: (0..).zip(&load.queue).map(|(at, most)| point(&load, at, *most)).collect(),
    };
    let curves: Vec<Curve> = loads().map(curve).collect();
    let most = |curve: &Curve| curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let spikes: Vec<String> =
        curves.iter().map(|curve| format!("{} with {}", most(curve), curve.name)).collect();
    let headline = format!("At most {} requests at the first server.", spikes.join(", "));
    let key: Vec<(String, Look)> =
        curves.iter().map(|curve| (curve.name.clone(), curve.look)).collect();
    let chart = |size| {
        let all = curves.iter().flat_map(|curve| &curve.points);
        let last = all.map(|point| point.0).max_by(f64::total_cmp)?;
        let highest = curves.iter().map(most).fold(1.0, f64::max);
        let title = "The queue of the first server over time";
        Some(draw(&Curves {
            caption: Caption::new("queue", size, title, &headline),
            x: Axis::until("s", 0.0, last),
            y: Axis::linear("Requests at the server", 0.0, highest),
            right: &[],
            curves: &curves,
            size,
        }))
    };
    let caption = "The highest number of requests at the server, queued or executing, per window \
                   of the first replication.";
    Page {
        verb: "sim",
        title: "The queue of a server that clients share",
        headline: &escape(&headline),
        more: "",
        main: &figure(&key, caption, chart),
    }
    .render()
}

/// A point at the end of its window.
fn point(load: &ServerLoad, at: usize, most: u32) -> (f64, f64) {
    ((at + 1) as f64 * load.window_ns as f64 / 1e9, f64::from(most))
}
