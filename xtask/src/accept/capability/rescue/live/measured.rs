//! The demo's service, measured: runs, each with draws of its own, until there are as many sound ones
//! at each load as are asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::service::{self, LOADS, POLICIES, Size, percent};
use crate::cargo::{self, Profile};
use crate::eval::search::estimate;
use crate::eval::search::rule::Estimate;
use crate::eval::search::samples::{self, ByCell, Samples, thousandths};

/// How many further runs there may be for each, where some are unsound.
const SPARE: usize = 2;

/// All sound runs.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// By load in thousandths: runs of all policies, with the same requests.
    runs: BTreeMap<u32, Vec<[Run; POLICIES.len()]>>,
    /// How often one of the policies was unsound at a load.
    pub(super) left_out: usize,
}

/// What a policy came to at a load.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) samples: Samples,
    /// Per query.
    pub(super) copies: f64,
}

/// Runs the demo until there are enough sound runs, or there were too many unsound ones.
pub(super) fn run(root: &Path, out: &Path, size: Size) -> Result<Live> {
    let curtail = cargo::curtail(root, Profile::Release)?;
    let mut live = Live::default();
    for seed in (1..).take(size.repetitions * (1 + SPARE)) {
        if LOADS.iter().all(|&load| live.at(load).len() >= size.repetitions) {
            break;
        }
        eprintln!("measuring: run {seed} of {}, or of some more", size.repetitions);
        let results = demo(&curtail, out, size, seed)?;
        let file = out.join("demo/timings.csv");
        let table = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        live.read(seed, size, &results, samples::read(&table)?)?;
    }
    Ok(live)
}

fn demo(curtail: &Path, out: &Path, size: Size, seed: u64) -> Result<Value> {
    let mut command = Command::new(curtail);
    command.args(["demo", "--json", "--timings", "--out"]).arg(out.join("demo"));
    command.args(service::demo_flags(size, seed));
    // What it says meanwhile is the progress.
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    serde_json::from_slice(&output.stdout).context("the demo prints JSON")
}

impl Live {
    fn at(&self, load: f64) -> &[[Run; POLICIES.len()]] {
        self.runs.get(&thousandths(load)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add(&mut self, load: f64, run: [Run; POLICIES.len()]) {
        self.runs.entry(thousandths(load)).or_default().push(run);
    }

    /// Takes what is sound. Unsound at a load is what the load generator calls so, whatever the
    /// latencies, and a run in which the machine stood still; for one policy is for all of them, or
    /// they would not be compared on the same requests.
    fn read(&mut self, seed: u64, size: Size, results: &Value, mut times: ByCell) -> Result<()> {
        for load in LOADS {
            let run = POLICIES.map(|policy| {
                let samples = times.remove(&(policy.to_owned(), thousandths(load)));
                (policy, samples.unwrap_or_default())
            });
            let unsound = |(policy, samples): &(&str, Samples)| {
                let why = unsound(cell(results, policy, load)).or_else(|| stalled(samples, size));
                why.map(|why| format!("seed {seed}, {policy} at {}: {why}", percent(load)))
            };
            if let Some(why) = run.iter().find_map(unsound) {
                eprintln!("left out: {why}");
                self.left_out += 1;
                continue;
            }
            let run = run.map(|(policy, samples)| {
                let copies = cell(results, policy, load)["copies_per_query"].as_f64();
                Some(Run { samples, copies: copies? })
            });
            let [Some(a), Some(b), Some(c)] = run else {
                anyhow::bail!("the demo tells no copies_per_query")
            };
            self.add(load, [a, b, c]);
        }
        Ok(())
    }

    /// The runs of a policy at a load.
    fn of(&self, policy: &str, load: f64) -> impl Iterator<Item = &Run> {
        let at = POLICIES.iter().position(|name| *name == policy);
        self.at(load).iter().filter_map(move |run| run.get(at?))
    }

    /// How many requests each policy had at a load, in all.
    pub(super) fn requests(&self, load: f64) -> usize {
        let of = |policy| self.of(policy, load).map(|run| run.samples.latency.len()).sum();
        POLICIES.map(of).into_iter().min().unwrap_or(0)
    }

    /// Of the latencies, in ms.
    pub(super) fn percentile(&self, policy: &str, load: f64, percentile: f64) -> Option<Estimate> {
        let runs: Vec<&[u64]> = self.of(policy, load).map(|run| &run.samples.latency[..]).collect();
        estimate::pooled(&runs, percentile)
    }

    /// Of all runs together.
    pub(super) fn samples(&self, policy: &str, load: f64) -> Samples {
        let mut samples = Samples::default();
        self.of(policy, load).for_each(|run| samples.append(&run.samples));
        samples
    }

    /// Per query, on average.
    pub(super) fn copies(&self, policy: &str, load: f64) -> Option<f64> {
        let copies: Vec<f64> = self.of(policy, load).map(|run| run.copies).collect();
        (!copies.is_empty()).then(|| copies.iter().sum::<f64>() / copies.len() as f64)
    }
}

/// What the demo says of a policy at a load.
fn cell<'a>(results: &'a Value, policy: &str, load: f64) -> &'a Value {
    let cells = results["policies"][policy].as_array().into_iter().flatten();
    let at = |cell: &&Value| cell["load"].as_f64().is_some_and(|at| (at - load).abs() < 1e-9);
    let mut cells = cells.filter(at);
    cells.next().unwrap_or(&Value::Null)
}

