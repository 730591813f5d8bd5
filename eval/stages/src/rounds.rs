//! Runs a case: both sides take turns in rounds, and the results of the rounds are combined.
//!
//! Both servers run for all rounds, and one is idle during the other's turn. The turns of a round
//! have the same requests at the same times, and their order alternates from round to round. The
//! result is the median of the rounds' ratios, because disturbances of the machine change some
//! rounds tenfold. Its interval comes from order statistics, without assumptions about the
//! distribution. A round is repeated if the hypervisor took time from the machine, because such a
//! round is not informative.

use std::future::pending;
use std::path::Path;
use std::process::Child;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use curtail_load::{Extent, Pace, Plan, Profile, Report, run};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::profile::{self, Profiles};
use crate::requests::Traffic;
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
    pub(crate) connections: usize,
    #[serde(default = "one")]
    pub(crate) pipeline: usize,
    /// The client's processor. With `None`, the system chooses the processor.
    pub(crate) processor: Option<String>,
    /// Whether the client spins instead of sleeping.
    #[serde(default)]
    pub(crate) spin: bool,
}

fn one() -> usize {
    1
}

/// Two sides that differ in one knob.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) knob: String,
    pub(crate) published: Published,
    pub(crate) server: Setup,
    pub(crate) client: Client,
    pub(crate) traffic: Traffic,
    pub(crate) before: Change,
    pub(crate) after: Change,
}

impl Case {
    fn is_profiled(&self) -> bool {
        [&self.before, &self.after].iter().any(|change| change.profile.is_some())
    }
}

/// The number of rounds, and the length of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: u64,
    pub(crate) seconds: f64,
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

/// The maximum share of a processor that the hypervisor may take in a round that counts. In a short
/// turn, a single tick of the kernel's clock exceeds this share.
const STOLEN_MAX: f64 = 0.03;
/// The maximum number of rounds that are run per required round. If this many rounds have failed,
/// the case fails.
const REPEATS: usize = 3;

/// The warm-up of each load.
const WARM_UP_S: f64 = 0.05;
/// The time that a profiler needs to attach and calibrate itself.
const ATTACHING_S: f64 = 1.5;
/// The length of a part of a turn. At least one part in `PARTS_OF` counts.
const PART_S: f64 = 0.22;
const PARTS_OF: usize = 4;

/// The probability beyond either end of an interval.
const TAIL: f64 = 0.025;

/// A median of ratios and its 95 % interval. With fewer than 6 rounds the interval is their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The results of a case.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) knob: String,
    pub(crate) pool: crate::requests::Pool,
    pub(crate) rate: f64,
    pub(crate) published: Published,
    pub(crate) mean: Ratio,
    pub(crate) p50: Ratio,
    /// This percentile is less affected by the machine's own hiccups than p99.
    pub(crate) p95: Ratio,
    pub(crate) p99: Ratio,
    pub(crate) verdict: &'static str,
    /// The medians of the turns, before and after.
    pub(crate) medians: [Figures; 2],
    pub(crate) rounds: Vec<[Figures; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profiles: Option<Profiles>,
    /// The last profile of a side that is profiled during its turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<Value>,
}

