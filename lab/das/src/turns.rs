//! Measures policies that take turns on the same servers.
//!
//! A turn is unstable if more than a tenth of its requests had no response when the last one was
//! due. A queue then grows, and the percentiles only reflect the length of the turn.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use curtail_kernel::{Limits, Policy, Topology, rng};
use curtail_load::Histogram;
use curtail_load::open_loop::{self, Bounds, Class, Request};
use curtail_machine::take_turns;
use curtail_runtime::{Cell, Query, Timers, Transport};
use curtail_stats::{Ratio, ratio};
use serde::Serialize;
use tokio::runtime::Runtime;

/// The class of requests that are sent but not measured.
pub(crate) const BACKGROUND: &str = "background";
/// How long to wait for responses after the last request was due, and the bound on outstanding
/// requests, which no turn reaches.
const BOUNDS: Bounds = Bounds { outstanding: 1 << 20, rest: Duration::from_secs(5) };
/// The maximum share of requests without a response when the last one was due. Above it a turn is
/// unstable.
const BEHIND_MAX: f64 = 0.1;
const QUANTILES: [(&str, f64); 7] = [
    ("p10", 0.1),
    ("p20", 0.2),
    ("p40", 0.4),
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
];

/// Figures by name: `mean`, `p50` and so on.
pub(crate) type Figures<T> = BTreeMap<&'static str, T>;

/// The measured classes of a turn's requests.
pub(crate) type Turn = BTreeMap<&'static str, Class>;

/// All turns of a policy at a load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    policy: String,
    load: f64,
    offered: u64,
    errors: u64,
    stable: bool,
    classes: BTreeMap<&'static str, ClassOutcome>,
}

/// The requests of a class. Latencies are in ms.
#[derive(Clone, Debug, Serialize)]
struct ClassOutcome {
    count: u64,
    #[serde(flatten)]
    ms: Figures<f64>,
    /// The speedup: the first policy's figure divided by this policy's figure. The value is the
    /// median of the rounds, and the others are the bounds of its interval.
    gain: Figures<[f64; 3]>,
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
    let kernel = policy.build(topology, limits, rng(seed)).map_err(|why| anyhow!("{why}"))?;
    Ok(Cell::new(kernel, transport, Timers::precise()))
}

/// Sends requests to a cell when they are due. `whole` waits until a response is complete.
pub(crate) fn send<T, W>(
    runtime: &Runtime,
    cell: &Cell<T>,
    requests: Vec<Request<&'static str, Query<T::Request>>>,
    whole: impl Fn(T::Response) -> W + Copy + Send + 'static,
) -> Turn
where
    T: Transport,
    W: Future<Output = bool> + Send,
{
    let ask = |query| {
        let cell = cell.clone();
        async move {
            match cell.query(query).await {
                Ok(response) => whole(response.response).await,
                Err(_) => false,
            }
        }
    };
    let mut sent = runtime.block_on(async {
        let timers = Timers::precise();
        open_loop::run(requests, BOUNDS, async |at| timers.sleep_until(at).await, ask).await
    });
    sent.classes.remove(BACKGROUND);
    sent.classes
}

/// Adds up classes.
pub(crate) fn total<'a>(classes: impl IntoIterator<Item = &'a Class>) -> Class {
    let mut total = Class::default();
    classes.into_iter().for_each(|class| total.add(class));
    total
}

/// Whether a turn was stable, given the total of its classes.
pub(crate) fn is_stable(total: &Class) -> bool {
    total.behind as f64 <= BEHIND_MAX * total.offered as f64
}

/// Returns figures in ms of latencies in ns.
pub(crate) fn figures(latencies: &Histogram<u64>) -> Figures<f64> {
    let mut all: Figures<f64> =
        QUANTILES.map(|(name, at)| (name, latencies.value_at_quantile(at) as f64 / 1e6)).into();
    all.insert("mean", latencies.mean() / 1e6);
    all
}

