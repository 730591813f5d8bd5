//! The set-up of the exploration: 50 × 2 leaves, exponential service times of mean 1, hiccups
//! 10⁻³ × 15.

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::Finding;
use crate::eval::sim::{Outcome, Simulator};

/// The p99 that the exploration found, by load.
const FOUND: [(&str, [(u32, f64); 4]); 2] = [
    ("rescue", [(10, 9.52), (30, 10.3), (50, 11.9), (70, 16.8)]),
    ("rescue:preempt", [(10, 8.61), (30, 9.29), (50, 11.0), (70, 16.5)]),
];

/// Loads in percent: every so many, up to so many.
const STEP: u32 = 5;
const MOST: u32 = 80;

/// The policies, and by how much, in percent, their p50 may be above that of per-shard queuing.
const POLICIES: [(&str, f64); 3] =
    [("rescue", 0.0), ("rescue:preempt", 0.0), ("rescue:no-cancel", 2.0)];

/// The histograms tell latencies apart that differ by more than that, in percent.
const BIN: f64 = 0.1;

/// A load, and what per-shard queuing and our policies came to.
struct Load {
    percent: u32,
    outcomes: Vec<Outcome>,
}

pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let shared = ["--jitter", "bimodal:0.001:15", "--requests", "200000", "--yes"];
    let simulator = Simulator::new(root, &shared)?;
    let names = POLICIES.map(|(name, _)| name);
    let policies = [&["psq"], &names[..]].concat();
    let mut loads = Vec::new();
    for percent in (STEP..=MOST).step_by(STEP as usize) {
        eprintln!("   load {percent} %");
        let outcomes = simulator.at(f64::from(percent) / 100.0, &policies, &[])?;
        loads.push(Load { percent, outcomes });
    }
    let mut findings = Vec::new();
    for (policy, table) in FOUND {
        for (percent, found) in table {
            findings.push(as_found(&loads, policy, percent, found)?);
        }
    }
    for (policy, allowed) in POLICIES {
        for (percentile, allowed) in [("p50", allowed), ("p99", 0.0), ("p999", 0.0)] {
            findings.push(never_worse(&loads, policy, percentile, allowed)?);
        }
    }
    Ok(findings)
}

/// Within 3 % of what the exploration found, or better.
fn as_found(loads: &[Load], policy: &str, percent: u32, found: f64) -> Result<Finding> {
    let load = loads.iter().find(|load| load.percent == percent).expect("a load of the grid");
    let ours = load.of(policy);
    let (p99, half) = (ours.p99()?, ours.number("/ci95/p99")?);
    let claim = format!("{policy} at {percent} %: p99 within 3 % of {found}, or better");
    let by = 100.0 * (p99 / found - 1.0);
    Ok(Finding::new(claim, format!("{p99:.2} ± {half:.2}, {by:+.1} %"), by <= 3.0))
}

/// At or below per-shard queuing, but for so many percent, a bin, and what may be chance, at every load.
fn never_worse(loads: &[Load], policy: &str, percentile: &str, allowed: f64) -> Result<Finding> {
    let mut worst = (f64::NEG_INFINITY, String::new());
    for load in loads {
        let base = load.of("psq").number(&format!("/request/{percentile}"))?;
        let ours = load.of(policy);
        let by = ours.number(&format!("/versus_first/difference/{percentile}"))?;
        let half = ours.number(&format!("/versus_first/ci95/{percentile}"))?;
        let surely = 100.0 * (by - half) / base;
        if surely > worst.0 {
            let by = 100.0 * by / base;
            let half = 100.0 * half / base;
            worst = (surely, format!("{by:+.2} ± {half:.2} % at {} %", load.percent));
        }
    }
    let allowed = allowed + BIN;
    let most = format!("at most {allowed} % above");
    let claim = format!("{policy}: {percentile} {most} psq's, from {STEP} to {MOST} %");
    Ok(Finding::new(claim, format!("most {}", worst.1), worst.0 <= allowed))
}

impl Load {
    fn of(&self, policy: &str) -> &Outcome {
        let index = POLICIES.iter().position(|(name, _)| *name == policy);
        &self.outcomes[index.map_or(0, |index| index + 1)]
    }
}
