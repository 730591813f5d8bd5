//! A case: both sides in turn, round by round, and what the rounds say together.
//!
//! Both servers live through all rounds; one is idle while the other's turn lasts. The turns of a round have the same
//! requests at the same times, and swap their order from round to round. The ratio is the median of the rounds' ratios,
//! because the machine disturbs some rounds tenfold; its interval is that of order statistics, free of assumptions.
//! Rounds in which the hypervisor took time from the machine say little of either side and are taken again.

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

/// The load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) rate: f64,
    /// The rate is this share of what the first side can serve, which is searched from `rate` on.
    pub(crate) of_capacity: Option<f64>,
    pub(crate) connections: usize,
    #[serde(default = "one")]
    pub(crate) pipeline: usize,
    /// Its processor; none: wherever the system places it.
    pub(crate) processor: Option<String>,
    /// It never sleeps.
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

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: u64,
    pub(crate) seconds: f64,
}

/// Capacity is searched in steps of this factor, and at most so many.
const STEP: f64 = 1.05;
const STEPS_MAX: u32 = 60;
/// Of a step, the best of so many turns counts: the machine only adds to a median.
const TURNS: u64 = 3;
/// Of this median, a queue grows.
const SATURATED_US: f64 = 1_000.0;

/// Of a processor, in a round that counts. Of a short turn, one tick of the kernel's clock is more.
const STOLEN_MAX: f64 = 0.03;
/// Rounds are taken for each that counts, at most; one fewer may fail.
const REPEATS: usize = 3;

/// Of each load.
const WARM_UP_S: f64 = 0.05;
/// By then, a profiler has attached and calibrated itself.
const ATTACHING_S: f64 = 1.5;
/// A part of a turn, and the least of the parts that count, one in so many.
const PART_S: f64 = 0.22;
const PARTS_OF: usize = 4;

/// The probability beyond either end of an interval.
const TAIL: f64 = 0.025;

/// A median of ratios, and its interval of 95 %; of fewer than 6 rounds, their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// What a case found.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) knob: String,
    pub(crate) pool: crate::requests::Pool,
    pub(crate) rate: f64,
    pub(crate) published: Published,
    pub(crate) mean: Ratio,
    pub(crate) p50: Ratio,
    /// The machine's own hiccups reach less of it than of p99.
    pub(crate) p95: Ratio,
    pub(crate) p99: Ratio,
    pub(crate) verdict: &'static str,
    /// Of the turns, before and after.
    pub(crate) medians: [Figures; 2],
    pub(crate) rounds: Vec<[Figures; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profiles: Option<Profiles>,
    /// The last one of a side that is profiled in its turns.
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
        ensure!(served >= 0.97 * rate, "{served:.0} of {rate} requests/s served: lower the rate");
    }
    Ok(Outcome { profile, ..outcome })
}

/// The rounds, and the last profile of a side that is profiled in its turns. A round in which the hypervisor took time,
/// or which failed, is taken again, up to a bound; the least disturbed ones count.
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

/// Processors' time per second that the hypervisor took.
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

    /// Profiles this side from the warm-up until after the turn, if it is to be.
    fn profiler(&self, case: &Case, seconds: f64, curtail: Option<&Path>) -> Result<Option<Child>> {
        let Some(sampling) = &self.change.profile else { return Ok(None) };
        let curtail = curtail.context("the case profiles: say with which --curtail")?;
        let seconds = (ATTACHING_S + seconds).to_string() + "s";
        let more = ["--sampling", sampling, "--duration", &seconds];
        profile::start(curtail, case.server.app, self.server.pid(), &more).map(Some)
    }

    /// The highest rate, from the case's own on, at which no queue grows.
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
        bail!("{} requests/s are not its capacity yet: begin with more", case.client.rate)
    }

    /// What the client and the server say of a load. Where profilers attach, a turn is too long to be free of the
    /// machine's hiccups, so it is cut into parts, and counts as the mean of those that are.
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

    /// The client's latencies, its own lateness, which is part of them, and the server's work per request.
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

/// A load whose requests failed says nothing about a knob. What else speaks against a report is its percentiles'
/// precision, and the rounds show that.
fn good(report: &Report) -> Result<()> {
    // memcached refuses an update now and then, where all items that it could evict are in use.
    let errors = report.errors.total() - report.errors.refused;
    ensure!(
        errors == 0 && report.errors.refused * 100 <= report.requests,
        "of {} requests some failed: {:?}",
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

/// The median. Between the values with as many below as above, the true one lies with the probability that so many
/// throws of a coin do not all but fall on one side.
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
        // Of tables: the 7th and the 18th of 24, the 10th and the 21st of 30, the 1st and the 6th of 6.
        for (count, low, high) in [(24, 7, 18), (30, 10, 21), (6, 1, 6), (4, 1, 4), (1, 1, 1)] {
            let found = ratio((1..=count).rev().map(f64::from).collect());
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)), "{count}");
        }
        // One round that was disturbed moves nothing.
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
    fn the_cases_are_read() {
        let cases = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases.toml"))).unwrap();
        assert_eq!(cases.len(), 8);
    }
}