/// Parses a load, as a share of the capacity.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| *load > 0.0 && *load < 2.0);
    load.ok_or_else(|| "must be above 0 and below 2".to_owned())
}

/// Lets policies take turns at each load. All other policies are compared with the first one.
pub(crate) fn run(
    names: &[String],
    loads: &[f64],
    rounds: u16,
    turn: impl Fn(&Policy, f64, u64) -> Result<Turn>,
) -> Result<Vec<Outcome>> {
    ensure!(!names.is_empty() && !loads.is_empty(), "there are no policies, or no loads");
    let parse =
        |name: &String| Policy::parse(name, None).with_context(|| format!("--policy {name}"));
    let policies = names.iter().map(parse).collect::<Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for &load in loads {
        let turns = take_turns(
            policies.len(),
            rounds.into(),
            |at, round| {
                eprintln!("load {load}, round {} of {rounds}: {}", round.calm + 1, names[at]);
                turn(&policies[at], load, round.number as u64)
            },
            |_| true,
        )?;
        all.extend(names.iter().zip(&turns).map(|(name, own)| outcome(name, load, &turns[0], own)));
    }
    Ok(all)
}

/// Combines the turns of a policy, and compares them with those of the first policy.
fn outcome(policy: &str, load: f64, first: &[Turn], own: &[Turn]) -> Outcome {
    let all = total(own.iter().flat_map(BTreeMap::values));
    let names = own.iter().flat_map(BTreeMap::keys).copied();
    let of = |name: &'static str| {
        let sum = total(own.iter().filter_map(|turn| turn.get(name)));
        let rounds: Vec<[Figures<f64>; 2]> =
            first.iter().zip(own).filter_map(|(one, other)| pair(one, other, name)).collect();
        let gain = |figure| {
            let Ratio { value, low, high } =
                ratio(rounds.iter().map(|[one, other]| one[figure] / other[figure]));
            (figure, [value, low, high])
        };
        let ms = figures(&sum.latencies);
        let gain = ms.keys().copied().map(gain).collect();
        (name, ClassOutcome { count: sum.answered(), ms, gain })
    };
    Outcome {
        policy: policy.to_owned(),
        load,
        offered: all.offered,
        errors: all.errors(),
        stable: own.iter().all(|turn| is_stable(&total(turn.values()))),
        classes: names.map(of).collect(),
    }
}

/// Returns the figures of a class in two turns. `None` if there are no responses in one of them.
fn pair(one: &Turn, other: &Turn, class: &str) -> Option<[Figures<f64>; 2]> {
    let of = |turn: &Turn| {
        let class = turn.get(class).filter(|class| class.answered() > 0);
        class.map(|class| figures(&class.latencies))
    };
    Some([of(one)?, of(other)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(values: &[u64], behind: u64) -> Turn {
        let mut class = Class { offered: values.len() as u64, behind, ..Class::default() };
        values.iter().for_each(|ms| class.latencies.record(ms * 1_000_000).expect("it grows"));
        BTreeMap::from([("all", class)])
    }

    #[test]
    fn turns_add_up_and_are_compared_with_the_first_policy() {
        let single = [turn(&[10; 100], 0), turn(&[20; 100], 5)];
        let other = [turn(&[5; 100], 0), turn(&[5; 100], 11)];
        let [first, second] = [&single, &other].map(|own| outcome("das", 0.5, &single, own));
        assert!(first.stable && !second.stable);
        let class = &second.classes["all"];
        assert_eq!((class.count, second.offered, second.errors), (200, 200, 0));
        let near = |is: f64, wanted: f64| (is / wanted - 1.0).abs() < 0.01;
        let [gain, low, high] = class.gain["p99"];
        assert!(near(gain, 8.0_f64.sqrt()) && near(low, 2.0) && near(high, 4.0), "{class:?}");
        assert!(near(class.ms["p99"], 5.0) && near(first.classes["all"].gain["mean"][0], 1.0));
    }
}
