//! Tests that the simulator conforms to the runtime with its HTTP transport and real sockets: both
//! make the same decisions in the same order at the same times. The results of simulations are
//! valid only if this is true. All scenarios are played over every [`Wire`].
//!
//! Scenarios are data. Some scenarios are files in `scenarios/`. Each file begins with a comment
//! that explains the scenario. Other scenarios are generated randomly from seeds. `CURTAIL_SEED`
//! replays one of the random scenarios, and `CURTAIL_SCENARIOS` sets their number over each wire.
#![allow(unreachable_pub)]

mod client;
mod compare;
mod conductor;
mod generate;
mod leaf;
mod replies;
mod scenario;
mod schedule;
mod wire;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use compare::{Agreed, both};
use curtail_sim::script::Entry;
use scenario::Scenario;
use wire::Wire;

/// Default number of random scenarios over each wire: several for each policy.
const SCENARIOS: u64 = 160;

/// Returns the scenarios in the folder with their names, sorted by name.
fn written() -> Vec<(String, Scenario)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/scenarios");
    let files = std::fs::read_dir(&folder).expect("the folder of scenarios");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(text.starts_with("# "), "{name} must begin with a comment on its purpose");
        let scenario = scenario::read(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        (name, scenario)
    };
    paths.into_iter().map(read).collect()
}

fn print(kind: &str, wire: Wire, agreed: Agreed) {
    let Agreed { scenarios, decisions, events } = agreed;
    println!(
        "conformance: {scenarios} {kind} scenarios over {wire:?}: {decisions} decisions, {events} \
         events agree"
    );
}

#[test]
fn written_scenarios_are_decided_the_same() {
    let scenarios = written();
    for wire in Wire::ALL {
        let mut agreed = Agreed::default();
        for (name, scenario) in &scenarios {
            let log =
                both(&scenario.script, wire, name).unwrap_or_else(|report| panic!("{report}"));
            agreed.add(Agreed::of(&log));
            decides(name, &scenario.decides, &log);
        }
        print("written", wire, agreed);
    }
}

/// Checks that the log contains these parts of lines, in this order.
fn decides(name: &str, decides: &[String], log: &[Entry]) {
    let lines: Vec<String> = log.iter().map(ToString::to_string).collect();
    let mut rest = lines.iter();
    for decided in decides {
        let stands = rest.any(|line| line.contains(decided.as_str()));
        assert!(stands, "{name}: {decided:?} does not follow in\n{}", lines.join("\n"));
    }
    assert!(
        !decides.is_empty(),
        "{name}: `decides` is empty; copy the lines that matter from this log, which is the same \
         in the simulator and over sockets:\n{}",
        lines.join("\n")
    );
}

#[test]
fn every_deployable_policy_is_in_a_written_scenario() {
    let written = written();
    for form in scenario::forms() {
        let shown = |(_, scenario): &(String, Scenario)| {
            scenario::is_of(&scenario.script.policy.to_string(), &form)
        };
        assert!(
            written.iter().any(shown),
            "no scenario covers {form}; add one to tests/conformance/scenarios"
        );
    }
}

#[test]
fn random_scenarios_are_decided_the_same() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse().expect(name));
    let seeds = match number("CURTAIL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CURTAIL_SCENARIOS").unwrap_or(SCENARIOS),
    };
    for wire in Wire::ALL {
        print("random", wire, random(wire, &seeds));
    }
}

fn random(wire: Wire, seeds: &Range<u64>) -> Agreed {
    let agreed = Mutex::new(Agreed::default());
    // Two threads, because the smallest machine that runs this has two cores.
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (agreed, seeds) = (&agreed, seeds.clone());
            scope.spawn(move || {
                for seed in seeds.filter(|seed| seed % 2 == half) {
                    let test = "cargo test -p curtail-runtime --test conformance";
                    let replay = format!("CURTAIL_SEED={seed} {test}");
                    let log = both(&generate::scenario(seed), wire, &replay);
                    let log = log.unwrap_or_else(|report| panic!("{report}"));
                    agreed.lock().unwrap().add(Agreed::of(&log));
                }
            });
        }
    });
    agreed.into_inner().unwrap()
}

/// All entries that the simulator and the runtime can log, without their numbers.
const MET: &str = "
    q arrives | -> probe s | c's server:  left,  ns of service | q is abandoned | tick | s is up | s is unhealthy | s is draining | s is down
    c finished: Good | c stopped
    -> start c of q on s: Primary, Arrival | -> start c of q on s: Primary, Queue
    -> start c of q on s: Primary, Retry | -> start c of q on s: Duplicate, Hedge
    -> start c of q on s: Duplicate, Delay | -> start c of q on s: Duplicate, Idle
    -> start c of q on s: Duplicate, Rescue | -> start c of q on s: Duplicate, Explore
    -> stop c: Cleanup | -> stop c: Preemption | -> stop c: Purge | -> stop c: GiveUp
    -> answer q by c
    -> fail q: CopyFailed | -> fail q: Timeout
    -> shed q: QueueFull | -> shed q: Expired | -> lose c | -> eject s: Timeout | -> restore s";

#[test]
fn random_scenarios_meet_everything() {
    let mut met = BTreeSet::new();
    for seed in 0..SCENARIOS {
        let log = curtail_sim::script::play(&generate::scenario(seed)).expect("a script");
        for line in log.iter().map(ToString::to_string) {
            let (_, what) = line.split_once(" ms  ").expect("a time comes first");
            met.insert(what.replace(|c: char| c.is_ascii_digit(), ""));
        }
    }
    // Only picks that need the sizes of responses log them.
    met.retain(|what| !what.starts_with("c received"));
    let all: BTreeSet<String> = MET.split(['|', '\n']).map(|what| what.trim().to_owned()).collect();
    let all: BTreeSet<String> = all.into_iter().filter(|what| !what.is_empty()).collect();
    assert_eq!(met, all);
}

/// Even the smallest difference between the simulator and the runtime is found, and the report
/// shows it.
#[test]
fn a_difference_is_found_and_shown() {
    let text = include_str!("scenarios/random_ties.toml");
    let script = scenario::read(text).expect("a scenario").script;
    let log = conductor::play(&script, Wire::Http1).expect("it can be played");
    let mut other = script.clone();
    other.seed += 1;
    let other = curtail_sim::script::play(&other).expect("it can be played");
    let report = compare::agree("that file", &other, &log).expect_err("seeds decide ties");
    for part in ["that file: entry ", "the simulator:\nS ", "over sockets:\nR "] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
    compare::agree("that file", &log, &log[1..]).expect_err("the first is missing");
    compare::agree("that file", &log[..log.len() - 1], &log).expect_err("the last is missing");
}
