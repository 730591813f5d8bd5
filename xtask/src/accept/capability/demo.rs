//! The first command of the README, on a fresh clone, and what the demo shows.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::clean::{Clone, cores};
use crate::accept::finding::Finding;

/// Utilizations over which the gain is averaged.
const LOW: [f64; 4] = [0.1, 0.2, 0.3, 0.4];
const GAIN_LEAST: f64 = 0.30;
/// Where naive hedging has collapsed: its p99 is so many times PSQ's.
const COLLAPSED_AT: f64 = 0.6;
const COLLAPSE_LEAST: f64 = 3.0;
const POOLED: u64 = 15_000;
const POOLED_MOST: f64 = 1.15;

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let clone = Clone::fresh(root)?;
    let (build, built) = clone.timed(&["build", "--release"])?;
    let (full, shown) = clone.timed(&["run", "--release", "--", "demo"])?;
    let (quick, hurried) =
        clone.timed(&["run", "--release", "--", "demo", "--quick", "--out", "out/quick"])?;
    let args = ["--loads", "0.7", "--policies", "psq,laedge", "--out", "out/pool", "--requests"];
    let pooled = POOLED.to_string();
    let (_, ran) =
        clone.timed(&[&["run", "--release", "--", "demo"], &args[..], &[&pooled]].concat())?;
    anyhow::ensure!(ran, "the pooled run fails");
    let within = |what: &str, seconds: u64, took: Duration, done: bool| {
        let figure = format!("{:.0} s on {} cores", took.as_secs_f64(), cores());
        Finding::new(
            format!("{what} in under {seconds} s"),
            figure,
            done && took < Duration::from_secs(seconds),
        )
    };
    let mut findings = vec![
        within("a fresh clone compiles", 240, build, built),
        within("`cargo run --release -- demo` runs", 300, full, shown),
        within("`… demo --quick` runs", 75, quick, hurried),
    ];
    let results = clone.json("out/demo/results.json")?;
    findings.extend(gain(&results));
    findings.extend(collapse(&results));
    findings.extend(pool(&clone.json("out/pool/results.json")?));
    Ok(findings)
}

fn gain(results: &Value) -> Result<Finding> {
    let mut gains = Vec::new();
    for load in LOW {
        gains.push(1.0 - p99(results, "laedge", load)? / p99(results, "psq", load)?);
    }
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    let each: Vec<String> = gains.iter().map(|gain| format!("{:.0}", gain * 100.0)).collect();
    Ok(Finding::new(
        "LÆDGE's p99 is at least 30 % below PSQ's on average over 10–40 %",
        format!("{:.0} % below ({} % at each)", mean * 100.0, each.join(", ")),
        mean >= GAIN_LEAST,
    ))
}

fn collapse(results: &Value) -> Result<Finding> {
    let ratio = p99(results, "naive", COLLAPSED_AT)? / p99(results, "psq", COLLAPSED_AT)?;
    Ok(Finding::new(
        "naive hedging collapses beyond 50 %",
        format!("at 60 % its p99 is {ratio:.1} × PSQ's"),
        ratio >= COLLAPSE_LEAST,
    ))
}

fn pool(results: &Value) -> Result<Finding> {
    let ratio = p99(results, "laedge", 0.7)? / p99(results, "psq", 0.7)?;
    Ok(Finding::new(
        format!("over {POOLED} requests at 70 % LÆDGE's p99 is within 15 % of PSQ's"),
        format!("{ratio:.3} × PSQ's"),
        ratio <= POOLED_MOST,
    ))
}

/// In ms, of the demo's document.
fn p99(results: &Value, policy: &str, load: f64) -> Result<f64> {
    let cells = results["policies"][policy].as_array().with_context(|| format!("no {policy}"))?;
    let at = |cell: &&Value| cell["load"].as_f64().is_some_and(|at| (at - load).abs() < 1e-9);
    let cell = cells.iter().find(at).with_context(|| format!("no {policy} at {load}"))?;
    cell["p99_ms"].as_f64().with_context(|| format!("{policy} at {load} has no p99"))
}

impl Clone {
    /// Runs cargo with its output shown; how long it took, and whether it succeeded.
    fn timed(&self, args: &[&str]) -> Result<(Duration, bool)> {
        let start = Instant::now();
        let succeeded = crate::cargo::succeeds(&mut self.cargo(args))?;
        Ok((start.elapsed(), succeeded))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::accept::finding::Verdict;

    fn results(laedge: f64, naive: f64) -> Value {
        let cells = |p99: f64| {
            let loads = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7];
            json!(loads.map(|load| json!({"load": load, "p99_ms": p99})))
        };
        json!({"policies": {"psq": cells(10.0), "laedge": cells(laedge), "naive": cells(naive)}})
    }

    #[test]
    fn the_bounds_are_kept() {
        let good = results(7.0, 30.0);
        let bad = results(11.6, 29.0);
        for (judge, name) in [
            (gain as fn(&Value) -> Result<Finding>, "gain"),
            (collapse, "collapse"),
            (pool, "pool"),
        ] {
            assert_eq!(judge(&good).unwrap().verdict, Verdict::Holds, "{name}");
            assert_eq!(judge(&bad).unwrap().verdict, Verdict::Broken, "{name}");
        }
        assert!(p99(&good, "random", 0.1).is_err() && p99(&good, "psq", 0.5).is_err());
    }
}
