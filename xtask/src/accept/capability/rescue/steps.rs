//! The world changes: how soon is p99 what it is going to be?

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::accept::finding::Finding;
use crate::eval::sim::Simulator;

/// What changes, in words and as a flag.
const CHANGES: [(&str, &str); 3] = [
    ("hiccups become ten times as frequent", "jitter=bimodal:0.01:15"),
    ("queries become three times as long", "service=exp:3"),
    ("one replica of each shard becomes three times as slow", "speeds=1,0.333333"),
];

/// Requests before the change, to learn; in a window, which is 10,000 queries; until p99 is to be
/// what it will be, 20,000 queries; from which on it is; and in all.
const BEFORE: u64 = 4_000;
const WINDOW: u64 = 200;
const DUE: u64 = 400;
const SETTLED: u64 = 4_000;
const AFTER: u64 = 8_000;

/// How far it may still be off, in percent.
const OFF: f64 = 10.0;

pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let (before, all) = (BEFORE.to_string(), (BEFORE + AFTER).to_string());
    let window = WINDOW.to_string();
    let shared = ["--jitter", "bimodal:0.001:15", "--replications", "200", "--warm-up", "0.05"];
    let times = ["--requests", &all, "--change-at", &before, "--window", &window, "--yes"];
    let simulator = Simulator::new(root, &[&shared[..], &times].concat())?;
    let mut findings = Vec::new();
    for percent in [30, 50] {
        for (what, change) in CHANGES {
            let load = f64::from(percent) / 100.0;
            let outcomes = simulator.at(load, &["rescue"], &["--change", change])?;
            let windows = outcomes[0].windows().iter().map(Window::read);
            let windows: Vec<Window> =
                windows.collect::<Option<_>>().context("windows with p99")?;
            findings.push(settles(&format!("{what} at {percent} %"), &windows));
        }
    }
    Ok(findings)
}

/// The requests from one on, counted from the change.
struct Window {
    from: u64,
    p99: f64,
}

impl Window {
    fn read(json: &Value) -> Option<Self> {
        Some(Self { from: json["from"].as_u64()?, p99: json["p99"].as_f64()? })
    }
}

/// Judges the mean of the first windows that are due against that of the last ones.
fn settles(what: &str, windows: &[Window]) -> Finding {
    let mean = |from: u64, to: u64| {
        let of = windows.iter().filter(|window| (from..to).contains(&window.from));
        let (sum, count) = of.fold((0.0, 0.0), |(sum, n), window| (sum + window.p99, n + 1.0));
        sum / count
    };
    let stationary = mean(SETTLED, u64::MAX);
    let off = |from: u64, to: u64| 100.0 * (mean(from, to) / stationary - 1.0);
    let (first, due) = (off(0, WINDOW), off(DUE, DUE + 2 * WINDOW));
    let claim = format!("{what}: after 20,000 queries p99 is within {OFF} % of what it stays at");
    let figure = format!("{due:+.1} % of {stationary:.2} (at first {first:+.1} %)");
    Finding::new(claim, figure, due <= OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(p99: impl Fn(u64) -> f64) -> Vec<Window> {
        (0..AFTER).step_by(WINDOW as usize).map(|from| Window { from, p99: p99(from) }).collect()
    }

    #[test]
    fn what_is_not_settled_in_time_breaks() {
        let slow = windows(|from| if from < 1_000 { 12.0 } else { 10.0 });
        assert!(settles("", &slow).to_string().starts_with("BROKEN"));
        let quick = windows(|from| if from < DUE { 12.0 } else { 10.0 });
        let told = settles("", &quick).to_string();
        assert!(told.starts_with("holds") && told.ends_with("+0.0 % of 10.00 (at first +20.0 %)"));
    }
}
