//! Runs a case: both sides take turns in rounds, and the results of the rounds are combined.
//!
//! Both servers run for all rounds, and one is idle during the other's turn. The turns of a round
//! have the same requests at the same times.

use std::future::pending;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use curtail_load::{Extent, Pace, Plan, Profile, Report, run};
use curtail_machine::{Rounds, STOLEN_MAX, Stolen};
use curtail_stats::{Ratio, ratio};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;
use xtask::process::Process;

use crate::profile::{self, Profiles};
use crate::requests::{Pool, Traffic};
use crate::server::{App, Change, Figures, Server, Setup, prepare};

/// Published changes, in percent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) mean: [f64; 2],
    pub(crate) p99: [f64; 2],
}

/// The client that generates the load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) rate: f64,
    /// Sets the rate to this share of the capacity of the first side. The search for the capacity
    /// starts at `rate`.
    pub(crate) of_capacity: Option<f64>,
    connections: usize,
    #[serde(default = "one")]
    pipeline: usize,
    processor: String,
    /// Whether the client spins instead of sleeping.
    #[serde(default)]
    spin: bool,
}

fn one() -> usize {
    1
}

/// Two sides that differ in one knob.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    knob: String,
    published: Published,
    server: Setup,
    pub(crate) client: Client,
    pub(crate) traffic: Traffic,
    before: Change,
    after: Change,
}

/// The number of rounds, the length of a turn, and the program that profiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort<'a> {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) curtail: Option<&'a Path>,
}

/// The factor by which each step of the search for the capacity raises the rate, and the maximum
/// number of steps.
const STEP: f64 = 1.05;
const STEPS_MAX: u32 = 60;
/// The number of turns in a step. The best of them counts, because disturbances of the machine can
/// only raise a median.
const TURNS: u64 = 3;
/// A median above this, in µs, indicates a growing queue.
const SATURATED_US: f64 = 1_000.0;
/// If this many rounds have failed, the case fails.
const FAILED_MAX: u32 = 3;

/// The warm-up of each load.
const WARM_UP_S: f64 = 0.05;
/// The time that a profiler needs to attach and calibrate itself.
const ATTACHING_S: f64 = 1.5;
/// The length of a part of a turn. At least one part in `PARTS_OF` counts.
const PART_S: f64 = 0.22;
const PARTS_OF: usize = 4;

/// The results of a case.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) knob: String,
    pub(crate) pool: Pool,
    pub(crate) rate: f64,
    pub(crate) published: Published,
    pub(crate) mean: Ratio,
    pub(crate) p50: Ratio,
    /// This percentile is less affected by the machine's own hiccups than p99.
    pub(crate) p95: Ratio,
    pub(crate) p99: Ratio,
    /// The medians of the turns, before and after.
    pub(crate) medians: [Figures; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    profiles: Option<Profiles>,
    /// The last profile of a side that is profiled during its turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Value>,
}

/// A turn, and the share of a processor that the hypervisor took during it.
struct Turn {
    figures: Figures,
    stolen: f64,
}

struct Side {
    server: Server,
    change: Change,
}

/// A case whose servers run.
struct Running {
    case: Case,
    runtime: Runtime,
    sides: [Side; 2],
}

/// Runs a case.
pub(crate) fn take(case: Case, effort: Effort<'_>) -> Result<Outcome> {
    let mut running = Running::start(case)?;
    if let Some(share) = running.case.client.of_capacity {
        let rate = (share * running.capacity()?).round();
        running.case.client.rate = rate;
        eprintln!("{}: {rate} requests/s", running.case.name);
    }
    let (mut profile, mut profiles) = (None, None);
    let rounds = running.rounds(effort, &mut profile)?;
    if let Some(curtail) = effort.curtail.filter(|_| !running.is_profiled()) {
        let servers = running.sides.each_ref().map(|side| &side.server);
        let load = |at: usize, seconds| running.load(at, 1, seconds).map(drop);
        profiles = Some(profile::both(curtail, servers, load)?);
    }
    outcome(running.case, &rounds, profiles, profile)
}

