//! The p99 of every proxy at every load, in rounds.
//!
//! In a round every proxy has one run with the same schedule and the same queries, and so with the
//! same service times. A round in which the load generator fell behind does not count and is made up
//! for, as often as there are rounds to be. One in which a proxy failed does count: if it was ours,
//! the bound is broken; and nobody is compared with a peer that failed in most.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::install::Found;
use super::leaves::{self, Leaves};
use super::peer::{self, Upstream};
use super::round::{Round, Run};
use super::summary::Summary;
use super::{Bench, table};
use crate::tied::tied;

/// So many that a proxy which stalls for seconds does not keep requests from being sent.
const CONNECTIONS: u32 = 1_024;

/// Sent before the measured requests, in seconds.
const WARM_UP: u32 = 2;

/// Measures at all loads; false if the bound does not hold at one of them.
pub(super) fn run(bench: &Bench) -> Result<bool> {
    let leaves = Leaves::start(&bench.curtail, &bench.folder, bench.args.replicas)?;
    let mut holds = true;
    let mut loads = Vec::new();
    for &load in &bench.args.loads {
        let rounds = rounds(bench, &leaves, load)?;
        let names: Vec<&str> = bench.proxies.iter().map(|found| found.kind.name()).collect();
        let summary = Summary::of(&names, &rounds, bench.args.runs).with_context(|| {
            format!("load {load}: no peer has a p99 in any round; their requests fail")
        })?;
        holds &= summary.holds();
        if !bench.args.json {
            let rate = leaves.rate(load);
            let requests = bench.args.requests;
            println!("\nload {load}: {rate} requests/s, {requests} per run");
            print!("{}", table::tails(&summary));
            println!("{}", summary.verdict());
            for note in summary.notes() {
                println!("{note}");
            }
        }
        loads.push(document(load, leaves.rate(load), &rounds, &summary));
    }
    if bench.args.json {
        let mut document = bench.document();
        document["holds"] = json!(holds);
        document["loads"] = json!(loads);
        println!("{}", serde_json::to_string_pretty(&document)?);
    }
    Ok(holds)
}

fn rounds(bench: &Bench, leaves: &Leaves, load: f64) -> Result<Vec<Round>> {
    let wanted = bench.args.runs;
    let ours = bench.proxies[0].kind.name();
    let mut rounds: Vec<Round> = Vec::new();
    for number in 0..wanted * 2 {
        let counting = rounds.iter().filter(|round| round.is_of(ours)).count();
        if counting >= wanted as usize {
            break;
        }
        // The load is a part of it, or a load would repeat the queries of the last one.
        let seed = bench.args.seed.wrapping_mul(1_000).wrapping_add(u64::from(number));
        let rate = leaves.rate(load);
        let count = bench.args.requests + (2.0 * rate * f64::from(WARM_UP)) as u64;
        let queries = leaves::queries(&bench.folder, &format!("{load}.{seed}"), count)?;
        let mut round = Round { seed, runs: Vec::new() };
        for found in bench.order(number) {
            let run = measure(bench, leaves, found, (rate, seed, &queries))?;
            eprintln!("load {load}, round {}: {}", number + 1, run.line());
            round.runs.push(run);
        }
        rounds.push(round);
    }
    Ok(rounds)
}

/// One run of one proxy.
fn measure(
    bench: &Bench,
    leaves: &Leaves,
    found: &Found,
    (rate, seed, queries): (f64, u64, &Path),
) -> Result<Run> {
    let upstream = Upstream { servers: leaves.addresses.clone(), slots: 1 };
    let proxy = peer::start(found, &upstream, &bench.folder, None)?;
    let mut load = tied(&bench.curtail, None);
    load.arg("load").arg(format!("http://{}", proxy.address));
    load.arg("--rate").arg(rate.to_string()).arg("--seed").arg(seed.to_string());
    load.arg("--connections").arg(CONNECTIONS.to_string());
    load.arg("--requests").arg(bench.args.requests.to_string());
    load.arg("--warmup").arg(format!("{WARM_UP}s")).arg("--queries").arg(queries);
    load.arg("--json");
    let before = (proxy.child.cpu_ns()?, leaves.cpu_ns()?, leaves.served()?);
    // A run that is not valid exits with 1 and says why in its report.
    let output = load.output().context("curtail load does not start")?;
    let after = (proxy.child.cpu_ns()?, leaves.cpu_ns()?, leaves.served()?);
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("curtail load reports nothing: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    let served = after.2.saturating_sub(before.2).max(1) as f64;
    let per_request = |after: u64, before: u64| after.saturating_sub(before) as f64 / 1e3 / served;
    let ms = |percentile: &str| report["latency_ns"][percentile].as_f64().map(|ns| ns / 1e6);
    let reasons = report["invalid_because"].as_array().into_iter().flatten();
    Ok(Run {
        proxy: found.kind.name(),
        valid: report["valid"] == true,
        errors: errors(&report),
        invalid_because: reasons
            .filter_map(|why| why["text"].as_str())
            .map(str::to_owned)
            .collect(),
        p50_ms: ms("p50"),
        p99_ms: ms("p99"),
        rate: report["achieved_rate"].as_f64().unwrap_or(0.0),
        cpu_us: per_request(after.0, before.0),
        leaves_cpu_us: per_request(after.1, before.1),
    })
}

/// Requests without a good answer, of all kinds.
fn errors(report: &Value) -> u64 {
    let kinds = report["errors"].as_object().into_iter().flat_map(|kinds| kinds.values());
    kinds.filter_map(Value::as_u64).sum()
}

fn document(load: f64, rate: f64, rounds: &[Round], summary: &Summary<'_>) -> Value {
    let rounds: Vec<Value> = rounds
        .iter()
        .map(|round| {
            let runs: Vec<Value> = round.runs.iter().map(Run::document).collect();
            json!({"seed": round.seed, "counts": round.counts(), "runs": runs})
        })
        .collect();
    json!({
        "load": load,
        "offered_rate": rate,
        "holds": summary.holds(),
        "verdict": summary.verdict(),
        "notes": summary.notes(),
        "proxies": summary.documents(),
        "rounds": rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_all_kinds_are_counted() {
        let report = json!({"errors": {"connect": 1, "timeout": 20, "status_5xx": 300}});
        assert_eq!(errors(&report), 321);
        assert_eq!(errors(&json!({})), 0);
    }
}
