//! `curtail graph`: simulates a graph of services with and without end-to-end flow control.

use std::path::PathBuf;
use std::process::ExitCode;

use curtail_report::number::or_none;
use curtail_report::table::Table;
use curtail_sim::graph::{self, Control, Figures, Graph, GraphFile, Replicated};

use crate::args::{Effort, Json, Seed};
use crate::exit::{Stop, bad};
use crate::{run, say};

/// Simulate a graph of services under load, with and without end-to-end flow control.
///
/// Requests of several workflows (tenants, classes) enter at the first service, call others, and
/// hold resources. Every process runs the same flow control as the middleware: rates that follow
/// the downstream bottleneck, fair queues, deadline scheduling, and early drops.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail graph lab/soa/isolation.toml
  curtail graph shop.toml --control timeouts --control fq+fifo+rc --json

A graph in a file:
  duration = \"60s\"
  [[service]]                                   # the first is the entry
  name = \"web\"
  instances = 2
  resource = [{ name = \"threads\", slots = 8 }]
  [[service]]
  name = \"store\"
  instances = 3
  resource = [{ name = \"disk\", slots = 1 }]
  [[workflow]]
  name = \"browse\"
  deadline = \"300ms\"                            # or \"4x\" their mean time in isolation
  clients = [{ open = 100 }]                    # per second; or { closed = 30 }
  at.web = [\"use threads exp:2ms\", \"call store x3\"]
  at.store = [\"use disk exp:4ms\"]")]
pub(crate) struct Args {
    /// The graph, a TOML file
    file: PathBuf,
    /// Flow control to simulate: `timeouts`, parts of `fq+DISCIPLINE+rc`, or google, gradient2,
    /// dagor, prices (repeatable) [default: timeouts, fifo+rc, fq+fifo+rc]
    #[arg(long, value_name = "CONTROL")]
    control: Vec<Control>,
    /// Load factor, which multiplies the rate of open clients and the number of closed ones, except
    /// `fixed` ones
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    load: f64,
    /// Remove the clients of a workflow (repeatable)
    #[arg(long, value_name = "WORKFLOW")]
    without: Vec<String>,
    /// Change how calls to a service are routed, for example store=c3 (repeatable)
    #[arg(long, value_name = "SERVICE=ROUTE")]
    route: Vec<String>,
    /// Change a parameter of the flow control, for example target=0.9 (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    tune: Vec<String>,
    #[command(flatten)]
    seed: Seed,
    /// Number of runs per control, with consecutive seeds
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    replications: u32,
    #[command(flatten)]
    effort: Effort,
    #[command(flatten)]
    output: Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let name = args.file.display();
    let file: GraphFile = curtail_config::load(&args.file).map_err(Stop::config)?;
    let graph = Graph::new(&file).map_err(|error| bad!("{name}: {error}"))?;
    if !(args.load > 0.0 && args.load <= 1e3) {
        return Err(bad!("--load {}: give it a number up to 1000", args.load));
    }
    let mut graph = graph.loaded(args.load);
    for name in &args.without {
        graph = graph.without(name).map_err(|error| bad!("--without: {error}"))?;
    }
    for text in &args.route {
        let (service, route) = text.split_once('=').unwrap_or((text, ""));
        graph = graph.routed(service, route).map_err(|error| bad!("--route {text}: {error}"))?;
    }
    for text in &args.tune {
        let parts =
            text.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
        let Some((name, value)) = parts else {
            return Err(bad!("--tune {text}: write NAME=VALUE, such as target=0.9"));
        };
        graph = graph.tuned(name, value).map_err(|error| bad!("--tune {error}"))?;
    }
    let mut controls = args.control.clone();
    if controls.is_empty() {
        let parse = |text: &&str| text.parse::<Control>().map_err(Stop::BadInput);
        controls =
            ["timeouts", "fifo+rc", "fq+fifo+rc"].iter().map(parse).collect::<Result<_, _>>()?;
    }
    let samples = graph.samples() * controls.len() as u64 * u64::from(args.replications);
    let bar = run::bar("simulating", samples);
    let outcomes = run::watched(&bar, |watch| {
        let plan = watch.plan(args.effort.threads(), &[]);
        graph::replicate(&graph, &controls, args.seed.seed, args.replications, &plan)
    })?;
    let Some(outcomes) = outcomes else {
        return Err(Stop::Interrupted("before all replications were done"));
    };
    let text = || outcomes.iter().map(table).collect::<Vec<_>>().join("\n");
    say::answer(args.output.json, &outcomes, text)?;
    Ok(ExitCode::SUCCESS)
}

fn table(outcome: &Replicated) -> String {
    let outcome = &outcome.mean;
    let mut table = Table::new([
        "workflow",
        "offered",
        "goodput",
        "late",
        "dropped",
        "timed out",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "lateness",
        "p99",
    ]);
    for of in outcome.workflows.iter().chain([&outcome.all]) {
        let rate = |rate: f64| format!("{rate:.1}/s");
        let part = |part: f64| format!("{:.1} %", 100.0 * part);
        let figure = |of: &Option<Figures>, pick: fn(&Figures) -> f64, digits| {
            or_none(of.as_ref(), |figures| format!("{:.digits$}", pick(figures)))
        };
        let (ms, late) = (&of.latency_ms, &of.lateness);
        let rates = [of.name.clone(), rate(of.offered), rate(of.goodput)];
        let parts = [of.late, of.dropped, of.timed_out].map(part);
        let latencies: [fn(&Figures) -> f64; 3] = [|of| of.p50, |of| of.p95, |of| of.p99];
        let latencies = latencies.map(|pick| figure(ms, pick, 1));
        let late = [figure(late, |of| of.mean, 3), figure(late, |of| of.p99, 3)];
        table.row(rates.into_iter().chain(parts).chain(latencies).chain(late));
    }
    let (control, wasted) = (&outcome.control, 100.0 * outcome.wasted_work);
    let mut text = format!("{control}: {wasted:.1} % of the work was wasted\n{}", table.bare());
    for of in &outcome.services {
        let used =
            of.utilization.iter().map(|(name, used)| format!("{name} {:.0} %", 100.0 * used));
        let used = used.collect::<Vec<_>>().join(", ");
        let (turned, expired) = (of.dropped_at_admission, of.expired);
        text += &format!("{:14}{used}; rejected {turned:.1}/s, expired {expired:.1}/s\n", of.name);
    }
    text
}