/// What is wrong with a cell; none where it is sound.
fn unsound(cell: &Value) -> Option<String> {
    if cell["valid"] == true {
        return None;
    }
    let said = cell["invalid_because"].as_array().into_iter().flatten();
    let said: Vec<&str> = said.filter_map(Value::as_str).collect();
    Some(if said.is_empty() { "it was not measured".to_owned() } else { said.join(", ") })
}

/// Did the machine stand still?
fn stalled(samples: &Samples, size: Size) -> Option<String> {
    let stall_ns = samples.stall_ns();
    (stall_ns > size.stall_most_ns()).then(|| {
        let ms = stall_ns / 1_000_000;
        format!("the machine stood still: what should take no time took {ms} ms")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A run in which LÆDGE is sound at 50 % or not, and all else is.
    fn results(sound: bool) -> Value {
        let cells = |policy: &str| {
            let cell = |load: f64| {
                let bad = !sound && policy == "laedge" && (load - 0.5).abs() < 1e-9;
                let why = if bad { vec!["fell behind"] } else { vec![] };
                json!({ "load": load, "valid": !bad, "invalid_because": why, "copies_per_query": 1.5 })
            };
            json!([cell(0.2), cell(0.3), cell(0.5), cell(0.7)])
        };
        let policies = POLICIES.map(|policy| (policy.to_owned(), cells(policy)));
        json!({ "policies": serde_json::Map::from_iter(policies) })
    }

    fn times(latency: u64) -> ByCell {
        let places = POLICIES.iter().flat_map(|policy| LOADS.map(|load| (policy, load)));
        let samples = Samples { latency: vec![latency], late: vec![5], ..Samples::default() };
        let cell = |(policy, load): (&&str, f64)| {
            (((*policy).to_owned(), thousandths(load)), samples.clone())
        };
        places.map(cell).collect()
    }

    #[test]
    fn a_load_counts_where_all_policies_are_sound() {
        let mut live = Live::default();
        live.read(1, Size::FULL, &results(false), times(7)).expect("the others are good");
        live.read(2, Size::FULL, &results(true), times(9)).expect("all are good");
        assert_eq!(LOADS.map(|load| live.requests(load)), [2, 1, 2]);
        assert_eq!(live.left_out, 1);
        assert_eq!(live.samples("rescue", 0.3).latency, [7, 9]);
        assert_eq!(live.copies("rescue", 0.5), Some(1.5));
        assert_eq!(live.copies("random", 0.5), None);
    }

    #[test]
    fn a_load_does_not_count_where_the_machine_stood_still_or_nothing_was_measured() {
        let mut live = Live::default();
        let mut stalled = times(7);
        stalled.get_mut(&("psq".to_owned(), 700)).expect("it is there").late = vec![46_000_000];
        live.read(1, Size::FULL, &results(true), stalled).expect("the others are good");
        live.read(2, Size::FULL, &json!({ "policies": {} }), ByCell::new()).expect("nothing");
        assert_eq!(LOADS.map(|load| live.requests(load)), [1, 1, 0]);
        assert_eq!(live.left_out, 4);
    }
}
