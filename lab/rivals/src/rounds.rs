//! Rounds in which the contenders take turns, and their percentiles. A turn starts a fresh contender
//! in front of fresh leaves, and sends it an open loop.
//!
//! For a cold figure, a percentile of the first requests is computed for each start, and the figure
//! is the median of these percentiles. A warm figure is a percentile of the later requests of all
//! starts taken together.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use curtail_machine::Rounds;
use curtail_stats::ratio;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::Value;
use xtask::process::{Process, get};

use crate::args::{Args, Service};
use crate::contender::{Programs, command};

const LEAVES: u32 = 4;
/// A request that has no response after this time has failed, and this time counts as its latency.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of times that a turn is repeated because the load generator fell behind.
const AGAIN: usize = 2;
/// The time between the start of a contender and the first request, so that the start of its
/// process is not measured.
const SETTLE: Duration = Duration::from_millis(500);

/// One start of a contender at a rate.
#[derive(Debug)]
struct Turn {
    /// Latencies in ns from the intended times.
    cold: Histogram<u64>,
    warm: Histogram<u64>,
    /// Copies counted by the leaves.
    copies_per_request: f64,
    /// Requests per second.
    achieved: f64,
    errors: usize,
    is_valid: bool,
    /// Whether the load is invalid only because the load generator fell behind.
    fell_behind: bool,
}

impl Service {
    /// Options of a leaf. The copies of a query share its service time, but not its hiccups.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Hiccups => &["--service-time", "lognormal:10ms:0.05", "--hiccup", "0.02:200ms"],
            Self::Exponential => &["--service-time", "exp:10ms"],
        }
    }
}

/// Percentiles in ms. `None` without requests.
#[derive(Debug, PartialEq, Serialize)]
struct Percentiles {
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
}

impl Percentiles {
    /// Returns the medians of percentiles of several histograms.
    fn of(all: &[&Histogram<u64>]) -> Self {
        let percentile = |quantile| {
            let some = all.iter().filter(|of| !of.is_empty());
            let median = ratio(some.map(|of| of.value_at_quantile(quantile) as f64 / 1e6)).value;
            Some(median).filter(|ms| !ms.is_nan())
        };
        let [p50_ms, p99_ms, p999_ms] = [0.5, 0.99, 0.999].map(percentile);
        Self { p50_ms, p99_ms, p999_ms }
    }
}

/// The results of a contender at a rate.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    rate: u32,
    name: String,
    cold: Percentiles,
    warm: Percentiles,
    /// The 99th percentile of the later requests of each start, which are comparable with those of
    /// other contenders in the same round.
    warm_p99_ms: Vec<Option<f64>>,
    copies_per_request: f64,
    /// Requests per second, as the mean over all starts.
    achieved: f64,
    /// The number of failed requests.
    errors: usize,
    /// The number of starts with an invalid load.
    invalid: usize,
    starts: usize,
}

