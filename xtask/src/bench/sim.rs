//! How fast the simulator is: shard queries per second on one core, beside a Kiefer–Wolfowitz
//! recursion in the same run, which is the practical limit for per-shard queuing.
//!
//! Rates are of processor time. The runs of a round follow each other closely on the same core, the
//! next round is on the next core: a virtual core whose physical one works for a neighbor as well is
//! half as fast for the simulator, which has much to do at once, and hardly slower for the recursion,
//! which waits for itself. So a share of the recursion's rate is that of the fastest runs of all
//! rounds, for noise mostly makes runs slower; of the fastest quarter, for a single one may be a core's
//! boost. Neighbors come and go by the minute, so that is measured before everything else and again
//! after it, and the larger share counts. Two worlds of the simulator suffer alike: their ratio is the
//! median of those of the rounds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo;

/// The least share of the recursion's rate, by policy: the bounds that the simulator has set
/// itself, in the running example at a utilization of 0.3.
const BOUNDS: [(&str, f64); 2] = [("psq", 0.25), ("laedge", 0.15)];

/// Shard queries of a run, and the fewest requests: setting up shards is not what is measured.
const QUERIES: u32 = 2_500_000;
const LEAST_REQUESTS: u32 = 20_000;
const ROUNDS: usize = 24;

/// What memory may grow by when there are ten times as many requests.
const MEMORY_MOST: f64 = 1.1;

/// How much slower a copy may be in a world with other numbers of shards and replicas. Copies, and
/// not queries: with more replicas LÆDGE finds an idle one more often, and hedges more queries.
const SLOWER: f64 = 0.8;

/// Policies that are told beside the bounded ones.
const OTHERS: [&str; 8] = [
    "random",
    "least-outstanding",
    "bounded:2",
    "naive",
    "laedge:cc",
    "laedge:cc+pc",
    "idealized",
    "delayed:5",
];

/// A world: shards, replicas, utilization.
type World = (u32, u32, f64);

const EXAMPLE: World = (50, 2, 0.3);

/// What the simulator has bounded, measured.
pub(crate) struct Bounded {
    pub(crate) claim: String,
    pub(crate) figure: String,
    pub(crate) holds: bool,
}

/// Prints the tables; false if a bound does not hold.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let speed = build(root)?;
    println!("{:<20}{:>12}{:>16}", "policy", "queries/s", "of recursion");
    for policy in OTHERS {
        tell(&speed, policy, policy, EXAMPLE)?;
    }
    for (policy, utilization) in [("psq", 0.1), ("psq", 0.7), ("laedge", 0.1), ("laedge", 0.7)] {
        tell(&speed, &format!("{policy} at {utilization}"), policy, (50, 2, utilization))?;
    }
    println!();
    let bounds = bounds(root)?;
    for Bounded { claim, figure, holds } in &bounds {
        let verdict = if *holds { "holds" } else { "BROKEN" };
        println!("{verdict:<8} {claim}: {figure}");
    }
    Ok(bounds.iter().all(|bounded| bounded.holds))
}

/// Measures what is bounded.
pub(crate) fn bounds(root: &Path) -> Result<Vec<Bounded>> {
    let speed = build(root)?;
    let shares = || BOUNDS.map(|(policy, _)| beside(&speed, policy, EXAMPLE, ROUNDS));
    let before = shares();
    let mut flat = flat(&speed)?;
    let mut bounds = Vec::new();
    for (((policy, least), before), after) in BOUNDS.into_iter().zip(before).zip(shares()) {
        let (before, after) = (before?, after?);
        let (rate, ratio) = if before.1 > after.1 { before } else { after };
        bounds.push(Bounded {
            claim: format!("{policy} at {:.0} % of the recursion's rate or more", least * 100.0),
            figure: format!(
                "{:.1} %, {:.1} of {:.1} million queries/s",
                ratio * 100.0,
                rate / 1e6,
                rate / ratio / 1e6
            ),
            holds: ratio >= least,
        });
    }
    bounds.append(&mut flat);
    Ok(bounds)
}

