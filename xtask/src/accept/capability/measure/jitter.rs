//! Line 5: hiccups that were injected are found, and none where there are none.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::systems;
use super::tools::{Server, json, number};
use crate::accept::finding::Finding;
use crate::cargo::{self, Profile};
use crate::http;

/// Seeded runs with hiccups.
const RUNS: u32 = 20;
/// P of the leaf, exponential, in milliseconds.
const MEAN_P_MS: f64 = 2.0;
/// Hiccups, as probability and multiple of mean P: each probability with each length.
const PROBABILITIES: [f64; 5] = [0.002, 0.005, 0.01, 0.02, 0.05];
const LENGTHS: [f64; 4] = [5.0, 10.0, 20.0, 50.0];
/// Runs without hiccups.
const PLAIN: u32 = 5;
const QUERIES: usize = 60;
/// Executions of each: 14,400 in all, so that 288 hiccups are expected of a probability of 0.02 and 144 of one of
/// 0.01. Where 200 are expected, those runs that see so many are those that by chance see more.
const REPEAT: &str = "240";

pub(in super::super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let curtail = cargo::curtail(root, Profile::Release)?;
    let folder = cargo::target_folder(root)?.join("accept-jitter");
    let index = index(&curtail, &folder)?;
    let queries = queries(&folder)?;
    let mut seen = Seen::default();
    for run in 0..RUNS {
        let probability = PROBABILITIES[run as usize % PROBABILITIES.len()];
        let length_ms = LENGTHS[run as usize / PROBABILITIES.len()] * MEAN_P_MS;
        let hiccup = format!("{probability}:{length_ms}ms");
        eprintln!("-- run {run}: hiccups {hiccup}");
        let (found, leaf) = measure(&curtail, &index, &queries, &folder, &hiccup, run)?;
        seen.take(&found, probability, length_ms, took_ms(&leaf));
    }
    let mut blamed = 0;
    let mut told = Vec::new();
    for run in 0..PLAIN {
        let (found, _) = measure(&curtail, &index, &queries, &folder, "0:1ms", RUNS + run)?;
        let blame = found["blame"].as_str().unwrap_or("?").to_lowercase();
        blamed += u32::from(["leaf", "both"].contains(&blame.as_str()));
        told.push(format!("{blame}, floor {:.5}", number(&found, &["floor", "probability"])));
    }
    let mut findings = seen.findings();
    findings.push(Finding::new(
        "without injection the leaf is not blamed, and the machine's floor is told",
        told.join("; "),
        blamed == 0,
    ));
    findings.extend(systems::judge(&curtail, &folder)?);
    Ok(findings)
}

/// The index of the demo's search service.
fn index(curtail: &Path, folder: &Path) -> Result<PathBuf> {
    let index = folder.join("demo/index");
    if !index.join("manifest.json").is_file() {
        let out = folder.join("demo").display().to_string();
        let mut command = std::process::Command::new(curtail);
        command.args(["demo", "--quick", "--loads", "0.1", "--policies", "psq", "--out", &out]);
        command.stdout(std::process::Stdio::null());
        anyhow::ensure!(command.status().context("no demo")?.success(), "the demo makes no index");
    }
    Ok(index)
}

