//! A graph of services as real processes: what `curtail graph` simulates, over gRPC and loopback
//! TCP.
//!
//! Source: document 002 §5.3. Each instance is a process, with or without the layers of
//! `curtail-flow`. The file, its clients and the random draws of requests are those of the
//! simulator. The number of processes of each service and the load are divided by the lowest number
//! that leaves at most 8 processes. The results have the same form as those of `curtail graph --json`, and their times are the file's. They include
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
mod work;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
use xtask::process::{Process, tied};

use clients::Seen;
use clock::Clock;
use process::Report;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Graph file, in TOML
    file: PathBuf,
    /// Control: `timeouts`, parts of `fq+DISCIPLINE+rc`, or a method of other authors: google,
    /// gradient2, dagor, prices (repeatable) [default: timeouts, fifo+rc]
    #[arg(long, value_name = "CONTROL")]
    control: Vec<Control>,
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
pub(crate) struct Outcome {
    #[serde(flatten)]
    measured: Replicated,
    live: bool,
    /// Whether the machine had enough capacity to spare and no call failed.
    pub(crate) valid: bool,
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
/// The seed of the random draws.
const SEED: u64 = 42;

pub(crate) fn run(args: &Args) -> Result<Vec<Outcome>> {
    let (graph, divided) = graph(args)?;
    let mut controls = args.control.clone();
    if controls.is_empty() {
        let default = ["timeouts", "fifo+rc"].map(str::parse).into_iter();
        controls = default.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
    }
    if let Some(at) = args.process {
        process::run(&graph, controls[0], args.time_scale, at)?;
    }
    let graph = Arc::new(graph);
    controls.into_iter().map(|control| measure(args, &graph, control, divided)).collect()
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
    let mut divisors = (1..=count).filter(divides);
    let first = divisors.clone().find(fits);
    let by = first.or_else(|| divisors.next_back()).unwrap_or(1);
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

/// Starts all processes and connects them. Each ends with this process.
fn start(
    args: &Args,
    control: Control,
    count: u32,
    logs: &Path,
) -> Result<(Vec<Process>, Vec<SocketAddr>)> {
    let us = std::env::current_exe().context("cannot find this program")?;
    let (mut all, mut addresses) = (Vec::new(), Vec::new());
    for at in 0..count {
        let mut command = tied(&us);
        command.arg("live").arg(&args.file).args(["--control", &control.to_string()]);
        command.args(["--time-scale", &args.time_scale.to_string(), "--process", &at.to_string()]);
        all.push(Process::start(&format!("process-{at}"), command, logs)?);
    }
    for process in &mut all {
        addresses.push(process.announced()?[0]);
    }
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    all.iter_mut().try_for_each(|process| process.tell(&texts.join(" ")))?;
    Ok((all, addresses))
}

/// Runs the graph under one control.
fn measure(args: &Args, graph: &Arc<Graph>, control: Control, divided: u32) -> Result<Outcome> {
    let seconds = graph.duration_ns as f64 / 1e9 * args.time_scale;
    eprintln!("{control}: {seconds:.0} s");
    let count = graph.services.iter().map(|of| of.instances).sum();
    let logs = tempfile::tempdir()?;
    let (processes, addresses) = start(args, control, count, logs.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (before, cpu_before) = (machine()?, process::cpu_ns());
    let start = std::time::Instant::now();
    let seen = runtime.block_on(async {
        let clock = Clock::new(Instant::now(), args.time_scale);
        let mut entries = Vec::new();
        for &address in &addresses[..graph.services[0].instances as usize] {
            entries.push(rpc::connect(address).await?);
        }
        clients::run(graph, entries, !control.is_bare(), clock).await
    })?;
    let reports: Vec<Report> =
        processes.into_iter().map(Process::document).collect::<Result<_>>()?;
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
    let simulated = graph::run(graph, control, SEED, &plan);
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