fn outcome(
    case: Case,
    rounds: &[Vec<Turn>],
    profiles: Option<Profiles>,
    profile: Option<Value>,
) -> Result<Outcome> {
    let figure =
        |side: usize, name: &'static str| rounds.iter().map(move |round| round[side].figures[name]);
    let medians = [0, 1].map(|side| {
        let names = rounds[0][side].figures.keys();
        names.map(|name| (*name, ratio(figure(side, name)).value)).collect::<Figures>()
    });
    for turn in &medians {
        let (served, rate) = (turn["achieved_rate"], case.client.rate);
        ensure!(
            served >= 0.97 * rate,
            "only {served:.0} of {rate} requests/s were served: lower the rate"
        );
    }
    let change = |name| ratio(figure(1, name).zip(figure(0, name)).map(|(b, a)| b / a));
    Ok(Outcome {
        name: case.name,
        knob: case.knob,
        pool: case.traffic.pool,
        rate: case.client.rate,
        published: case.published,
        mean: change("mean_us"),
        p50: change("p50_us"),
        p95: change("p95_us"),
        p99: change("p99_us"),
        medians,
        profiles,
        profile,
    })
}

impl Running {
    /// Starts both servers, and fills them if they are caches.
    fn start(case: Case) -> Result<Self> {
        let builds = prepare(case.server.app)?;
        let is_cache = case.server.app == App::Memcached;
        let files = if is_cache { Vec::new() } else { case.traffic.files() };
        let side = |change: &Change| {
            let server = Server::start(&case.server, change, &builds, &files)?;
            anyhow::Ok(Side { server, change: change.clone() })
        };
        let sides = [side(&case.before)?, side(&case.after)?];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let running = Self { case, runtime, sides };
        for side in running.sides.iter().filter(|_| is_cache) {
            let mut plan = running.plan(side)?;
            plan.queries = running.case.traffic.fill();
            (plan.pace, plan.connections) = (Pace::Closed, 8);
            plan.extent = Extent::Requests(plan.queries.len() as u64);
            plan.protocol.batch = curtail_load::Batch::Off;
            running.run(&plan)?;
        }
        Ok(running)
    }

    fn is_profiled(&self) -> bool {
        self.sides.iter().any(|side| side.change.profile.is_some())
    }

    /// Runs the rounds, and keeps the last profile of a side that is profiled during its turns. A
    /// round that fails is run again.
    fn rounds(&self, effort: Effort<'_>, profile: &mut Option<Value>) -> Result<Vec<Vec<Turn>>> {
        let name = &self.case.name;
        let mut rounds = Rounds::new(self.sides.len(), effort.rounds);
        let mut failed = 0;
        while let Some(round) = rounds.begin() {
            eprintln!("{name}: round {} of {}", round.calm + 1, effort.rounds);
            let turns = round.turns(|side| {
                let profiler = self.profiler(&self.sides[side], effort)?;
                let turn = self.turn(side, round.number as u64 + 1, effort.seconds);
                if let Some(profiler) = profiler {
                    *profile = Some(profiler.document()?);
                }
                turn
            });
            match turns {
                Ok(turns) => {
                    let stolen = turns.iter().map(|turn| turn.stolen).fold(0.0, f64::max);
                    rounds.end(turns, stolen);
                }
                Err(error) => {
                    failed += 1;
                    ensure!(failed < FAILED_MAX, "{error:#}");
                    eprintln!("{name}: the round failed: {error:#}");
                }
            }
        }
        if rounds.disturbed() > 0 {
            eprintln!("{name}: {} rounds were disturbed", rounds.disturbed());
        }
        let rounds = rounds.finish();
        ensure!(!rounds.is_empty(), "every round failed");
        Ok(rounds)
    }

    fn plan(&self, side: &Side) -> Result<Plan> {
        let (client, address) = (&self.case.client, side.server.address);
        let scheme = self.case.server.app.scheme();
        let mut plan = Plan::new(format!("{scheme}://{address}").parse()?, client.rate);
        plan.connections = client.connections;
        plan.protocol.pipeline = client.pipeline;
        if let Some(batch) = &side.change.batch {
            plan.protocol.batch = batch.parse()?;
        }
        let processors = client.processor.parse();
        plan.processors = processors.map_err(|why| anyhow!("client.processor: {why}"))?;
        plan.spin = client.spin;
        Ok(plan)
    }

    /// Runs a load. Rejects one with failed requests, because it proves nothing about a knob. Other
    /// defects of a report concern the precision of percentiles, which the rounds reveal.
    fn run(&self, plan: &Plan) -> Result<Report> {
        let report = self.runtime.block_on(run(plan, pending(), |_| {}))?;
        // memcached refuses an update if all items that it could evict are in use.
        let Report { requests, errors, .. } = &report;
        ensure!(
            errors.total() == errors.refused && errors.refused * 100 <= *requests,
            "some of {requests} requests failed: {errors:?}"
        );
        Ok(report)
    }

