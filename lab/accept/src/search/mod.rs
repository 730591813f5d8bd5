//! `cargo xtask eval search --compare-sim`: measures the demo's search service, and simulates it
//! with the same parameters.
//!
//! Both have the same shards, replicas and slots, and Poisson arrivals at λ = ρ r c / P̄. In both,
//! a query has a P for each shard, which its copies share, and every copy has its own J. Every
//! request is a distinct query and waits for the slowest shard. The two agree if a measured
//! percentile is within 15 % of the simulated one. One cell may miss this range, if a simulation
//! with the measured overhead agrees with the measurement.
//!
//! The overhead of the machine is measured in the same requests (`samples.rs`). It is added to the
//! simulation at the places where it occurs, although its parts are not independent of each other:
//!
//! - *late*, the time that the leaf's service took beyond P + J, occupies the leaf. It is drawn in
//!   addition to J.
//! - *network*, the time that a copy took beyond the leaf's service, counts as an occupied slot at
//!   the root but does not occupy the leaf. Half of it is the one-way latency.
//! - *front*, the time that a request took beyond its slowest shard, occupies nothing that is
//!   simulated. Its mean is added to all percentiles.

mod estimate;
mod samples;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use estimate::{Estimate, mean_ms, of, pooled};
use samples::Samples;
use xtask::cargo;

const PERCENTILES: [f64; 2] = [50.0, 99.0];
/// The maximum distance of a measured percentile from the simulated one, as a share of the
/// simulated one, and the maximum number of cells that agree only if the overhead is included.
const TOLERANCE: f64 = 0.15;
const MISSES_MOST: usize = 1;
/// The maximum number of additional runs per requested run, which replace unsound runs.
const SPARE: usize = 2;
/// The demo's mean P, and the parameters of its hiccups.
const SERVICE_MS: u32 = 3;
const HICCUP_MS: u32 = 45;
const HICCUP_PROBABILITY: f64 = 0.003;
/// The longest stall of the machine in a sound run, as a share of a hiccup. Virtual machines that
/// share a host sometimes stall for hundreds of milliseconds. More than 1 % of the requests pile up
/// during such a stall, and no simulation includes stalls.
const STALL_MOST: f64 = 1.0 / 3.0;
/// Flags that the demo and the simulator share.
const SERVICE: [&str; 6] = ["--shards", "5", "--replicas", "2", "--slots", "1"];

/// Options of the evaluation.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Compare measured latencies with simulated ones
    #[arg(long, required = true)]
    compare_sim: bool,
    /// Make one short run to check that everything can be measured and simulated. No latency is
    /// judged
    #[arg(long)]
    smoke: bool,
    /// Factor by which all times of the service are multiplied, relative to the demo's. A machine
    /// on a busy host stalls for milliseconds, which would hide the effects in a simulation of 3 ms
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    scale: u32,
    /// Number of sound runs of each cell, each with its own random draws
    #[arg(long, value_name = "N", default_value_t = 20)]
    repetitions: usize,
    /// Requests per policy and load in each run. The number is small, because a run counts only if
    /// nothing disturbs it
    #[arg(long, value_name = "N", default_value_t = 1_050)]
    requests: u32,
    #[arg(long, value_delimiter = ',', default_value = "psq,laedge", value_name = "P,…")]
    policies: Vec<String>,
    /// Utilizations, which are λ P̄ / (r c) in both the service and the simulation
    #[arg(long, value_delimiter = ',', default_value = "0.2,0.4,0.6", value_name = "U,…")]
    loads: Vec<f64>,
    /// Load to run before the others, so that policies can learn. It is not compared
    #[arg(long, value_name = "U")]
    learning: Option<f64>,
    /// Count a run at a load only if it is sound for all policies, so that all have the same
    /// requests
    #[arg(long)]
    together: bool,
    /// Output folder in `out`
    #[arg(long, default_value = "search/compare-sim")]
    name: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A policy, and a load in thousandths.
type Key = (String, u32);

fn key(policy: &str, load: f64) -> Key {
    (policy.to_owned(), (load * 1_000.0).round() as u32)
}

/// The results of a sound run of a policy at a load.
struct Run {
    samples: Samples,
    /// The offered rate, the achieved rate, and the number of copies per query.
    counts: [f64; 3],
}

