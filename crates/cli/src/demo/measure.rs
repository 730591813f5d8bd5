//! Measures the cells in sequence: each policy at each load, always with the same requests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curtail_kernel::Limits;
use curtail_load::{Extent, Outcome, Plan as LoadPlan, Snapshot};
use curtail_machine::Reading;
use curtail_report::columns::{Kind, Value, Writer};
use curtail_report::number::or_none;
use curtail_search::root_server::ShardTiming;
use indicatif::ProgressBar;

use super::args::Plan;
use super::cluster::{Cluster, pause};
use super::results::{Latencies, LoadPoint, Results};
use crate::child::Process;
use crate::exit::{Stop, lacking};
use crate::run;

/// After this many consecutive cells were disturbed twice, the machine counts as permanently busy,
/// and further cells are not repeated.
const REPEATS_IN_VAIN: u32 = 2;

/// The roots of the policies that learn. They keep running when the load changes, as in a real
/// service, and so keep what they have learned. Other policies get a new root for each cell.
type Learners = BTreeMap<String, Process>;

/// Measures every policy at every load, and repeats cells that other processes disturbed. The
/// policies run in sequence at each load, so that background work on the machine affects them
/// alike.
pub(super) async fn all(
    plan: &Plan<'_>,
    queries: &[String],
    cluster: &mut Cluster,
    results: &mut Results,
) -> Result<(), Stop> {
    let warmup = plan.warmup_ns() as f64 / 1e9;
    let seconds = |load: f64| plan.requests as f64 / plan.rate(load) + warmup;
    let total: f64 = plan.loads.iter().map(|&load| seconds(load)).sum();
    let bar = run::bar("measuring", (total * plan.policies.len() as f64 * 10.0) as u64);
    let mut done = 0.0;
    let (mut learners, mut in_vain) = (Learners::new(), 0);
    let mut timings = plan.args.timings.then(|| Timings::new(&plan.args.out));
    for (number, &load) in plan.loads.iter().enumerate() {
        let targets = targets(plan, queries, number);
        // Rotate the policies, so that no policy is always first.
        let policies = plan.policies.iter().cycle().skip(number);
        for (name, policy) in policies.take(plan.policies.len()) {
            let of = Of { bar: &bar, name, number, done };
            let learns = policy.learner(&Limits::default()).is_some();
            let mut best = cell(plan, &targets, &of, cluster, &mut learners, learns).await?;
            if best.0.disturbed && in_vain < REPEATS_IN_VAIN {
                bar.println(line(name, &best.0) + "  (disturbed, repeated)");
                bar.inc_length((seconds(load) * 10.0) as u64);
                done += seconds(load);
                let of = Of { done, ..of };
                let again = cell(plan, &targets, &of, cluster, &mut learners, learns).await?;
                in_vain = if again.0.disturbed { in_vain + 1 } else { 0 };
                let taken = |cell: &LoadPoint| cell.machine.map_or(0.0, |taken| taken.sum());
                if taken(&again.0) < taken(&best.0) {
                    best = again;
                }
                best.0.repeated = true;
            }
            let (cell, responses) = best;
            if let Some(timings) = &mut timings {
                timings.write(load, name, &responses)?;
            }
            bar.println(line(name, &cell));
            results.policies.entry(name.clone()).or_default().push(cell);
            done += seconds(load);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Measures a cell. A policy that learns keeps its root; any other policy gets a new one.
async fn cell(
    plan: &Plan<'_>,
    targets: &[String],
    of: &Of<'_>,
    cluster: &mut Cluster,
    learners: &mut Learners,
    learns: bool,
) -> Result<(LoadPoint, Vec<Timed>), Stop> {
    let root = match learners.remove(of.name) {
        Some(root) => root,
        None => cluster.root(plan, of.name).await?,
    };
    let leaves = cluster.processes();
    let pauses = plan.args.pause.map(|p| pause(p, &leaves, of.number, plan.args.seed.seed));
    let own: Vec<u32> = leaves.into_iter().chain(root.id()).collect();
    let before = Reading::take(&own);
    let (mut cell, responses) = one(plan, targets, of, root.address).await?;
    let machine = Reading::take(&own).zip(before).and_then(|(now, before)| now.since(&before));
    (cell.machine, cell.disturbed) = (machine, machine.is_some_and(|taken| taken.is_much()));
    drop(pauses);
    if learns {
        learners.insert(of.name.to_owned(), root);
    } else {
        root.end().await;
    }
    cluster.is_whole()?;
    Ok((cell, responses))
}

/// The requests of a load. A unique number makes each request a different query with its own
/// service time and hiccups, which are the same for every policy.
fn targets(plan: &Plan<'_>, queries: &[String], load: usize) -> Vec<String> {
    let warmup = plan.rate(plan.loads[load]) * plan.warmup_ns() as f64 / 1e9;
    // Arrivals are random, so prepare more than needed.
    let count = plan.requests as usize + 2 * warmup as usize + 1_000;
    let target = |(at, query): (usize, &String)| {
        let query =
            percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
        format!("/search?q={query}&k=10&n={load}-{at}")
    };
    queries.iter().cycle().take(count).enumerate().map(target).collect()
}

/// The cell that is currently being measured.
#[derive(Clone, Copy)]
struct Of<'a> {
    bar: &'a ProgressBar,
    name: &'a str,
    /// Index of the load.
    number: usize,
    /// Seconds of measurement before the start of this cell.
    done: f64,
}

async fn one(
    plan: &Plan<'_>,
    targets: &[String],
    of: &Of<'_>,
    root: SocketAddr,
) -> Result<(LoadPoint, Vec<Timed>), Stop> {
    let load = plan.loads[of.number];
    let target = format!("http://{root}/search").parse();
    let target = target.map_err(|error| lacking!("the root's address: {error}"))?;
    let load_plan = LoadPlan {
        extent: Extent::Requests(plan.requests),
        connections: 512,
        queries: targets.to_vec(),
        warmup_ns: plan.warmup_ns(),
        // Each load has its own arrivals, which are the same for every policy.
        seed: plan.args.seed.seed ^ ((of.number as u64) << 32),
        ..LoadPlan::new(target, plan.rate(load))
    };
    let (mut copies, mut responses) = (0, 0);
    let mut timed = Vec::new();
    let mut latencies: Vec<(u64, u64)> = Vec::new();
    let on_response = |response: &Outcome, _| {
        let header = response.head().and_then(|head| head.header("x-curtail-copies"));
        let number = header.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
        copies += number.unwrap_or(0);
        responses += u64::from(number.is_some());
        if response.good() {
            latencies.push((response.slot.index, response.latency_ns()));
        }
        if plan.args.timings {
            timed.extend(Timed::of(response));
        }
        ControlFlow::Continue(())
    };
    let progress = |at: &Snapshot| {
        let p99 = shown(at.p99_ns.map(|ns| ns as f64 / 1e6));
        let (name, percent) = (of.name, load * 100.0);
        of.bar.set_position(((of.done + at.elapsed_ns as f64 / 1e9) * 10.0) as u64);
        of.bar.set_message(format!("{name} at {percent:.0} %   p99 so far {p99}"));
    };
    let running =
        curtail_load::run_observed(&load_plan, std::future::pending(), progress, on_response);
    let report = running.await.map_err(Stop::lacking)?;
    let queries = responses * u64::from(plan.args.shards);
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    let cell = LoadPoint {
        load,
        p50_ms: ms(report.latency_ns.p50),
        p99_ms: ms(report.latency_ns.p99),
        p999_ms: ms(report.latency_ns.p999),
        copies_per_query: copies as f64 / queries.max(1) as f64,
        // `None` only for a closed loop.
        offered_rate: report.offered_rate.unwrap_or_default(),
        achieved_rate: report.achieved_rate,
        requests: report.requests,
        errors: report.errors.total(),
        machine: None,
        disturbed: false,
        repeated: false,
        valid: report.valid,
        invalid_because: report.invalid_because.iter().map(ToString::to_string).collect(),
        histogram: report.all(),
        withheld: report.withheld.is_some(),
        p99_gain: None,
        p99_gain_over_learned: None,
        latencies: Latencies(latencies),
    };
    Ok((cell, timed))
}

fn shown(ms: Option<f64>) -> String {
    or_none(ms, |ms| format!("{ms:.1} ms"))
}

fn line(name: &str, cell: &LoadPoint) -> String {
    let mark = if cell.valid { "" } else { "  (invalid)" };
    let (percent, copies) = (cell.load * 100.0, cell.copies_per_query);
    let [p50, p99] = [cell.p50_ms, cell.p99_ms].map(shown);
    format!("{percent:>4.0} %  {name:<16} p50 {p50:>9}  p99 {p99:>9}  copies {copies:.2}{mark}")
}

/// The name of the file with the timings of each request, shard by shard. The difference between a
/// column and the one before it is the time spent in queues, on the network and in timers. The client
/// measures `latency_ns` from the time when the request was due. The other times are the fields of
/// [`ShardTiming`]. Only good responses have rows.
pub(super) const FILE: &str = "timings.csv";

/// A good response. The timing header is parsed later, so that parsing does not disturb the
/// requests that are still being measured.
pub(super) struct Timed {
    request: u64,
    latency_ns: u64,
    timing: Vec<u8>,
}

impl Timed {
    pub(super) fn of(response: &Outcome) -> Option<Self> {
        let head = response.head().filter(|_| response.status() == Some(200))?;
        let timing = head.header("server-timing")?.to_owned();
        Some(Self { request: response.slot.index, latency_ns: response.latency_ns(), timing })
    }
}

/// The table. The file of an earlier run stays until the first rows replace it.
pub(super) struct Timings {
    path: PathBuf,
    file: Option<Writer<File>>,
}

impl Timings {
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join(FILE), file: None }
    }

    /// Adds the responses of a cell.
    pub(super) fn write(
        &mut self,
        load: f64,
        policy: &str,
        responses: &[Timed],
    ) -> Result<(), Stop> {
        self.append(load, policy, responses)
            .map_err(|error| lacking!("{}: cannot be written: {error}", self.path.display()))
    }

    fn append(&mut self, load: f64, policy: &str, responses: &[Timed]) -> io::Result<()> {
        const TIMES: [&str; 4] = ["took_ns", "ran_ns", "served_ns", "drawn_ns"];
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let known = [("load", Kind::Number), ("policy", Kind::Text)];
                let counts = ["request", "latency_ns", "shard"].into_iter().chain(TIMES);
                let all = known.into_iter().chain(counts.map(|name| (name, Kind::Whole)));
                let schema = all.map(|(name, kind)| (name.to_owned(), kind)).collect();
                self.file.insert(Writer::csv(File::create(&self.path)?, &schema)?)
            }
        };
        let ns = |time: Option<Duration>| Value::from(time.map(|time| time.as_nanos() as u64));
        let mut rows = Vec::new();
        for Timed { request, latency_ns, timing } in responses {
            for (shard, of) in (0_u64..).zip(ShardTiming::read_all(timing)) {
                let known = [Value::from(load), policy.to_owned().into()];
                let counts = [*request, *latency_ns, shard].map(Value::from);
                let times = [Some(of.took), Some(of.ran), of.served, of.drawn].map(ns);
                rows.push(known.into_iter().chain(counts).chain(times).collect());
            }
        }
        file.write(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_row_per_shard() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join(FILE);
        std::fs::write(&file, "of an earlier run").expect("a file");
        let mut timings = Timings::new(folder.path());
        let timing =
            b"took-1;dur=2, ran-1;dur=1, took-0;dur=4, ran-0;dur=3, served-0;dur=2.5".to_vec();
        let response = |request| Timed { request, latency_ns: 5_000_000, timing: timing.clone() };
        timings.write(0.2, "psq", &[response(7)]).expect("it is written");
        timings.write(0.4, "laedge", &[response(8)]).expect("it is written");
        let text = std::fs::read_to_string(file).expect("the file");
        let rows = [
            "0.2,psq,7,5000000,0,4000000,3000000,2500000,",
            "0.2,psq,7,5000000,1,2000000,1000000,,",
            "0.4,laedge,8,5000000,0,4000000,3000000,2500000,",
            "0.4,laedge,8,5000000,1,2000000,1000000,,",
        ];
        let header = "load,policy,request,latency_ns,shard,took_ns,ran_ns,served_ns,drawn_ns";
        assert_eq!(text, format!("{header}\n{}\n", rows.join("\n")));
    }
}
