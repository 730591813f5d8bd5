//! What a query costs in the kernel: instructions, counted by callgrind, and nanoseconds.
//!
//! The count is the difference between a longer and a shorter run, so it is free of what it costs to
//! fill the cell. It is exact and repeatable; the nanoseconds are neither.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo;

/// The bound that the kernel has set itself.
pub(crate) const MOST: u64 = 250;

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
        "{:<14}{:>10}{:>10}{:>16}{:>12}",
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
        println!("{policy:<14}{replicas:>10}{waiting:>10}{shown:>16}{ns:>12.1}");
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
    anyhow::ensure!(cargo::succeeds(&mut cargo::command(root, &args))?, "pair does not build");
    Ok(cargo::target_folder(root)?.join("release/examples/pair"))
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn instructions(pair: &Path, case: Case) -> Result<u64> {
    let (short, long) = RUNS;
    let difference = collected(pair, case, long)? - collected(pair, case, short)?;
    Ok(difference / u64::from(long - short))
}

fn collected(pair: &Path, case: Case, queries: u32) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--toggle-collect=*Scheduler*handle*"]);
    command.arg("--callgrind-out-file=/dev/null").arg(pair).args(arguments(case, queries));
    let output = command.output().context("valgrind does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find_map(|line| line.split("Collected :").nth(1));
    let count = line.and_then(|line| line.trim().parse().ok());
    count.with_context(|| format!("valgrind counted nothing: {said}"))
}

fn nanoseconds(pair: &Path, case: Case) -> Result<f64> {
    let said = cargo::output(Command::new(pair).args(arguments(case, TIMED)))?;
    let value = said.split_whitespace().find_map(|word| word.strip_prefix("ns_per_query="));
    value.context("pair prints no time")?.parse().context("pair prints no number")
}

fn arguments((policy, replicas, waiting): Case, queries: u32) -> [String; 4] {
    [policy.into(), replicas.to_string(), waiting.to_string(), queries.to_string()]
}