/// All sound runs, and the reasons why other runs are left out.
#[derive(Default)]
struct Measured {
    sound: BTreeMap<Key, Vec<Run>>,
    left_out: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let mut args = args.clone();
    if args.smoke {
        (args.repetitions, args.name) = (1, format!("{}-smoke", args.name));
    }
    let out = root.join("out").join(&args.name);
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let measured = measure(root, &out, &args)?;
    let document = compare(root, &out, &args, &measured)?;
    let text = render(&document);
    std::fs::write(out.join("results.json"), serde_json::to_string_pretty(&document)?)?;
    std::fs::write(out.join("table.txt"), &text)?;
    if args.json {
        println!("{document:#}");
    } else {
        print!("{text}");
    }
    Ok(document["holds"] == true)
}

/// Runs the demo until all cells have enough sound runs, or the maximum number of runs is reached.
/// A run is unsound if the machine stalled, or if the load generator reports the run as invalid.
/// The latter happens if the generator fell behind or the service did not keep up with the rate.
/// Latencies do not affect this decision. The table of times that each run produces stays in the
/// folder.
fn measure(root: &Path, out: &Path, args: &Args) -> Result<Measured> {
    let curtail = cargo::curtail(root)?;
    let mut measured = Measured::default();
    for seed in (1..).take(args.repetitions * (1 + SPARE)) {
        if measured.least(args) >= args.repetitions {
            break;
        }
        eprintln!("measuring: run {seed} of {}, or of a few more", args.repetitions);
        let mut command = Command::new(&curtail);
        command.args(["demo", "--json", "--timings", "--out"]).arg(out.join("demo"));
        command.args(SERVICE).args(args.demo_flags(seed));
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run {command:?}"))?;
        ensure!(output.status.success(), "{command:?} failed");
        let results = serde_json::from_slice(&output.stdout).context("the demo prints JSON")?;
        let file = out.join(format!("timings-{seed}.csv"));
        std::fs::rename(out.join("demo/timings.csv"), &file)
            .with_context(|| format!("{}: the demo's table", file.display()))?;
        let times = samples::read(&std::fs::read_to_string(&file)?);
        let times = times.with_context(|| file.display().to_string())?;
        measured.add(seed, args, &results, times)?;
    }
    Ok(measured)
}

impl Args {
    fn demo_flags(&self, seed: usize) -> Vec<String> {
        let loads: Vec<String> =
            self.learning.iter().chain(&self.loads).map(f64::to_string).collect();
        let flags = [
            ("--loads", loads.join(",")),
            ("--policies", self.policies.join(",")),
            ("--requests", self.requests.to_string()),
            ("--service-time", self.service()),
            ("--hiccup", self.hiccup()),
            ("--seed", seed.to_string()),
        ];
        flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    fn service(&self) -> String {
        format!("exp:{}ms", SERVICE_MS * self.scale)
    }

    fn hiccup(&self) -> String {
        format!("{HICCUP_PROBABILITY}:{}ms", HICCUP_MS * self.scale)
    }

    /// Returns the mean of P + J that the leaves should draw, in ms.
    fn drawn_mean_ms(&self) -> f64 {
        f64::from(self.scale) * (f64::from(SERVICE_MS) + HICCUP_PROBABILITY * f64::from(HICCUP_MS))
    }

    fn places(&self) -> impl Iterator<Item = (f64, &String)> {
        self.loads.iter().flat_map(|&load| self.policies.iter().map(move |policy| (load, policy)))
    }
}

impl Measured {
    fn runs(&self, policy: &str, load: f64) -> &[Run] {
        self.sound.get(&key(policy, load)).map_or(&[], Vec::as_slice)
    }

    /// Returns the lowest number of sound runs over all policies and loads.
    fn least(&self, args: &Args) -> usize {
        args.places().map(|(load, policy)| self.runs(policy, load).len()).min().unwrap_or(0)
    }