    /// If this side is profiled, starts a profiler that runs from the warm-up until after the turn.
    fn profiler(&self, side: &Side, effort: Effort<'_>) -> Result<Option<Process>> {
        let Some(sampling) = &side.change.profile else { return Ok(None) };
        let curtail =
            effort.curtail.context("the case profiles: set the program with --curtail")?;
        let seconds = (ATTACHING_S + effort.seconds).to_string() + "s";
        let more = ["--sampling", sampling, "--duration", &seconds];
        profile::start(curtail, &side.server, &more).map(Some)
    }

    /// Returns the highest rate at which no queue grows. The search starts at the case's rate.
    fn capacity(&mut self) -> Result<f64> {
        for _ in 0..STEPS_MAX {
            let mut best = f64::INFINITY;
            for seed in 1..=TURNS {
                best = self.load(0, seed, 0.25)?.figures["p50_us"].min(best);
            }
            if best > SATURATED_US {
                return Ok(self.case.client.rate / STEP);
            }
            self.case.client.rate *= STEP;
        }
        let rate = self.case.client.rate;
        bail!("{rate} requests/s are below its capacity: begin with a higher rate")
    }

    /// Runs a turn. A turn with a profiler is too long to be free of the machine's hiccups. It is
    /// divided into parts, and the result is the mean of the undisturbed ones.
    fn turn(&self, side: usize, seed: u64, seconds: f64) -> Result<Turn> {
        if !self.is_profiled() {
            return self.load(side, seed, seconds);
        }
        let (begin, mut parts) = (Instant::now(), Vec::new());
        for part in 0_u64.. {
            let from = begin.elapsed().as_secs_f64() - ATTACHING_S;
            if from > seconds && !parts.is_empty() {
                break;
            }
            let turn = self.load(side, seed << 32 | part, PART_S)?;
            parts.extend(Some(turn).filter(|_| from > 0.0));
        }
        parts.sort_by(|a, b| a.stolen.total_cmp(&b.stolen));
        let quiet = parts.iter().filter(|part| part.stolen < STOLEN_MAX).count();
        parts.truncate(quiet.max(parts.len().div_ceil(PARTS_OF)));
        let mean =
            |of: &dyn Fn(&Turn) -> f64| parts.iter().map(of).sum::<f64>() / parts.len() as f64;
        let names = parts[0].figures.keys();
        let figures = names.map(|name| (*name, mean(&|part| part.figures[name]))).collect();
        Ok(Turn { figures, stolen: mean(&|part| part.stolen) })
    }

    /// Runs a load. Returns the client's latencies, and the server's work per request.
    fn load(&self, side: usize, seed: u64, seconds: f64) -> Result<Turn> {
        let (Case { server, client, traffic, .. }, side) = (&self.case, &self.sides[side]);
        let mut plan = self.plan(side)?;
        plan.queries = match server.app {
            App::Memcached => traffic.commands(seed),
            App::Httpd => traffic.paths(seed),
        };
        let (profile, arrivals) = (Profile::Steady(client.rate), traffic.arrivals(seed));
        (plan.pace, plan.seed) = (Pace::Open { profile, arrivals }, seed);
        plan.extent = Extent::Duration { ns: (seconds * 1e9) as u64 };
        plan.warmup_ns = (WARM_UP_S * 1e9) as u64;
        let (before, stolen) = (side.server.work()?, Stolen::start());
        let report = self.run(&plan)?;
        let (mut figures, stolen) = (side.server.work()?, stolen.share());
        let requests = (report.achieved_rate * (seconds + WARM_UP_S)).max(1.0);
        figures.iter_mut().for_each(|(name, now)| *now = (*now - before[name]) / requests);
        let latency = report.latency_ns;
        let latencies = [
            ("mean_us", latency.mean),
            ("p50_us", latency.p50),
            ("p95_us", latency.p95),
            ("p99_us", latency.p99),
        ];
        let micros = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e3);
        figures.extend(latencies.map(|(name, ns)| (name, micros(ns))));
        figures.insert("achieved_rate", report.achieved_rate);
        Ok(Turn { figures, stolen })
    }
}

/// Returns the cases.
pub(crate) fn cases() -> Result<Vec<Case>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Cases {
        case: Vec<Case>,
    }
    let cases: Cases = toml::from_str(include_str!("../cases.toml")).context("cases.toml")?;
    Ok(cases.case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_cases_is_valid() {
        assert_eq!(cases().expect("it is valid").len(), 8);
    }
}
