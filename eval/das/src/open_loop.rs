//! Measures policies that take turns on the same servers. Requests follow a schedule regardless of
//! responses (open loop), and their results are recorded.
//!
//! A latency runs from the time at which a request was due to the time at which its response was
//! complete. A turn is unstable if more than a tenth of its requests had no response when the last
//! one was due. A queue then grows, and the percentiles only reflect the length of the turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use curtail_dist::seed::{rng, unit};
use curtail_kernel::{Limits, Policy, Topology, rng as kernel_rng};
use curtail_runtime::{Cell, Query, Timers, Transport};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::runtime::Runtime;

/// How long to wait for responses after the last request was due.
const REST: Duration = Duration::from_secs(5);
/// The maximum share of requests without a response when the last one was due. Above it a turn is
/// unstable.
const LEFT_MAX: f64 = 0.1;

/// The rate at which requests are sent, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Requests per second.
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

/// Requests, each with its class and the time at which it is due. Requests without a class are not
/// measured.
pub(crate) type Requests<R> = Vec<(Duration, Option<&'static str>, Query<R>)>;

/// The results of a turn's requests.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    offered: u64,
    /// Requests that had failed, or had no response, when the last one was due.
    left: u64,
    errors: u64,
    /// Latencies by class of request, in microseconds.
    pub(crate) latencies: BTreeMap<&'static str, Histogram<u64>>,
}

/// All turns of a policy at a load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) policy: String,
    pub(crate) load: f64,
    pub(crate) offered: u64,
    pub(crate) errors: u64,
    pub(crate) stable: bool,
    pub(crate) classes: BTreeMap<&'static str, Class>,
}

/// The requests of a class. Latencies are in ms.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Class {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p10: f64,
    pub(crate) p20: f64,
    pub(crate) p40: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    /// The speedup, which is the first policy's figure divided by this policy's figure. The first
    /// value is computed from all turns, and the others are the lowest and the highest value of any
    /// round.
    pub(crate) gain: BTreeMap<&'static str, [f64; 3]>,
}

/// Returns the arrival times of a Poisson process.
pub(crate) fn arrivals(pace: Pace) -> Vec<Duration> {
    let mut rng = rng(pace.seed);
    let (mut at, mut all) = (0.0, Vec::new());
    loop {
        at -= (1.0 - unit(&mut rng)).ln() / pace.rate;
        if at > pace.seconds {
            return all;
        }
        all.push(Duration::from_secs_f64(at));
    }
}

/// Builds a cell for a policy. Its servers stop purged copies.
pub(crate) fn cell<T: Transport>(
    policy: &Policy,
    topology: &Topology,
    transport: T,
    seed: u64,
) -> Result<Cell<T>> {
    let limits = Limits {
        cancel: true,
        max_outstanding: 4096,
        queue: 65_536,
        retries: 0,
        ..Limits::default()
    };
    let kernel =
        policy.build(topology, limits, kernel_rng(seed)).map_err(|why| anyhow!("{why}"))?;
    Ok(Cell::new(kernel, transport, Timers::precise()))
}

/// Sends requests when they are due. `whole` waits until a response is complete. Requests without a
/// class are not measured: they are the background.
pub(crate) fn run<T, W>(
    runtime: &Runtime,
    cell: &Cell<T>,
    requests: Requests<T::Request>,
    whole: impl Fn(T::Response) -> W + Copy + Send + 'static,
) -> Turn
where
    T: Transport,
    W: Future<Output = bool> + Send,
{
    let seen = Arc::new(Mutex::new(Turn::new()));
    let mut tasks = Vec::with_capacity(requests.len());
    let start = Instant::now();
    for (due, class, query) in requests {
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let (cell, seen) = (cell.clone(), Arc::clone(&seen));
        let task = runtime.spawn(async move {
            let good = match cell.query(query).await {
                Ok(response) => whole(response.response).await,
                Err(_) => false,
            };
            let Some(class) = class else { return };
            let took = start.elapsed().saturating_sub(due);
            seen.lock().unwrap_or_else(PoisonError::into_inner).ended(class, good, took);
        });
        if class.is_some() {
            tasks.push(task);
        }
    }
    let lock = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    let offered = tasks.len() as u64;
    let left = offered - lock().good();
    let end = Instant::now();
    while tasks.iter().any(|task| !task.is_finished()) && end.elapsed() < REST {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Pending requests are aborted, so that the servers are idle when the next turn starts.
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let mut turn = lock().clone();
    (turn.offered, turn.left) = (offered, left);
    turn
}

impl Turn {
    fn new() -> Self {
        Self { offered: 0, left: 0, errors: 0, latencies: BTreeMap::new() }
    }

    fn good(&self) -> u64 {
        self.latencies.values().map(Histogram::len).sum()
    }

    fn ended(&mut self, class: &'static str, good: bool, took: Duration) {
        if !good {
            self.errors += 1;
            return;
        }
        let histogram = self.latencies.entry(class).or_insert_with(empty);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        histogram.record(micros).expect("it resizes itself");
    }

    pub(crate) fn is_stable(&self) -> bool {
        (self.left + self.errors) as f64 <= LEFT_MAX * self.offered as f64
    }

    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.left += other.left;
        self.errors += other.errors;
        for (class, histogram) in &other.latencies {
            let mine = self.latencies.entry(class).or_insert_with(empty);
            mine.add(histogram).expect("both resize themselves");
        }
    }
}

pub(crate) fn empty() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are supported")
}