    /// Adds the sound cells of a run of the demo.
    fn add(
        &mut self,
        seed: usize,
        args: &Args,
        results: &Value,
        mut times: BTreeMap<Key, Samples>,
    ) -> Result<()> {
        let before = args.learning.iter().len();
        for (at, &load) in args.loads.iter().enumerate() {
            let mut sound = Vec::new();
            for policy in &args.policies {
                let cell = &results["policies"][policy][before + at];
                let samples = times.remove(&key(policy, load));
                if let Some(why) = unsound(cell).or_else(|| stalled(samples.as_ref(), args)) {
                    let why = format!("seed {seed}, {policy} at {load}: {why}");
                    eprintln!("left out: {why}");
                    self.left_out.push(why);
                    continue;
                }
                let samples = samples.context("a sound run has no times")?;
                let counts = ["offered_rate", "achieved_rate", "copies_per_query"]
                    .map(|name| cell[name].as_f64().unwrap_or(f64::NAN));
                sound.push((key(policy, load), Run { samples, counts }));
            }
            if !args.together || sound.len() == args.policies.len() {
                for (key, run) in sound {
                    self.sound.entry(key).or_default().push(run);
                }
            }
        }
        Ok(())
    }
}

/// Returns the reason why a cell is unsound. Returns `None` if the cell is sound.
fn unsound(cell: &Value) -> Option<String> {
    let reasons = cell["invalid_because"].as_array().into_iter().flatten();
    let texts: Vec<&str> = reasons.filter_map(Value::as_str).collect();
    match (cell["valid"] == true, texts.is_empty()) {
        (true, _) => None,
        (false, true) => Some("it was not measured".to_owned()),
        (false, false) => Some(texts.join(", ")),
    }
}

/// Returns a message if the machine stalled for too long.
fn stalled(samples: Option<&Samples>, args: &Args) -> Option<String> {
    let stall_ms = samples?.stall_ns() / 1_000_000;
    let most = f64::from(HICCUP_MS * args.scale) * STALL_MOST;
    (!args.smoke && stall_ms as f64 > most)
        .then(|| format!("the machine stalled for {stall_ms} ms"))
}

/// Simulates every cell and compares it with the measurement.
fn compare(root: &Path, out: &Path, args: &Args, measured: &Measured) -> Result<Value> {
    let curtail = cargo::curtail(root)?;
    let jitter = format!("bimodal:{}", args.hiccup());
    let policies = args.policies.iter().flat_map(|policy| ["--policy", policy]);
    let flags: Vec<&str> = policies.chain(["--jitter", &jitter]).collect();
    let (mut cells, mut places) = (Vec::new(), Vec::new());
    for &load in &args.loads {
        eprintln!("simulating {load}");
        let plain = simulate(&curtail, args, load, &flags)?;
        let mut first = [None; 2];
        for (policy, plain) in args.policies.iter().zip(&plain) {
            let runs = measured.runs(policy, load);
            let samples = Samples::all(runs.iter().map(|run| &run.samples));
            // Without a sound run, the overhead is unknown.
            let loaded = match runs.is_empty() {
                true => None,
                false => {
                    eprintln!("simulating {policy} at {load} with overhead");
                    let at = out.join(format!("{policy}-{load}"));
                    Some(with_overhead(&curtail, args, &Cell { policy, load }, &samples, &at)?)
                }
            };
            let latencies: Vec<&[u64]> = runs.iter().map(|run| &run.samples.latency[..]).collect();
            for (at, percentile) in PERCENTILES.into_iter().enumerate() {
                let found = pooled(&latencies, percentile);
                let simulated = simulated(plain, percentile, 0.0);
                let front = mean_ms(&samples.front);
                let loaded = loaded.as_ref().and_then(|of| self::simulated(of, percentile, front));
                let base = *first[at].get_or_insert(found);
                cells.push(cell(policy, load, percentile, [found, simulated, loaded, base]));
            }
            if !runs.is_empty() {
                places.push(place(policy, load, runs, &samples, plain));
            }
        }
    }
    let sound = measured.least(args);
    let count = |name: &str| cells.iter().filter(|cell| cell[name] == true).count();
    let agree = count("agrees");
    let enough = sound >= args.repetitions;
    let holds = match args.smoke {
        true => {
            cells.iter().all(|cell| !cell["measured"].is_null() && !cell["with_overhead"].is_null())
        }
        false => count("agrees_with_overhead") == cells.len() && agree + MISSES_MOST >= cells.len(),
    };
    Ok(json!({
        "smoke": args.smoke, "holds": enough && holds, "scale": args.scale,
        "runs": {"wanted": args.repetitions, "sound": sound, "requests": args.requests,
                 "left_out": measured.left_out},
        "drawn_mean_ms_expected": args.drawn_mean_ms(), "cells": cells, "places": places,
    }))
}

/// Simulates policies with common random numbers and returns a document for each.
fn simulate(curtail: &Path, args: &Args, load: f64, more: &[&str]) -> Result<Vec<Value>> {
    let requests = if args.smoke { "20000" } else { "200000" };
    let mut command = Command::new(curtail);
    command.args(["sim", "--json", "--utilization-of", "mean", "--percentiles", "50,99"]);
    command.args(SERVICE).args(["--arrivals", "poisson", "--requests", requests, "--seed", "42"]);
    command.args(["--service", &args.service(), "--utilization", &load.to_string()]).args(more);
    serde_json::from_str(&cargo::output(&mut command)?).context("sim prints JSON")
}

/// A policy at a load.
struct Cell<'a> {
    policy: &'a str,
    load: f64,
}