/// Runs a case.
pub(crate) fn take(
    case: &Case,
    effort: Effort,
    target: &Path,
    curtail: Option<&Path>,
) -> Result<Outcome> {
    let builds = prepare(case.server.app, target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = |change| Side::start(case, change, &builds, &runtime);
    let sides = [start(&case.before)?, start(&case.after)?];
    let mut case = case.clone();
    if let Some(share) = case.client.of_capacity {
        case.client.rate = (share * sides[0].capacity(&case, &runtime)?).round();
        eprintln!("{}: {} requests/s", case.name, case.client.rate);
    }
    let case = &case;
    let (rounds, profile) = turns(case, effort, &sides, curtail, &runtime)?;
    let under_load = |at: usize, seconds: f64| sides[at].turn(case, 1, seconds, &runtime).map(drop);
    let curtail = curtail.filter(|_| !case.is_profiled());
    let profiles = curtail.map(|curtail| {
        profile::both(
            curtail,
            case.server.app,
            [sides[0].server.pid(), sides[1].server.pid()],
            under_load,
        )
    });
    let outcome = outcome(case, rounds, profiles.transpose()?);
    for turn in &outcome.medians {
        let (served, rate) = (turn["achieved_rate"], case.client.rate);
        ensure!(
            served >= 0.97 * rate,
            "only {served:.0} of {rate} requests/s were served: lower the rate"
        );
    }
    Ok(Outcome { profile, ..outcome })
}

/// Returns the rounds, and the last profile of a side that is profiled during its turns. A round
/// that was disturbed by the hypervisor, or that failed, is repeated, up to a limit. The least
/// disturbed rounds count.
fn turns(
    case: &Case,
    effort: Effort,
    sides: &[Side<'_>; 2],
    curtail: Option<&Path>,
    runtime: &Runtime,
) -> Result<(Vec<[Figures; 2]>, Option<Value>)> {
    let worst = |round: &[Figures; 2]| stolen(&round[0]).max(stolen(&round[1]));
    let (mut rounds, mut profile) = (Vec::new(), None);
    let wanted = effort.rounds as usize;
    let (mut taken, mut quiet, mut failed) = (0, 0, 0);
    while quiet < wanted && taken < REPEATS * wanted {
        eprintln!("{}: round {} of {wanted}", case.name, quiet + 1);
        let order = if taken % 2 == 0 { [0, 1] } else { [1, 0] };
        taken += 1;
        let mut turn = [const { Figures::new() }; 2];
        let outcome = order.into_iter().try_for_each(|at| {
            let profiler = sides[at].profiler(case, effort.seconds, curtail)?;
            let figures = sides[at].turn(case, taken as u64, effort.seconds, runtime);
            if let Some(profiler) = profiler {
                profile = Some(profile::finish(profiler)?);
            }
            turn[at] = figures?;
            anyhow::Ok(())
        });
        if let Err(error) = outcome {
            failed += 1;
            ensure!(failed < REPEATS, "{error:#}");
            eprintln!("{}: the round failed: {error:#}", case.name);
            continue;
        }
        quiet += usize::from(worst(&turn) < STOLEN_MAX);
        rounds.push(turn);
    }
    if quiet < taken {
        eprintln!("{}: {} of {taken} rounds were disturbed", case.name, taken - quiet);
        rounds.sort_by(|a, b| worst(a).total_cmp(&worst(b)));
        rounds.truncate(wanted);
    }
    Ok((rounds, profile))
}

/// Returns the processor time per second that the hypervisor took.
fn stolen(turn: &Figures) -> f64 {
    turn["stolen_us"] * turn["achieved_rate"] / 1e6
}

struct Side<'a> {
    server: Server,
    change: &'a Change,
}

impl<'a> Side<'a> {
    fn start(case: &Case, change: &'a Change, builds: &Path, runtime: &Runtime) -> Result<Self> {
        let files = if case.server.app == App::Httpd { case.traffic.files() } else { Vec::new() };
        let side = Self { server: Server::start(&case.server, change, builds, &files)?, change };
        if case.server.app == App::Memcached {
            let mut plan = side.plan(case)?;
            plan.queries = case.traffic.fill();
            (plan.pace, plan.connections) = (Pace::Closed, 8);
            plan.extent = Extent::Requests(plan.queries.len() as u64);
            plan.protocol.batch = curtail_load::Batch::Off;
            good(&runtime.block_on(run(&plan, pending(), |_| {}))?)?;
        }
        Ok(side)
    }

    fn plan(&self, case: &Case) -> Result<Plan> {
        let (client, address) = (&case.client, self.server.address);
        let scheme = if case.server.app == App::Memcached { "memcached" } else { "http" };
        let mut plan = Plan::new(format!("{scheme}://{address}").parse()?, client.rate);
        plan.connections = client.connections;
        plan.protocol.pipeline = client.pipeline;
        if let Some(batch) = &self.change.batch {
            plan.protocol.batch = batch.parse()?;
        }
        if let Some(processor) = &client.processor {
            plan.processors =
                processor.parse().map_err(|why| anyhow!("client.processor: {why}"))?;
        }
        plan.spin = client.spin;
        Ok(plan)
    }

    /// If this side is profiled, starts a profiler that runs from the warm-up until after the turn.
    fn profiler(&self, case: &Case, seconds: f64, curtail: Option<&Path>) -> Result<Option<Child>> {
        let Some(sampling) = &self.change.profile else { return Ok(None) };
        let curtail = curtail.context("the case profiles: set the program with --curtail")?;
        let seconds = (ATTACHING_S + seconds).to_string() + "s";
        let more = ["--sampling", sampling, "--duration", &seconds];
        profile::start(curtail, case.server.app, self.server.pid(), &more).map(Some)
    }

    /// Returns the highest rate at which no queue grows. The search starts at the case's rate.
    fn capacity(&self, case: &Case, runtime: &Runtime) -> Result<f64> {
        let mut case = case.clone();
        for _ in 0..STEPS_MAX {
            let mut best = f64::INFINITY;
            for seed in 1..=TURNS {
                best = self.turn(&case, seed, 0.25, runtime)?["p50_us"].min(best);
            }
            if best > SATURATED_US {
                return Ok(case.client.rate / STEP);
            }
            case.client.rate *= STEP;
        }
        bail!("{} requests/s are below its capacity: begin with a higher rate", case.client.rate)
    }

    /// Runs a turn and returns the figures of the client and the server. A turn with a profiler is
    /// too long to be free of the machine's hiccups. It is divided into parts, and the result is
    /// the mean of the undisturbed ones.
    fn turn(&self, case: &Case, seed: u64, seconds: f64, runtime: &Runtime) -> Result<Figures> {
        if !case.is_profiled() {
            return self.load(case, seed, seconds, runtime);
        }
        let (begin, mut parts) = (Instant::now(), Vec::new());
        let elapsed = || begin.elapsed().as_secs_f64() - ATTACHING_S;
        for part in 0_u64.. {
            let from = elapsed();
            if from > seconds && !parts.is_empty() {
                break;
            }
            let figures = self.load(case, seed << 32 | part, PART_S, runtime)?;
            if from > 0.0 {
                parts.push(figures);
            }
        }
        parts.sort_by(|a, b| stolen(a).total_cmp(&stolen(b)));
        let quiet = parts.iter().filter(|part| stolen(part) < STOLEN_MAX).count();
        parts.truncate(quiet.max(parts.len().div_ceil(PARTS_OF)));
        let mean = |name: &&'static str| {
            (*name, parts.iter().map(|part| part[name]).sum::<f64>() / parts.len() as f64)
        };
        Ok(parts[0].keys().map(mean).collect())
    }

    /// Runs a load. Returns the client's latencies, its own lateness (which is part of them), and
    /// the server's work per request.
    fn load(&self, case: &Case, seed: u64, seconds: f64, runtime: &Runtime) -> Result<Figures> {
        let mut plan = self.plan(case)?;
        let traffic = &case.traffic;
        plan.queries = match case.server.app {
            App::Memcached => traffic.commands(seed),
            App::Httpd => traffic.paths(seed),
        };
        let (profile, arrivals) = (Profile::Steady(case.client.rate), traffic.arrivals(seed));
        (plan.pace, plan.seed) = (Pace::Open { profile, arrivals }, seed);
        plan.extent = Extent::Duration { ns: (seconds * 1e9) as u64 };
        plan.warmup_ns = (WARM_UP_S * 1e9) as u64;
        let (before, sent) = (self.server.work()?, seconds + WARM_UP_S);
        let report = runtime.block_on(run(&plan, pending(), |_| {}))?;
        good(&report)?;
        let requests = (report.achieved_rate * sent).max(1.0);
        let mut figures = self.server.work()?;
        figures.iter_mut().for_each(|(name, now)| *now = (*now - before[name]) / requests);
        let latency = report.latency_ns;
        for (name, ns) in [
            ("mean_us", latency.mean),
            ("p50_us", latency.p50),
            ("p95_us", latency.p95),
            ("p99_us", latency.p99),
            ("late_p99_us", report.schedule_lag_ns.p99),
        ] {
            figures.insert(name, ns.map_or(f64::NAN, |ns| ns as f64 / 1e3));
        }
        figures.insert("achieved_rate", report.achieved_rate);
        Ok(figures)
    }
}