/// Lets policies take turns at each load. The order rotates from round to round.
pub(crate) fn run_turns(
    names: &[String],
    loads: &[f64],
    rounds: u64,
    turn: impl Fn(&Policy, f64, u64) -> Result<Turn>,
) -> Result<Vec<Outcome>> {
    let parse =
        |name: &String| Policy::parse(name, None).with_context(|| format!("--policy {name}"));
    let policies = names.iter().map(parse).collect::<Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for &load in loads {
        let mut turns = vec![Vec::new(); policies.len()];
        for round in 0..rounds {
            for next in 0..policies.len() {
                let at = (next + round as usize) % policies.len();
                eprintln!("load {load}, round {} of {rounds}: {}", round + 1, names[at]);
                turns[at].push(turn(&policies[at], load, round)?);
            }
        }
        all.extend(outcomes(load, names, &turns));
    }
    Ok(all)
}

/// Combines the turns at a load. `turns` is indexed by policy and then by round. All other policies
/// are compared with the first one.
fn outcomes(load: f64, policies: &[String], turns: &[Vec<Turn>]) -> Vec<Outcome> {
    let sum = |turns: &[Turn]| {
        let mut all = Turn::new();
        turns.iter().for_each(|turn| all.add(turn));
        all
    };
    let first = sum(&turns[0]);
    let outcome = |(policy, rounds): (&String, &Vec<Turn>)| {
        let all = sum(rounds);
        let of = |(class, histogram): (&&'static str, &Histogram<u64>)| {
            let gain = gains().map(|(name, figure)| {
                let over = |one: &Turn, other: &Turn| match one.latencies.get(class) {
                    Some(one) => figure(one) / other.latencies.get(class).map_or(f64::NAN, figure),
                    None => f64::NAN,
                };
                let each = || turns[0].iter().zip(rounds).map(|(one, other)| over(one, other));
                let (low, high) =
                    (each().fold(f64::NAN, f64::min), each().fold(f64::NAN, f64::max));
                (name, [over(&first, &all), low, high])
            });
            (*class, class_of(histogram, gain.into()))
        };
        Outcome {
            policy: policy.clone(),
            load,
            offered: all.offered,
            errors: all.errors,
            stable: rounds.iter().all(Turn::is_stable),
            classes: all.latencies.iter().map(of).collect(),
        }
    };
    policies.iter().zip(turns).map(outcome).collect()
}

type Figure = fn(&Histogram<u64>) -> f64;

fn gains() -> [(&'static str, Figure); 4] {
    [
        ("mean", Histogram::mean),
        ("p50", |of| of.value_at_quantile(0.5) as f64),
        ("p95", |of| of.value_at_quantile(0.95) as f64),
        ("p99", |of| of.value_at_quantile(0.99) as f64),
    ]
}

fn class_of(of: &Histogram<u64>, gain: BTreeMap<&'static str, [f64; 3]>) -> Class {
    let at = |quantile| of.value_at_quantile(quantile) as f64 / 1e3;
    Class {
        count: of.len(),
        mean: of.mean() / 1e3,
        p10: at(0.1),
        p20: at(0.2),
        p40: at(0.4),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        gain,
    }
}

/// Prints a table, or JSON.
pub(crate) fn print(outcomes: &[Outcome], as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string(outcomes)?);
        return Ok(());
    }
    println!(
        "{:>5}  {:<22}{:<8}{:>7}{:>9}{:>9}{:>9}{:>9}{:>8}  p99 gain (rounds)",
        "load", "policy", "class", "count", "mean ms", "p50", "p95", "p99", "errors"
    );
    for Outcome { policy, load, errors, stable, classes, .. } in outcomes {
        for (class, of) in classes {
            let [gain, low, high] = of.gain["p99"];
            let verdict = if *stable {
                format!("{gain:.2} ({low:.2} to {high:.2})")
            } else {
                "UNSTABLE".into()
            };
            println!(
                "{load:>5}  {policy:<22}{class:<8}{:>7}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{errors:>8}  {verdict}",
                of.count, of.mean, of.p50, of.p95, of.p99
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(values: &[u64], left: u64) -> Turn {
        let mut turn = Turn::new();
        values.iter().for_each(|&ms| turn.ended("all", true, Duration::from_millis(ms)));
        (turn.offered, turn.left) = (values.len() as u64, left);
        turn
    }

    #[test]
    fn turns_add_up_and_are_compared_with_the_first_policy() {
        let single = vec![turn(&[10; 100], 0), turn(&[20; 100], 5)];
        let other = vec![turn(&[5; 100], 0), turn(&[5; 100], 11)];
        let names = ["random".to_owned(), "das".to_owned()];
        let all = outcomes(0.5, &names, &[single, other]);
        assert!(all[0].stable && !all[1].stable);
        let class = &all[1].classes["all"];
        assert_eq!(class.count, 200);
        let near = |is: f64, wanted: f64| (is / wanted - 1.0).abs() < 0.01;
        let [gain, low, high] = class.gain["p99"];
        assert!(near(gain, 4.0) && near(low, 2.0) && near(high, 4.0), "{:?}", class.gain);
        assert!(near(class.gain["mean"][0], 3.0) && near(class.p99, 5.0));
    }

    #[test]
    fn arrivals_have_their_rate() {
        let all = arrivals(Pace { rate: 100.0, seconds: 100.0, seed: 1 });
        assert!((all.len() as f64 - 10_000.0).abs() < 400.0 && all.is_sorted());
    }
}