/// Simulates a cell with the overhead that was measured there. `at` is where its files go, without
/// what they contain.
fn with_overhead(
    curtail: &Path,
    args: &Args,
    cell: &Cell<'_>,
    samples: &Samples,
    at: &Path,
) -> Result<Value> {
    let write = |what: &str, samples: &mut dyn Iterator<Item = u64>| -> Result<String> {
        let file = PathBuf::from(format!("{}-{what}.txt", at.display()));
        let lines: String = samples.map(|ns| format!("{ns}ns\n")).collect();
        std::fs::write(&file, lines).with_context(|| file.display().to_string())?;
        Ok(format!("file:{}", file.display()))
    };
    // It is unknown how this time is divided between the two directions. On average, each direction
    // takes half of it.
    let network = write("network", &mut samples.network.iter().map(|both_ways| both_ways / 2))?;
    let late = write("late", &mut samples.late.iter().copied())?;
    let jitter = format!("bimodal:{}+{late}", args.hiccup());
    let more = ["--policy", cell.policy, "--jitter", &jitter, "--network", &network];
    simulate(curtail, args, cell.load, &more)?.pop().context("sim prints an entry")
}

/// Returns a figure from a simulation.
fn number(outcome: &Value, pointer: &str) -> Option<f64> {
    outcome.pointer(pointer).and_then(Value::as_f64)
}

/// Returns a percentile of a simulation plus the overhead that the simulator does not model. `None`
/// if the simulation is unstable.
fn simulated(outcome: &Value, percentile: f64, front_ms: f64) -> Option<Estimate> {
    let value = number(outcome, &format!("/request/p{percentile}"))?;
    let half = number(outcome, &format!("/ci95/p{percentile}"));
    Some(Estimate { value: value + front_ms, half })
}

/// Compares a measured percentile of a policy at a load with the simulated ones. The figures are,
/// in this order: the measured one, the simulated one, the one simulated with overhead, and the one
/// measured for the first policy.
fn cell(policy: &str, load: f64, percentile: f64, figures: [Option<Estimate>; 4]) -> Value {
    let [measured, simulated, loaded, first] = figures;
    let above = |of: Option<Estimate>| Some(measured?.value / of?.value - 1.0);
    let near = |of: Option<Estimate>| above(of).is_some_and(|by| by.abs() <= TOLERANCE);
    let shown = |of: Option<Estimate>| of.map_or("—".to_owned(), |of| of.to_string());
    let share = |of| above(of).map_or("—".to_owned(), |by| format!("{:+.1} %", by * 100.0));
    let estimate = |of: Option<Estimate>| of.map(|of| json!({"ms": of.value, "ci95_ms": of.half}));
    let versus = measured.zip(first).map(|(ours, first)| {
        let half = |of: Estimate| of.half.unwrap_or(0.0);
        json!({"difference_ms": ours.value - first.value, "ci95_ms": half(ours).hypot(half(first))})
    });
    json!({
        "load": load, "policy": policy, "percentile": percentile,
        "measured": estimate(measured), "simulated": estimate(simulated),
        "difference": above(simulated), "with_overhead": estimate(loaded),
        "difference_with_overhead": above(loaded), "versus_first": versus,
        "agrees": near(simulated), "agrees_with_overhead": near(simulated) || near(loaded),
        "text": format!(
            "{policy}, p{percentile} at {load}: {} ms measured, {} simulated ({}), {} with overhead ({})",
            shown(measured), shown(simulated), share(simulated), shown(loaded), share(loaded),
        ),
    })
}

/// Returns the measurements, other than latencies, of a policy at a load.
fn place(policy: &str, load: f64, runs: &[Run], samples: &Samples, plain: &Value) -> Value {
    let mean = |at: usize| runs.iter().map(|run| run.counts[at]).sum::<f64>() / runs.len() as f64;
    let part = |of: &[u64]| json!({"mean_ms": mean_ms(of), "p50_ms": self::of(of, 50.0), "p99_ms": self::of(of, 99.0)});
    json!({
        "load": load, "policy": policy, "requests": samples.latency.len(),
        "offered_rate": mean(0), "achieved_rate": mean(1), "copies_per_query": mean(2),
        "copies_per_query_simulated": plain["copies_per_query"],
        "overhead": {"front": part(&samples.front), "network": part(&samples.network),
                     "late": part(&samples.late)},
        "drawn_mean_ms": mean_ms(&samples.drawn),
    })
}

