//! The service of the demo, measured: runs, each with draws of its own, until there are as many sound
//! ones of each cell as are asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::samples::{self, Key, Samples, thousandths};
use super::service::{self, Plan};
use crate::cargo::{self, Profile};

/// How many further runs there may be for each, where some are unsound.
const SPARE: usize = 2;

/// All sound runs.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Of a policy at a load.
    sound: BTreeMap<Key, Vec<Run>>,
    /// Of those that are left out: why.
    pub(crate) left_out: Vec<String>,
}

/// What a sound run of a policy at a load came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) samples: Samples,
    counts: Counts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Requests per second: as the utilization has it, and as they were answered.
    pub(crate) offered: f64,
    pub(crate) achieved: f64,
    /// Copies that a query ran as, on average.
    pub(crate) copies: f64,
}

impl Measured {
    /// The sound runs of a policy at a load.
    pub(crate) fn runs(&self, policy: &str, load: f64) -> &[Run] {
        self.sound.get(&key(policy, load)).map_or(&[], Vec::as_slice)
    }

    /// How many there are of every policy at every load.
    pub(crate) fn least(&self, plan: &Plan) -> usize {
        let places =
            plan.loads.iter().flat_map(|&load| plan.policies.iter().map(move |p| (p, load)));
        places.map(|(policy, load)| self.runs(policy, load).len()).min().unwrap_or(0)
    }

    /// Takes the sound ones of a run of the demo.
    fn add(&mut self, seed: u64, plan: &Plan, results: &Value, table: &str) -> Result<()> {
        let mut samples = samples::read(table)?;
        let before = plan.learning.iter().len();
        for (at, &load) in plan.loads.iter().enumerate() {
            let mut sound = Vec::new();
            for policy in plan.policies {
                let cell = &results["policies"][policy][before + at];
                let key = key(policy, load);
                let samples = samples.remove(&key);
                if let Some(why) = unsound(cell).or_else(|| stalled(samples.as_ref(), plan)) {
                    let why = format!("seed {seed}, {policy} at {}: {why}", service::percent(load));
                    eprintln!("left out: {why}");
                    self.left_out.push(why);
                    continue;
                }
                let samples = samples.context("a sound run has no times")?;
                sound.push((key, Run { samples, counts: counts(cell)? }));
            }
            if plan.together && sound.len() < plan.policies.len() {
                continue;
            }
            for (key, run) in sound {
                self.sound.entry(key).or_default().push(run);
            }
        }
        Ok(())
    }
}

impl Counts {
    /// Of all runs, on average.
    pub(crate) fn mean(runs: &[Run]) -> Self {
        let mean = |of: fn(&Counts) -> f64| {
            runs.iter().map(|run| of(&run.counts)).sum::<f64>() / runs.len() as f64
        };
        Self {
            offered: mean(|counts| counts.offered),
            achieved: mean(|counts| counts.achieved),
            copies: mean(|counts| counts.copies),
        }
    }
}

fn key(policy: &str, load: f64) -> Key {
    (policy.to_owned(), thousandths(load))
}

/// Runs the demo until there are enough sound runs of all cells, or there were too many unsound
/// ones. Unsound is what the load generator calls so, for its own lag or because the service did not
/// keep up with the rate, and a run in which the machine stood still; whatever the latencies. Of
/// each, the table of times stays in the folder.
pub(super) fn run(root: &Path, out: &Path, plan: &Plan) -> Result<Measured> {
    let wanted = plan.size.repetitions;
    let curtail = cargo::curtail(root, Profile::Release)?;
    let mut measured = Measured::default();
    for seed in (1..).take(wanted * (1 + SPARE)) {
        if measured.least(plan) >= wanted {
            break;
        }
        eprintln!("measuring: run {seed} of {wanted}, or of some more");
        let results = demo(&curtail, out, plan, seed)?;
        let file = out.join(format!("timings-{seed}.csv"));
        std::fs::rename(out.join("demo/timings.csv"), &file)
            .with_context(|| format!("{}: the demo's table", file.display()))?;
        let table = std::fs::read_to_string(&file)?;
        measured.add(seed, plan, &results, &table).with_context(|| file.display().to_string())?;
    }
    Ok(measured)
}

