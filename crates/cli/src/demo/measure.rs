//! One cell after the other: a policy at a load, always with the same requests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use curtail_kernel::{Limits, Policy};
use curtail_load::{Answer, Extent, Plan as LoadPlan, Report, Snapshot};
use indicatif::ProgressBar;

use super::args::Plan;
use super::cluster::Cluster;
use super::gain::Latencies;
use super::pause;
use super::results::{Cell, Results};
use super::timings::{self, Timings};
use crate::child::Process;
use crate::exit::Stop;
use crate::progress;

/// Points of a distribution that are kept for plots.
const POINTS: usize = 60;

/// Measures every policy at every load. The policies of one load run one after the other, so that
/// whatever else the machine does meets them alike.
pub(super) async fn all(
    plan: &Plan,
    queries: &[String],
    cluster: &mut Cluster,
    results: &mut Results,
) -> Result<(), Stop> {
    let warmup = plan.warmup_ns() as f64 / 1e9;
    let seconds = |load: f64| plan.requests as f64 / plan.rate(load) + warmup;
    let total: f64 = plan.loads.iter().map(|&load| seconds(load)).sum();
    let total = total * plan.policies.len() as f64;
    let bar = progress::bar("measuring");
    bar.set_length((total * 10.0) as u64);
    let mut done = 0.0;
    let mut roots = Roots::default();
    let mut timings = plan.timings.then(|| Timings::new(&plan.out));
    for (number, &load) in plan.loads.iter().enumerate() {
        let targets = targets(plan, queries, number);
        // Nobody always goes first.
        let policies = plan.policies.iter().cycle().skip(number);
        for (name, policy) in policies.take(plan.policies.len()) {
            let root = roots.take(plan, cluster, name).await?;
            let told = Told { bar: &bar, name, load, done };
            let leaves = cluster.processes();
            let pauses = plan.pause.map(|p| pause::start(p, &leaves, number, plan.seed));
            let (cell, answers) = one(plan, &targets, number, root.address, &told).await?;
            drop(pauses);
            roots.give_back(name, *policy, root).await;
            cluster.is_whole()?;
            if let Some(timings) = &mut timings {
                timings.write(load, name, &answers)?;
            }
            bar.println(line(name, &cell));
            results.policies.entry(name.clone()).or_default().push(cell);
            done += seconds(load);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// The roots of policies that learn. They are there from load to load, as they would be in a service
/// whose load changes: what they have learned is theirs. All others have a new one for each cell.
#[derive(Default)]
struct Roots(BTreeMap<String, Process>);

impl Roots {
    async fn take(&mut self, plan: &Plan, cluster: &Cluster, name: &str) -> Result<Process, Stop> {
        match self.0.remove(name) {
            Some(root) => Ok(root),
            None => cluster.root(plan, name).await,
        }
    }

    async fn give_back(&mut self, name: &str, policy: Policy, root: Process) {
        if policy.learner(&Limits::default()).is_some() {
            self.0.insert(name.to_owned(), root);
        } else {
            root.end().await;
        }
    }
}

/// The requests of a load. A number of its own makes every request a query of its own, with its own
/// service time and hiccups, and the same for every policy.
fn targets(plan: &Plan, queries: &[String], load: usize) -> Vec<String> {
    let warmup = plan.rate(plan.loads[load]) * plan.warmup_ns() as f64 / 1e9;
    // Arrivals are random: with room to spare.
    let count = plan.requests as usize + 2 * warmup as usize + 1_000;
    let target = |(at, query): (usize, &String)| {
        let query =
            percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
        format!("/search?q={query}&k=10&n={load}-{at}")
    };
    queries.iter().cycle().take(count).enumerate().map(target).collect()
}

struct Told<'a> {
    bar: &'a ProgressBar,
    name: &'a str,
    load: f64,
    /// Seconds of the whole that came before.
    done: f64,
}

async fn one(
    plan: &Plan,
    targets: &[String],
    number: usize,
    root: std::net::SocketAddr,
    told: &Told<'_>,
) -> Result<(Cell, Vec<timings::Answer>), Stop> {
    let target = format!("http://{root}/search").parse();
    let target = target.map_err(|error| Stop::Lacking(format!("the root's address: {error}")))?;
    let load_plan = LoadPlan {
        extent: Extent::Requests(plan.requests),
        connections: 512,
        queries: targets.to_vec(),
        warmup_ns: plan.warmup_ns(),
        // Every load has arrivals of its own, the same for every policy.
        seed: plan.seed ^ ((number as u64) << 32),
        ..LoadPlan::new(target, plan.rate(told.load))
    };
    let (mut copies, mut answers) = (0, 0);
    let mut timed = Vec::new();
    let mut latencies: Vec<(u64, u64)> = Vec::new();
    let on_answer = |answer: &Answer| {
        let said = answer.head.as_ref().and_then(|head| head.header("x-curtail-copies"));
        let said = said.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
        if let Some(said) = said {
            copies += said;
            answers += 1;
        }
        if answer.good {
            latencies.push((answer.index, answer.latency_ns));
        }
        if plan.timings {
            timed.extend(timings::Answer::of(answer));
        }
        ControlFlow::Continue(())
    };
    let progress = |at: &Snapshot| {
        let p99 = at.p99_ns.map_or_else(|| "–".into(), |ns| format!("{:.1} ms", ns as f64 / 1e6));
        let (name, percent) = (told.name, told.load * 100.0);
        told.bar.set_position(((told.done + at.elapsed_ns as f64 / 1e9) * 10.0) as u64);
        told.bar.set_message(format!("{name} at {percent:.0} %   p99 so far {p99}"));
    };
    let running =
        curtail_load::run_observed(&load_plan, std::future::pending(), progress, on_answer);
    let report = running.await.map_err(|error| Stop::Lacking(error.to_string()))?;
    let queries = answers * u64::from(plan.shards);
    let copies_per_query = if queries == 0 { 0.0 } else { copies as f64 / queries as f64 };
    Ok((cell(told.load, &report, copies_per_query, Latencies(latencies)), timed))
}

fn cell(load: f64, report: &Report, copies_per_query: f64, latencies: Latencies) -> Cell {
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    Cell {
        load,
        p50_ms: ms(report.latency_ns.p50),
        p99_ms: ms(report.latency_ns.p99),
        p999_ms: ms(report.latency_ns.p999),
        copies_per_query,
        // It is none for a closed loop only.
        offered_rate: report.offered_rate.unwrap_or_default(),
        achieved_rate: report.achieved_rate,
        requests: report.requests,
        errors: report.errors.total(),
        valid: report.valid,
        invalid_because: report.invalid_because.iter().map(ToString::to_string).collect(),
        ccdf: ccdf(report),
        p99_gain: None,
        latencies,
    }
}

/// The share of requests above a latency, at shares that are evenly spaced on a log scale down to
/// ten samples.
fn ccdf(report: &Report) -> Vec<(f64, f64)> {
    let samples = report.histogram.len();
    if samples < 20 {
        return Vec::new();
    }
    let least = 10.0 / samples as f64;
    let share = |at: usize| least.powf(at as f64 / (POINTS - 1) as f64);
    let point = |share: f64| (report.histogram.value_at_quantile(1.0 - share) as f64 / 1e6, share);
    (0..POINTS).map(|at| point(share(at))).collect()
}

fn line(name: &str, cell: &Cell) -> String {
    let ms = |ms: Option<f64>| ms.map_or_else(|| "–".into(), |ms| format!("{ms:.1} ms"));
    let mark = if cell.valid { "" } else { "  (invalid)" };
    format!(
        "{:>4.0} %  {name:<16} p50 {:>9}  p99 {:>9}  copies {:.2}{mark}",
        cell.load * 100.0,
        ms(cell.p50_ms),
        ms(cell.p99_ms),
        cell.copies_per_query
    )
}
