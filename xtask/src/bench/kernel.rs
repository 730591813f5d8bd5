//! What a query costs in the kernel: instructions, counted by callgrind, and nanoseconds.
//!
//! The count is the difference between a longer and a shorter run, so it is free of what it costs to
//! fill the cell. It is exact and repeatable; the nanoseconds are neither.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo;

/// The bound that the kernel has set itself.
pub(crate) const MOST: u64 = 250;

/// A query costs two events; whatever counts less than this has not counted the kernel.
const LEAST: u64 = 50;

/// Where counting begins and ends: in what a cell does with an event, of every policy. A pattern
/// that names closures within, too, would end the counting where one is called; and this function
/// does not call itself.
const COUNTED: &str = "*::Scheduler>::handle";

/// Policy, replicas, waiting queries.
pub(crate) type Case = (&'static str, u32, u32);

/// What the bound is about.
pub(crate) const BOUND: Case = ("psq", 2, 0);

const CASES: &[Case] = &[
    BOUND,
    ("psq", 2, 10),
    ("psq", 2, 100_000),
    ("psq", 8, 0),
    ("psq", 8, 10),
    ("psq", 64, 0),
    ("psq", 64, 10),
    ("psq", 512, 0),
    ("psq", 512, 10),
    ("psq", 512, 100_000),
    ("random", 2, 0),
    ("two-choices", 2, 0),
    ("naive", 2, 0),
    ("laedge", 2, 0),
    ("laedge", 2, 10),
    ("laedge", 64, 10),
    ("laedge", 512, 10),
    ("laedge:cc", 2, 0),
    ("laedge:cc+pc", 2, 10),
    ("rescue", 2, 0),
    ("rescue", 2, 10),
    ("rescue", 64, 10),
    ("rescue+bounded:2", 2, 10),
];

/// Queries of the shorter and the longer counted run, and of the timed one.
const RUNS: (u32, u32) = (10_000, 20_000);
const TIMED: u32 = 1_000_000;

/// Prints the table; false if the bound does not hold.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let pair = build(root)?;
    let counts = has_valgrind();
    if !counts {
        println!("SKIPPED instruction counts: valgrind is not installed");
    }
    println!(
        "{:<16}{:>10}{:>10}{:>16}{:>12}",
        "policy", "replicas", "waiting", "instructions", "ns"
    );
    let mut bounded = None;
    for &case in CASES {
        let (policy, replicas, waiting) = case;
        let count = if counts { Some(instructions(&pair, case)?) } else { None };
        if case == BOUND {
            bounded = count;
        }
        let shown = count.map_or_else(|| "–".into(), |count| count.to_string());
        let ns = nanoseconds(&pair, case)?;
        println!("{policy:<16}{replicas:>10}{waiting:>10}{shown:>16}{ns:>12.1}");
    }
    let Some(bounded) = bounded else { return Ok(true) };
    let verdict = if bounded <= MOST { "holds" } else { "is broken" };
    println!("\nbound of {MOST} instructions for psq at r = 2: {verdict}, {bounded}");
    Ok(bounded <= MOST)
}

/// Instructions per query of a case; none without valgrind.
pub(crate) fn count(root: &Path, case: Case) -> Result<Option<u64>> {
    let pair = build(root)?;
    has_valgrind().then(|| instructions(&pair, case)).transpose()
}

fn build(root: &Path) -> Result<PathBuf> {
    let args = ["build", "--release", "--quiet", "-p", "curtail-kernel", "--example", "pair"];
    ensure!(cargo::succeeds(&mut cargo::command(root, &args))?, "pair does not build");
    Ok(cargo::target_folder(root)?.join("release/examples/pair"))
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn instructions(pair: &Path, case: Case) -> Result<u64> {
    let (short, long) = RUNS;
    let counts = (collected(pair, case, short)?, collected(pair, case, long)?);
    per_query(counts).with_context(|| format!("{case:?}"))
}

/// Of what the shorter and the longer run collected. Callgrind does not mind a pattern that names
/// no function: it collects nothing, which is below any bound.
fn per_query((short, long): (u64, u64)) -> Result<u64> {
    ensure!(short > 0, "callgrind counts no instructions: nothing is named {COUNTED}");
    let difference = long.saturating_sub(short);
    let count = difference / u64::from(RUNS.1 - RUNS.0);
    ensure!(
        count >= LEAST,
        "callgrind counts {short} and {long} instructions: {count} per query are too few to be \
         the kernel's"
    );
    Ok(count)
}

fn collected(pair: &Path, case: Case, queries: u32) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--toggle-collect={COUNTED}"));
    command.arg("--callgrind-out-file=/dev/null").arg(pair).args(arguments(case, queries));
    let output = command.output().context("valgrind does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {said}");
    count_said(&said).with_context(|| format!("valgrind counted nothing: {said}"))
}

fn count_said(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split("Collected :").nth(1))?.trim().parse().ok()
}

fn nanoseconds(pair: &Path, case: Case) -> Result<f64> {
    let said = cargo::output(Command::new(pair).args(arguments(case, TIMED)))?;
    let value = said.split_whitespace().find_map(|word| word.strip_prefix("ns_per_query="));
    value.context("pair prints no time")?.parse().context("pair prints no number")
}

fn arguments((policy, replicas, waiting): Case, queries: u32) -> [String; 4] {
    [policy.into(), replicas.to_string(), waiting.to_string(), queries.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_nothing_is_an_error() {
        assert_eq!(per_query((2_450_989, 4_900_989)).expect("a count"), 245);
        for nothing in [(0, 0), (0, 2_450_000), (2_450_989, 2_450_989), (4_900_989, 2_450_989)] {
            assert!(per_query(nothing).is_err(), "{nothing:?}");
        }
        let queries = u64::from(RUNS.1 - RUNS.0);
        assert_eq!(per_query((1, 1 + LEAST * queries)).expect("just enough"), LEAST);
        assert!(per_query((1, LEAST * queries)).is_err(), "an instruction short of the least");
    }

    #[test]
    fn what_callgrind_prints_is_read() {
        let said = "==7== Events    : Ir\n==7== Collected : 2450989\n==7== \n";
        assert_eq!(count_said(said), Some(2_450_989));
        assert_eq!(count_said("==7== Collected : \n"), None);
        assert_eq!(count_said("valgrind: no such file"), None);
    }
}