fn render(document: &Value) -> String {
    let cells = document["cells"].as_array().into_iter().flatten();
    let mut text: String =
        cells.filter_map(|cell| Some(format!("{}\n", cell["text"].as_str()?))).collect();
    let runs = &document["runs"];
    text += &format!(
        "{} × the demo's times; {} sound runs or more of {} requests each, ± half of the 95 % confidence \
         interval; {} cells were left out as unsound; the other results are in results.json\n",
        document["scale"],
        runs["sound"],
        runs["requests"],
        runs["left_out"].as_array().map_or(0, Vec::len),
    );
    text += match (document["holds"] == true, document["smoke"] == true) {
        (true, false) => "simulated and measured agree\n",
        (false, false) => {
            "simulated and measured DO NOT agree, or the measurements are not sound\n"
        }
        (true, true) => "smoke: all cells are measured and simulated; no latency is judged\n",
        (false, true) => "smoke: NOT all measurements are sound\n",
    };
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: Args,
    }

    fn args(more: &[&str]) -> Args {
        Typed::parse_from([&["search", "--compare-sim", "--scale", "1"], more].concat()).args
    }

    /// Returns a run in which psq at a load of 60 % is sound or unsound, as requested.
    fn results(sound: bool) -> Value {
        let good = json!({"valid": true, "offered_rate": 10.0, "achieved_rate": 9.0,
                          "copies_per_query": 1.5});
        let mut other = good.clone();
        other["valid"] = json!(sound);
        other["invalid_because"] = json!(["fell behind", "fell short"]);
        json!({"policies": {"psq": [good, good, other], "laedge": [good, good, good]}})
    }

    fn times(args: &Args, latency: u64) -> BTreeMap<Key, Samples> {
        let row = |(load, policy)| format!("{load},{policy},7,{latency},0,90,80,75,70\n");
        let rows: String = args.places().map(row).collect();
        samples::read(&format!("{}\n{rows}", samples::HEADER)).expect("a good table")
    }

    #[test]
    fn an_unsound_cell_is_left_out_alone_or_with_the_others() {
        let (alone, together) = (args(&[]), args(&["--together"]));
        for (args, laedge) in [(&alone, 1), (&together, 0)] {
            let mut measured = Measured::default();
            measured.add(1, args, &results(false), times(args, 100)).expect("the others are good");
            assert_eq!(measured.left_out, ["seed 1, psq at 0.6: fell behind, fell short"]);
            assert_eq!((measured.least(args), measured.runs("laedge", 0.6).len()), (0, laedge));
            measured.add(2, args, &results(true), times(args, 100)).expect("all are good");
            assert_eq!(measured.least(args), 1);
        }
    }

    #[test]
    fn a_cell_is_left_out_if_the_machine_stalled_or_nothing_was_measured() {
        let (args, mut measured) = (args(&[]), Measured::default());
        measured.add(1, &args, &results(true), times(&args, 400_000_000)).expect("times");
        assert!(measured.left_out[0].ends_with("stalled for 399 ms"), "{:?}", measured.left_out);
        assert_eq!(measured.left_out.len(), 6);
        let mut measured = Measured::default();
        measured.add(1, &args, &json!({}), BTreeMap::new()).expect("nothing to read");
        assert!(measured.left_out[0].ends_with("it was not measured"));
        assert!(measured.add(2, &args, &results(true), BTreeMap::new()).is_err());
    }

    #[test]
    fn a_cell_agrees_within_the_tolerance_of_the_simulation() {
        let of = |value: f64| value.is_finite().then_some(Estimate { value, half: None });
        for (measured, plain, loaded, agrees) in [
            (8.4, 10.0, 12.0, [false, false]),
            (8.6, 10.0, 12.0, [true, true]),
            (11.6, 10.0, 12.0, [false, true]),
            (13.9, 10.0, 12.0, [false, false]),
            (f64::NAN, 10.0, 10.0, [false, false]),
            (10.0, f64::NAN, 10.0, [false, true]),
        ] {
            let cell = cell("psq", 0.2, 99.0, [of(measured), of(plain), of(loaded), of(10.0)]);
            let is = ["agrees", "agrees_with_overhead"].map(|name| cell[name] == true);
            assert_eq!(is, agrees, "{cell}");
        }
    }
}