/// What should not depend on the size of the world.
fn flat(speed: &Path) -> Result<Vec<Bounded>> {
    let mut bounds = Vec::new();
    for policy in ["psq", "laedge"] {
        for (shards, replicas) in [(10, 2), (500, 2), (50, 4), (50, 8)] {
            let ratio = between(speed, policy, (shards, replicas, 0.3), EXAMPLE)?;
            bounds.push(Bounded {
                claim: format!("{policy} at {shards} × {replicas} as fast per copy as at 50 × 2"),
                figure: format!("{ratio:.2} × (at least {SLOWER} ×)"),
                holds: ratio >= SLOWER,
            });
        }
    }
    let growth = memory(speed)?;
    bounds.push(Bounded {
        claim: "memory with ten times the requests".to_owned(),
        figure: format!("{growth:.2} × (at most {MEMORY_MOST} ×)"),
        holds: growth <= MEMORY_MOST,
    });
    Ok(bounds)
}

fn build(root: &Path) -> Result<PathBuf> {
    let args = ["build", "--release", "--quiet", "-p", "curtail-sim", "--example", "speed"];
    ensure!(cargo::succeeds(&mut cargo::command(root, &args))?, "speed does not build");
    Ok(cargo::target_folder(root)?.join("release/examples/speed"))
}

fn tell(speed: &Path, name: &str, policy: &str, world: World) -> Result<()> {
    let (rate, ratio) = beside(speed, policy, world, 4)?;
    println!("{name:<20}{:>10.1} M{:>14.1} %", rate / 1e6, ratio * 100.0);
    Ok(())
}

/// The rate of a policy, and its share of the recursion's rate in the same world.
fn beside(speed: &Path, policy: &str, world: World, rounds: usize) -> Result<(f64, f64)> {
    let rate = |policy, core| number(&call(speed, policy, world, core)?, "per_second");
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for core in 0..rounds {
        ours.push(rate(policy, core)?);
        limit.push(rate("recursion", core)?);
    }
    let (ours, limit) = (fastest(ours), fastest(limit));
    Ok((ours, ours / limit))
}

/// The mean rate of the fastest quarter of the runs.
fn fastest(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(|a, b| b.total_cmp(a));
    rates.truncate(rates.len().div_ceil(4));
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// The rate of copies in one world over that in another.
fn between(speed: &Path, policy: &str, world: World, other: World) -> Result<f64> {
    let copies = |world, core| -> Result<f64> {
        let printed = call(speed, policy, world, core)?;
        Ok(number(&printed, "per_second")? * number(&printed, "copies")?)
    };
    let mut ratios = Vec::new();
    for core in 0..ROUNDS {
        ratios.push(copies(world, core)? / copies(other, core)?);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[ROUNDS / 2])
}

fn memory(speed: &Path) -> Result<f64> {
    let peak = |requests: u32| {
        let arguments = ["laedge", "10", "2", "0.3", &requests.to_string()];
        number(&printed(speed, &arguments)?, "peak_kb")
    };
    Ok(peak(1_000_000)? / peak(100_000)?)
}

/// A run in a world, on a core by number.
fn call(speed: &Path, policy: &str, world: World, core: usize) -> Result<HashMap<String, String>> {
    let (shards, replicas, utilization) = world;
    let requests = (QUERIES / shards).max(LEAST_REQUESTS).to_string();
    let replicas = replicas.to_string();
    let (shards, utilization, core) =
        (shards.to_string(), utilization.to_string(), core.to_string());
    printed(speed, &[policy, &shards, &replicas, &utilization, &requests, &core])
}

/// What a run prints, as `name=value`.
fn printed(speed: &Path, arguments: &[&str]) -> Result<HashMap<String, String>> {
    let printed = cargo::output(Command::new(speed).args(arguments))?;
    let pairs = printed.split_whitespace().filter_map(|field| field.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn number(printed: &HashMap<String, String>, name: &str) -> Result<f64> {
    let value = printed.get(name).with_context(|| format!("speed prints no {name}"))?;
    value.parse().with_context(|| format!("{name}={value} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_quarter_counts() {
        assert_eq!(fastest(vec![3.0, 9.0, 1.0, 5.0, 7.0, 2.0, 4.0, 6.0]), 8.0);
        assert_eq!(fastest(vec![3.0]), 3.0);
    }
}