fn demo(curtail: &Path, out: &Path, plan: &Plan, seed: u64) -> Result<Value> {
    let mut command = Command::new(curtail);
    command.args(["demo", "--json", "--timings", "--out"]).arg(out.join("demo"));
    command.args(service::demo_flags(plan, seed));
    // What it says meanwhile is the progress.
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    serde_json::from_slice(&output.stdout).context("the demo prints JSON")
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
fn stalled(samples: Option<&Samples>, plan: &Plan) -> Option<String> {
    let stall_ns = samples?.stall_ns();
    (stall_ns > plan.size.stall_most_ns).then(|| {
        format!(
            "the machine stood still: what should take no time took {} ms",
            stall_ns / 1_000_000
        )
    })
}

fn counts(cell: &Value) -> Result<Counts> {
    let number = |name| cell[name].as_f64().with_context(|| format!("the demo tells no {name}"));
    Ok(Counts {
        offered: number("offered_rate")?,
        achieved: number("achieved_rate")?,
        copies: number("copies_per_query")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::eval::search::service::Size;

    const PLAN: Plan = Plan::search(Size {
        repetitions: 1,
        requests: 1_050,
        simulated: 1,
        scale: 1,
        stall_most_ns: 15_000_000,
    });

    /// A run in which psq is sound at 60 % or not.
    fn results(sound: bool, achieved: f64) -> Value {
        let good = json!({ "valid": true, "offered_rate": 10.0, "achieved_rate": achieved,
                           "copies_per_query": 1.5 });
        let mut other = good.clone();
        other["valid"] = json!(sound);
        other["invalid_because"] = json!(["fell behind", "fell short"]);
        json!({ "policies": { "psq": [good, good, other], "laedge": [good, good, good] } })
    }

    fn table() -> String {
        let row = |load: &f64, policy| format!("{load},{policy},7,100,0,90,80,75,70\n");
        let rows =
            PLAN.loads.iter().flat_map(|load| PLAN.policies.iter().map(move |p| row(load, p)));
        samples::HEADER.to_owned() + "\n" + &rows.collect::<String>()
    }

    #[test]
    fn an_unsound_cell_is_left_out_alone() {
        let mut measured = Measured::default();
        measured.add(1, &PLAN, &results(false, 9.0), &table()).expect("the sound ones are good");
        assert_eq!(measured.left_out, ["seed 1, psq at 60 %: fell behind, fell short"]);
        assert_eq!((measured.least(&PLAN), measured.runs("laedge", 0.6).len()), (0, 1));
        measured.add(2, &PLAN, &results(true, 11.0), &table()).expect("all are good");
        assert_eq!((measured.least(&PLAN), measured.runs("laedge", 0.6).len()), (1, 2));
        let Counts { offered, achieved, copies } = Counts::mean(measured.runs("psq", 0.2));
        for (is, should) in [(offered, 10.0), (achieved, 10.0), (copies, 1.5)] {
            assert!((is - should).abs() < 1e-9, "{is} {should}");
        }
    }

    #[test]
    fn where_policies_are_compared_with_each_other_all_are_left_out_together() {
        let (mut measured, plan) = (Measured::default(), Plan { together: true, ..PLAN });
        measured.add(1, &plan, &results(false, 9.0), &table()).expect("the sound ones are good");
        assert_eq!(measured.left_out, ["seed 1, psq at 60 %: fell behind, fell short"]);
        assert_eq!(
            (measured.runs("laedge", 0.4).len(), measured.runs("laedge", 0.6).len()),
            (1, 0)
        );
    }

    #[test]
    fn a_cell_is_left_out_where_the_machine_stood_still() {
        let mut measured = Measured::default();
        let stalled = table().replace("0.2,laedge,7,100", "0.2,laedge,7,400000000");
        measured.add(1, &PLAN, &results(true, 9.0), &stalled).expect("the others are good");
        assert_eq!(measured.left_out.len(), 1);
        let why = &measured.left_out[0];
        assert!(why.starts_with("seed 1, laedge at 20 %") && why.ends_with("399 ms"), "{why}");
        assert_eq!((measured.runs("laedge", 0.2).len(), measured.runs("psq", 0.2).len()), (0, 1));
    }

    #[test]
    fn what_is_missing_is_not_sound() {
        let mut measured = Measured::default();
        let partial = json!({ "policies": { "psq": [] } });
        measured.add(1, &PLAN, &partial, &table()).expect("nothing to read");
        assert_eq!(measured.left_out.len(), 6);
        assert!(measured.left_out[0].ends_with("it was not measured"));
        let no_times = format!("{}\n", samples::HEADER);
        assert!(measured.add(2, &PLAN, &results(true, 9.0), &no_times).is_err());
    }
}