/// Rejects a load with failed requests, because it proves nothing about a knob. Other defects of a
/// report concern the precision of percentiles, which the rounds reveal.
fn good(report: &Report) -> Result<()> {
    // memcached refuses an update if all items that it could evict are in use.
    let errors = report.errors.total() - report.errors.refused;
    ensure!(
        errors == 0 && report.errors.refused * 100 <= report.requests,
        "some of {} requests failed: {:?}",
        report.requests,
        report.errors
    );
    Ok(())
}

fn outcome(case: &Case, rounds: Vec<[Figures; 2]>, profiles: Option<Profiles>) -> Outcome {
    let of = |name: &str| ratio(rounds.iter().map(|[a, b]| b[name] / a[name]).collect());
    let [mean, p50, p95, p99] = ["mean_us", "p50_us", "p95_us", "p99_us"].map(of);
    let medians = [0, 1].map(|side| {
        let median = |name: &'static str| {
            let mut all: Vec<f64> = rounds.iter().map(|round| round[side][name]).collect();
            all.sort_by(f64::total_cmp);
            (name, all[all.len() / 2])
        };
        rounds[0][side].keys().map(|name| median(name)).collect()
    });
    Outcome {
        name: case.name.clone(),
        knob: case.knob.clone(),
        pool: case.traffic.pool,
        rate: case.client.rate,
        published: case.published.clone(),
        mean,
        p50,
        p95,
        p99,
        verdict: verdict(mean, p99),
        medians,
        rounds,
        profiles,
        profile: None,
    }
}

