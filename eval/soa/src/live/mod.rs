//! A graph of services as real processes: what `curtail graph` simulates, over gRPC and loopback
//! TCP.
//!
//! Source: document 002 §5.3. Each instance is a process, with or without the layers of
//! `curtail-flow`. The file, its clients and the random draws of requests are those of the
//! simulator. `--divide 5` runs a fifth of the processes with a fifth of the load. The results have
//! the same form as those of `curtail graph --json`, and their times are the file's. They include
//! the simulator's results for the same graph and seed.
//!
//! Deviations from the simulator: network and processing times are those of the machine.
//! Announcements are sent with responses. Work that is no longer needed stops when the calls to it
//! have been reset.
//!
//! Cost: the run takes the file's duration times `--time-scale`, per control. A call costs about
//! 100 µs of processor time. A run is not valid if it uses more than three fifths of the machine,
//! or sends requests 1 ms late.

mod clients;
mod clock;
mod guarded;
mod message;
mod process;
mod rpc;
mod system;
mod table;
mod work;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context as _, Result, ensure};
use curtail_sim::Plan;
use curtail_sim::graph::{
    self, Control, Graph, GraphFile, GraphOutcome, Replicated, ServiceOutcome,
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use clients::Seen;
use clock::Clock;
use process::Report;
use system::System;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Graph file, in TOML
    file: PathBuf,
    /// Control: `timeouts`, parts of `fq+DISCIPLINE+rc`, or a method of other authors: google,
    /// gradient2, dagor, prices (repeatable) [default: timeouts, fifo+rc]
    #[arg(long, value_name = "CONTROL")]
    control: Vec<Control>,
    /// Divide the processes of each service, and the load, by this number [default: the lowest
    /// divisor with at most 8 processes]
    #[arg(long, value_name = "TIMES")]
    divide: Option<u32>,
    /// Slow the file's time down by this factor: arrivals, service times, deadlines, intervals
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    time_scale: f64,
    /// Multiply the load by this factor: the rate of open clients and the number of closed ones,
    /// except `fixed` ones
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    load: f64,
    /// Leave out the clients of a workflow (repeatable)
    #[arg(long, value_name = "WORKFLOW")]
    without: Vec<String>,
    /// Seed of the random draws
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print one JSON document to stdout
    #[arg(long)]
    json: bool,
    /// Run as the process with this number
    #[arg(long, hide = true)]
    process: Option<usize>,
}

/// Shares of all processors that were used.
#[derive(Clone, Copy, Debug, Serialize)]
struct Cpu {
    processes: f64,
    clients: f64,
    /// The share used by the whole machine, including other programs.
    machine: f64,
}

/// The result of one control.
#[derive(Debug, Serialize)]
struct Outcome {
    #[serde(flatten)]
    measured: Replicated,
    live: bool,
    /// Whether the machine had enough capacity to spare and no call failed.
    valid: bool,
    time_scale: f64,
    divided: u32,
    instances: BTreeMap<String, u32>,
    cpu: Cpu,
    /// The number of requests that failed for a reason other than control.
    errors: u64,
    error: Option<String>,
    /// The mean lateness of sends, in ms of the machine's time.
    lag_ms: f64,
    /// The simulator's result, without its series.
    simulated: GraphOutcome,
}

/// Limits of a valid run. If the machine is busier, or sends later than this, it has queues that
/// are not in the file.
const CPU_MOST: f64 = 0.6;
const LAG_MOST_MS: f64 = 1.0;
const PROCESSES_MOST: u32 = 8;

pub(crate) fn run(args: &Args) -> Result<()> {
    let (graph, divided) = graph(args)?;
    let mut controls = args.control.clone();
    if controls.is_empty() {
        controls = ["timeouts", "fifo+rc"]
            .map(str::parse)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(anyhow::Error::msg)?;
    }
    if let Some(at) = args.process {
        return process::run(&graph, controls[0], args.time_scale, at);
    }
    let graph = Arc::new(graph);
    let mut outcomes = Vec::new();
    for control in controls {
        let outcome = measure(args, &graph, control, divided)?;
        if !args.json {
            writeln!(std::io::stdout(), "{}", table::text(&outcome))?;
        }
        outcomes.push(outcome);
    }
    if args.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&outcomes)?)?;
    }
    if outcomes.iter().any(|of| !of.valid) {
        writeln!(std::io::stderr(), "not valid: the machine was too busy, or calls failed")?;
        std::process::exit(1);
    }
    Ok(())
}

fn graph(args: &Args) -> Result<(Graph, u32)> {
    let name = args.file.display();
    let text = std::fs::read_to_string(&args.file).with_context(|| name.to_string())?;
    let file: GraphFile = toml::from_str(&text).with_context(|| name.to_string())?;
    let whole = Graph::new(&file).with_context(|| name.to_string())?;
    for (option, value) in [("--load", args.load), ("--time-scale", args.time_scale)] {
        ensure!(value > 0.0 && value <= 1e3, "{option} {value}: must be a number up to 1000");
    }
    let count = whole.services.iter().map(|of| of.instances).sum::<u32>();
    let divides = |by: &u32| whole.services.iter().all(|of| of.instances % by == 0);
    let fits = |by: &u32| count / by <= PROCESSES_MOST;
    let by = args.divide.unwrap_or_else(|| {
        let mut divisors = (1..=count).filter(divides);
        let first = divisors.clone().find(fits);
        first.or_else(|| divisors.next_back()).unwrap_or(1)
    });
    let mut graph = whole.loaded(args.load).divided(by)?;
    for name in &args.without {
        graph = graph.without(name)?;
    }
    for service in &graph.services {
        let name = &service.name;
        ensure!(
            service.is_steady(),
            "service {name}: live processes do not support changes; leave out changes_at, \
             fluctuates, fault and picks"
        );
    }
    Ok((graph, by))
}