/// Words that are in many descriptions of packages.
fn queries(folder: &Path) -> Result<PathBuf> {
    let words = [
        "system", "data", "network", "kernel", "server", "library", "image", "sound", "game",
        "tool",
    ];
    let targets = (0..QUERIES).map(|at| {
        let (one, other) = (words[at % 10], words[at / 10]);
        format!(r#"{{"path": "/search?q={one}%20{other}", "class": "{one}"}}"#)
    });
    let file = folder.join("queries.txt");
    std::fs::write(&file, targets.collect::<Vec<_>>().join("\n"))?;
    Ok(file)
}

/// What is found, and what the leaf itself has counted.
fn measure(
    curtail: &Path,
    index: &Path,
    queries: &Path,
    folder: &Path,
    hiccup: &str,
    seed: u32,
) -> Result<(Value, Value)> {
    let (index, queries) = (index.display().to_string(), queries.display().to_string());
    let (service, seed) = (format!("exp:{MEAN_P_MS}ms"), seed.to_string());
    let leaf = Server::start(
        curtail,
        &[
            "leaf",
            "--index",
            &index,
            "--shard",
            "0",
            "--service-time",
            &service,
            "--hiccup",
            hiccup,
            "--seed",
            &seed,
            "--tied-to-stdin",
        ],
    )?;
    let target = format!("http://{}", leaf.address);
    let out = folder.join("out").display().to_string();
    let found = json(
        curtail,
        &[
            "jitter",
            &target,
            "--queries",
            &queries,
            "--repeat",
            REPEAT,
            "--seed",
            &seed,
            "--out",
            &out,
            "--json",
        ],
    )?;
    let counted = http::get(leaf.address.parse()?, "/stats")?;
    Ok((found, serde_json::from_str(&counted)?))
}

/// How long the leaf's hiccups really took, in milliseconds: longer than asked for, since whoever
/// sleeps for long wakes up later. What it takes beyond P without a hiccup is not part of one.
fn took_ms(leaf: &Value) -> f64 {
    let counted = |name| number(leaf, &[name]);
    let hiccups = counted("hiccups");
    let late = counted("late_time_ns") / (counted("served") - hiccups);
    (counted("hiccup_time_ns") / hiccups - late) / 1e6
}

/// What the runs found.
#[derive(Default)]
struct Seen {
    probability_covered: u32,
    duration_covered: u32,
    told: Vec<String>,
    worst_probability: f64,
    worst_duration: f64,
    with_many: u32,
}

impl Seen {
    fn take(&mut self, found: &Value, probability: f64, length_ms: f64, took_ms: f64) {
        let hiccup = &found["hiccup"];
        let within = |interval: &Value, truth: f64| {
            let border = |at: usize| interval[at].as_f64().unwrap_or(f64::NAN);
            border(0) <= truth && truth <= border(1)
        };
        let covers = within(&hiccup["probability_ci95"], probability);
        let lasts = within(&hiccup["duration_ci95"], took_ms * 1e6);
        self.probability_covered += u32::from(covers);
        self.duration_covered += u32::from(lasts);
        let (estimate, duration) =
            (number(hiccup, &["probability"]), number(hiccup, &["duration_ns"]) / 1e6);
        let seen = number(found, &["seen", "probability"]) * number(found, &["executions"]);
        if seen >= 200.0 {
            self.with_many += 1;
            self.worst_probability =
                self.worst_probability.max((estimate / probability - 1.0).abs());
            self.worst_duration = self.worst_duration.max((duration / took_ms - 1.0).abs());
        }
        let mark = |covered| if covered { "" } else { "!" };
        self.told.push(format!(
            "{probability}:{length_ms}ms took {took_ms:.3}ms found {estimate:.4}{}:{duration:.3}ms{}",
            mark(covers),
            mark(lasts)
        ));
    }

    fn findings(self) -> Vec<Finding> {
        let covered = |count| format!("{count} of {RUNS}");
        vec![
            Finding::new(
                "the intervals of the probability cover the truth in 18 of 20 runs",
                format!("{} ({})", covered(self.probability_covered), self.told.join(", ")),
                self.probability_covered >= 18,
            ),
            Finding::new(
                "the intervals of the duration cover the truth in 18 of 20 runs",
                covered(self.duration_covered),
                self.duration_covered >= 18,
            ),
            Finding::new(
                "with 200 hiccups seen, the probability within 15 % and the duration within 5 %",
                format!(
                    "{} runs; at most {:.1} % and {:.1} %",
                    self.with_many,
                    self.worst_probability * 100.0,
                    self.worst_duration * 100.0
                ),
                self.with_many > 0 && self.worst_probability <= 0.15 && self.worst_duration <= 0.05,
            ),
        ]
    }
}