/// Returns the median and its interval from order statistics. The number of values below the true
/// median is binomial with probability 1/2. The interval drops as many values at each end as the
/// tail probability allows.
fn ratio(mut of: Vec<f64>) -> Ratio {
    of.sort_by(f64::total_cmp);
    let (count, last) = (of.len(), of.len() - 1);
    let mut probability = 0.5_f64.powi(count as i32);
    let (mut tail, mut cut) = (probability, 0);
    while cut + 1 < count {
        probability *= (count - cut) as f64 / (cut + 1) as f64;
        tail += probability;
        if tail > TAIL {
            break;
        }
        cut += 1;
    }
    Ratio { value: (of[last / 2] * of[count / 2]).sqrt(), low: of[cut], high: of[last - cut] }
}

fn verdict(mean: Ratio, p99: Ratio) -> &'static str {
    let sign = |of: Ratio| if of.high < 1.0 { -1 } else { i32::from(of.low > 1.0) };
    match (sign(mean), sign(p99)) {
        (-1, -1) => "both better",
        (1, 1) => "both worse",
        (0, 0) => "no difference shown",
        (-1, 0) => "mean better",
        (0, -1) => "tail better",
        (1, 0) => "mean worse",
        (0, 1) => "tail worse",
        (-1, _) => "mean better, tail worse",
        _ => "mean worse, tail better",
    }
}

/// Reads the file of cases.
pub(crate) fn read(path: &Path) -> Result<Vec<Case>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Cases {
        case: Vec<Case>,
    }
    let text = curtail_dist::read_text(path)?;
    let cases: Cases = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(cases.case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_order_statistics() {
        // From tables: the 7th and the 18th of 24, the 10th and the 21st of 30, the 1st and the 6th
        // of 6.
        for (count, low, high) in [(24, 7, 18), (30, 10, 21), (6, 1, 6), (4, 1, 4), (1, 1, 1)] {
            let found = ratio((1..=count).rev().map(f64::from).collect());
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)), "{count}");
        }
        // A single disturbed round does not change the median.
        let found = ratio(vec![0.8, 0.5, 0.8, 50.0]);
        assert!((found.value - 0.8).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_verdict_needs_an_interval_beyond_one() {
        let of = |value: f64| Ratio { value, low: value * 0.9, high: value * 1.1 };
        assert_eq!(verdict(of(0.8), of(0.5)), "both better");
        assert_eq!(verdict(of(0.95), of(0.5)), "tail better");
        assert_eq!(verdict(of(1.05), of(1.0)), "no difference shown");
        assert_eq!(verdict(of(1.2), of(0.8)), "mean worse, tail better");
    }

    #[test]
    fn the_file_of_cases_is_valid() {
        let cases = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases.toml"))).unwrap();
        assert_eq!(cases.len(), 8);
    }
}