/// Runs the graph under one control.
fn measure(args: &Args, graph: &Arc<Graph>, control: Control, divided: u32) -> Result<Outcome> {
    let seconds = graph.duration_ns as f64 / 1e9 * args.time_scale;
    writeln!(std::io::stderr(), "{control}: {seconds:.0} s")?;
    let count = graph.services.iter().map(|of| of.instances).sum();
    let file = args.file.to_str().context("the file name is not UTF-8")?;
    let (name, scale, by) = (control.to_string(), args.time_scale.to_string(), divided.to_string());
    let words = ["live", file, "--control", &name, "--time-scale", &scale, "--divide", &by];
    let (system, addresses) = System::start(&words.map(str::to_owned), count)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (before, cpu_before) = (machine()?, process::cpu_ns());
    let start = std::time::Instant::now();
    let seen = runtime.block_on(async {
        let clock = Clock::new(Instant::now(), args.time_scale);
        let mut entries = Vec::new();
        for &address in &addresses[..graph.services[0].instances as usize] {
            entries.push(rpc::connect(address).await?);
        }
        clients::run(graph, entries, (args.seed, !control.is_bare()), clock).await
    })?;
    let reports = system.stop()?;
    let cores = std::thread::available_parallelism()?.get() as f64;
    let of_all = |ns: u64| ns as f64 / start.elapsed().as_nanos() as f64 / cores;
    let after = machine()?;
    let cpu = Cpu {
        processes: of_all(reports.iter().map(|of| of.cpu_ns).sum()),
        clients: of_all(process::cpu_ns() - cpu_before),
        machine: (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64,
    };
    drop(runtime);
    let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let plan = Plan { threads: 1, percentiles: &[], progress: &progress, stop: &stop };
    let simulated = graph::run(graph, control, args.seed, &plan);
    let mut simulated = simulated.context("it was stopped")?;
    simulated.workflows.iter_mut().chain([&mut simulated.all]).for_each(|of| of.series.clear());
    let lag_ms = seen.lag_ns as f64 / 1e6 / seen.sent.max(1) as f64 * args.time_scale;
    Ok(Outcome {
        live: true,
        valid: cpu.processes + cpu.clients <= CPU_MOST && lag_ms <= LAG_MOST_MS && seen.errors == 0,
        time_scale: args.time_scale,
        divided,
        instances: graph.services.iter().map(|of| (of.name.clone(), of.instances)).collect(),
        cpu,
        errors: seen.errors,
        error: seen.error.clone(),
        lag_ms,
        measured: Replicated {
            mean: outcome(graph, control, seen, &reports, args.time_scale),
            ci95: Value::Null,
            replications: 1,
        },
        simulated,
    })
}

/// Combines the results of the clients and the reports of the processes in the form of the
/// simulator's results.
fn outcome(
    graph: &Graph,
    control: Control,
    mut seen: Seen,
    reports: &[Report],
    time_scale: f64,
) -> GraphOutcome {
    let duration = graph.duration_ns as f64 / 1e9;
    let mut services = Vec::new();
    let mut rest = reports;
    for (at, service) in graph.services.iter().enumerate() {
        let (of, others) = rest.split_at(service.instances as usize);
        rest = others;
        let per_second =
            |count: fn(&Report) -> u64| of.iter().map(count).sum::<u64>() as f64 / duration;
        let used = |resource: usize| {
            let slots = service.resources[resource].slots * service.instances;
            let busy_ns: u64 = of.iter().map(|report| report.busy_ns[resource]).sum();
            busy_ns as f64 / 1e9 / (f64::from(slots) * duration * time_scale)
        };
        let named = service.names.iter().enumerate();
        services.push(ServiceOutcome {
            name: service.name.clone(),
            dropped_at_admission: per_second(|of| of.turned_away),
            expired: per_second(|of| of.expired),
            utilization: named.map(|(resource, name)| (name.clone(), used(resource))).collect(),
        });
        for (workflow, book) in seen.books.iter_mut().enumerate() {
            for (second, sample) in book.series.iter_mut().enumerate() {
                sample.rates.resize(graph.services.len(), -1.0);
                let rate = |report: &Report| {
                    report.rates.get(second).map(|of| of[workflow]).filter(|&rate| rate >= 0.0)
                };
                sample.rates[at] = of.iter().map(rate).sum::<Option<f64>>().unwrap_or(-1.0);
            }
        }
    }
    let work_ns: u64 = reports.iter().flat_map(|report| &report.work_ns).sum();
    let work_ns = work_ns as f64 / time_scale;
    GraphOutcome {
        control: control.to_string(),
        wasted_work: (1.0 - seen.good_ns as f64 / work_ns.max(1.0)).max(0.0),
        workflows: seen.books.iter_mut().map(|book| book.outcome(graph)).collect(),
        all: seen.all.outcome(graph),
        services,
    }
}

/// Returns the busy and the total time of all processors since the start of the machine, in ticks.
fn machine() -> Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).filter_map(|of| of.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal. Guest time is included in user.
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}
