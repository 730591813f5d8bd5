//! Exploration.
use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, AtomicU64};

use curtail_sim::{Candidate, Parameters, Plan, UNIT_NS, compare};

#[derive(serde::Deserialize)]
struct Job {
    params: Parameters,
    policies: Vec<String>,
    #[serde(default)]
    #[allow(dead_code)]
    knobs: Vec<(String, f32)>,
}

fn main() {
    let ps = [50.0, 95.0, 99.0, 99.9];
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let job: Job = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let experiment = match job.params.experiment() {
            Ok(experiment) => experiment,
            Err(error) => {
                println!("{{\"error\":{:?}}}", error.to_string());
                continue;
            }
        };
        let (progress, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let plan = Plan { threads: 1, percentiles: &ps, progress: &progress, stop: &stop };
        let candidates: Vec<Candidate> = job.policies.iter().map(|p| Candidate::parse(p, UNIT_NS).expect("policy")).collect();
        match compare(&experiment, &candidates, &plan) {
            Err(error) => println!("{{\"error\":{:?}}}", error.to_string()),
            Ok(None) => println!("[]"),
            Ok(Some(outcomes)) => println!("{}", serde_json::to_string(&outcomes).expect("json")),
        }
    }
}