impl Row {
    fn new(rate: u32, name: &str, turns: &[&Turn]) -> Self {
        let mean = |of: fn(&Turn) -> f64| {
            turns.iter().map(|turn| of(turn)).sum::<f64>() / turns.len() as f64
        };
        let cold: Vec<_> = turns.iter().map(|turn| &turn.cold).collect();
        let mut warm = histogram();
        turns.iter().for_each(|turn| warm += &turn.warm);
        Self {
            rate,
            name: name.to_owned(),
            cold: Percentiles::of(&cold),
            warm: Percentiles::of(&[&warm]),
            warm_p99_ms: turns.iter().map(|turn| Percentiles::of(&[&turn.warm]).p99_ms).collect(),
            copies_per_request: mean(|turn| turn.copies_per_request),
            achieved: mean(|turn| turn.achieved),
            errors: turns.iter().map(|turn| turn.errors).sum(),
            invalid: turns.iter().filter(|turn| !turn.is_valid).count(),
            starts: turns.len(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

/// The parameters of a turn that are the same for all contenders.
#[derive(Clone, Copy)]
struct Conditions {
    rate: u32,
    seed: usize,
}

/// Measures all contenders at each rate.
pub(crate) fn measure(args: &Args, programs: &Programs<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &rate in &args.rates {
        let mut rounds = Rounds::new(args.contenders.len(), args.starts);
        while let Some(round) = rounds.begin() {
            let turns = round.turns(|side| {
                let name = &args.contenders[side];
                let conditions = Conditions { rate, seed: round.number };
                eprintln!("start {} of {}, {rate}/s: {name}", round.number + 1, args.starts);
                let once = || turn(args, programs, name, conditions).context(name.clone());
                let mut turn = once()?;
                for _ in 0..AGAIN {
                    if turn.fell_behind {
                        eprintln!("the load generator fell behind; the turn is run again");
                        turn = once()?;
                    }
                }
                anyhow::Ok(turn)
            });
            // A disturbed turn was run again by itself, because a round takes minutes.
            rounds.end(turns?, 0.0);
        }
        let rounds = rounds.finish();
        for (side, name) in args.contenders.iter().enumerate() {
            let turns: Vec<&Turn> = rounds.iter().map(|round| &round[side]).collect();
            rows.push(Row::new(rate, name, &turns));
        }
    }
    Ok(rows)
}

fn turn(args: &Args, programs: &Programs<'_>, name: &str, of: Conditions) -> Result<Turn> {
    let leaves: Vec<_> = (0..LEAVES).map(|at| leaf(args, of, at)).collect::<Result<_>>()?;
    let addresses: Vec<SocketAddr> = leaves.iter().map(|(_, address)| *address).collect();
    let start = |at| programs.start(name, at, &addresses);
    let fronts: Vec<_> = (0..args.proxies).map(start).collect::<Result<_>>()?;
    thread::sleep(SETTLE);
    let loads = fronts.iter().enumerate().map(|(at, (_, address))| load(args, *address, of, at));
    // The loads run at the same time, so all are started before the first one is awaited.
    let loads: Vec<Process> = loads.collect::<Result<_>>()?;
    let reports = loads.into_iter().map(Process::document).collect::<Result<Vec<Value>>>()?;
    let (mut cold, mut warm, mut errors) = (histogram(), histogram(), 0);
    for at in 0..args.proxies {
        let samples = samples(args, at)?;
        let count = (args.cold + args.warm) / args.proxies;
        ensure!(samples.len() == count, "{} samples", samples.len());
        for (number, latency_ns) in samples.iter().enumerate() {
            let of = if number < args.cold / args.proxies { &mut cold } else { &mut warm };
            errors += usize::from(latency_ns.is_none());
            of.record(latency_ns.unwrap_or(TIMEOUT.as_nanos() as u64))?;
        }
    }
    let copies = addresses.iter().map(|leaf| copies(*leaf)).sum::<Result<u64>>()?;
    let achieved = reports.iter().map(|report| report["achieved_rate"].as_f64());
    let reasons = reports.iter().filter_map(|report| report["invalid_because"].as_array());
    let reasons: Vec<&Value> = reasons.flatten().collect();
    Ok(Turn {
        cold,
        warm,
        copies_per_request: copies as f64 / (args.cold + args.warm) as f64,
        achieved: achieved.sum::<Option<f64>>().context("no achieved rate")?,
        errors,
        is_valid: reports.iter().all(|report| report["valid"] == true),
        fell_behind: !reasons.is_empty() && reasons.iter().all(|of| of["kind"] == "fell_behind"),
    })
}

/// Starts a leaf. In a round, each leaf has the same seed for all contenders, and each query has
/// the same service time.
fn leaf(args: &Args, of: Conditions, at: u32) -> Result<(Process, SocketAddr)> {
    let mut command = command(&args.curtail);
    command.args(["leaf", "--listen", "127.0.0.1:0", "--honor-cancel", "--queue", "4096"]);
    command.args(args.service.options()).args([
        "--replica",
        &at.to_string(),
        "--seed",
        &of.seed.to_string(),
    ]);
    let mut leaf = Process::start(&format!("leaf{at}"), command, &args.dir)?;
    let address = leaf.announced()?[0];
    Ok((leaf, address))
}

/// Starts the load of one process of a contender.
fn load(args: &Args, to: SocketAddr, of: Conditions, at: usize) -> Result<Process> {
    let count = (args.cold + args.warm) / args.proxies;
    let rate = f64::from(of.rate) / args.proxies as f64;
    let seed = of.seed * args.proxies + at;
    let file = args.dir.join(format!("queries{at}.txt"));
    let mut queries = String::new();
    for number in 0..count {
        writeln!(queries, "/search?q=hedge&n={seed}.{number}")?;
    }
    fs::write(&file, queries)?;
    let mut command = command(&args.curtail);
    command.args(["load", &format!("http://{to}"), "--arrivals", "poisson", "--json", "--force"]);
    command.args(["--connections", "1024", "--samples", "csv", "--out"]).arg(out(args, at));
    command.args(["--rate", &rate.to_string(), "--requests", &count.to_string()]);
    command.args(["--seed", &seed.to_string(), "--queries"]).arg(file);
    command.args(["--timeout", &format!("{}s", TIMEOUT.as_secs())]);
    Process::start(&format!("load{at}"), command, &args.dir)
}

/// Returns the folder for the results of a load.
fn out(args: &Args, at: usize) -> PathBuf {
    args.dir.join(format!("load{at}"))
}

/// Returns the latencies in ns, in the order of the intended times. `None` for a failed request.
fn samples(args: &Args, at: usize) -> Result<Vec<Option<u64>>> {
    let file = out(args, at).join("samples.csv");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| header.iter().position(|of| *of == name).context("not its columns");
    let (intended, done, good) = (column("intended_ns")?, column("done_ns")?, column("good")?);
    let mut latencies = Vec::new();
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        let at: u64 = values[intended].parse()?;
        let done = values[done].parse::<u64>().ok().filter(|_| values[good] == "true");
        latencies.push((at, done.map(|done| done.saturating_sub(at))));
    }
    latencies.sort_unstable();
    Ok(latencies.into_iter().map(|(_, latency)| latency).collect())
}

/// Returns the number of copies that a leaf has received.
fn copies(leaf: SocketAddr) -> Result<u64> {
    let stats: Value = serde_json::from_str(&get(leaf, "/stats")?)?;
    let counters = ["served", "cancelled", "refused", "failed", "busy", "waiting"];
    Ok(counters.iter().filter_map(|name| stats[name].as_u64()).sum())
}

pub(crate) fn table(rows: &[Row]) -> String {
    let three = |[p50, p99, p999]: [&str; 3]| format!("{p50:>8}{p99:>8}{p999:>8}");
    let ms = |figure: Option<f64>| figure.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let percentiles = |of: &Percentiles| {
        three([of.p50_ms, of.p99_ms, of.p999_ms].map(ms).each_ref().map(|ms| &**ms))
    };
    let heads = three(["p50", "p99", "p99.9"]);
    let mut text = format!(
        "{:43}{:>24}{:>24}\noffered  {:34}{heads}{heads}  copies  achieved  errors  invalid\n",
        "", "cold start, ms", "warm, ms", "contender"
    );
    for row in rows {
        let Row { rate, name, copies_per_request, achieved, errors, invalid, starts, .. } = row;
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "{rate:>7}  {name:34}{}{}{copies_per_request:>8.3}{achieved:>10.1}{errors:>8}{:>9}",
            percentiles(&row.cold),
            percentiles(&row.warm),
            format!("{invalid}/{starts}"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(cold_ms: impl IntoIterator<Item = u64>, warm_ms: &[u64]) -> Turn {
        let (mut cold, mut warm) = (histogram(), histogram());
        cold_ms.into_iter().for_each(|ms| cold += ms * 1_000_000);
        warm_ms.iter().for_each(|ms| warm += ms * 1_000_000);
        Turn {
            cold,
            warm,
            copies_per_request: 1.5,
            achieved: 119.0,
            errors: 1,
            is_valid: false,
            fell_behind: false,
        }
    }

    #[test]
    fn cold_figures_are_medians_over_starts_and_warm_ones_are_of_all() {
        let turns = [turn(1..=100, &[1, 2]), turn([7], &[3]), turn([200], &[])];
        let row = Row::new(120, "psq", &turns.each_ref());
        let whole =
            |of: &Percentiles| [of.p50_ms, of.p99_ms, of.p999_ms].map(|ms| ms.map(f64::round));
        assert_eq!(whole(&row.cold), [Some(50.0), Some(99.0), Some(100.0)]);
        assert_eq!(whole(&row.warm), [Some(2.0), Some(3.0), Some(3.0)]);
        assert_eq!((row.errors, row.invalid), (3, 3));
        let each: Vec<_> = row.warm_p99_ms.iter().map(|ms| ms.map(f64::round)).collect();
        assert_eq!(each, [Some(2.0), Some(3.0), None], "those of each start on their own");
        let table = table(&[row, Row::new(230, "rescue", &[&turn([5], &[])])]);
        assert!(
            table.ends_with("-       -       -   1.500     119.0       1      1/1\n"),
            "{table}"
        );
    }
}
