//! `cargo xtask ci`: every check, each timed, none skipped because an earlier one failed.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cargo::Profile;
use crate::eval::measuring::MANIFEST;
use crate::{accept, cargo, fuzz, purity, python, soak, test, tidy};

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// What it needs is not here: said which.
    Skipped(String),
}

impl From<bool> for Outcome {
    fn from(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }
}

/// One line of the table.
struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<Outcome>,
}

/// All steps, in order: quick ones first, then the tests. Add a smoke run (real processes,
/// fuzzing, soak) as one more line.
const STEPS: &[Step] = &[
    Step { name: "fmt", run: |root| shown(root, &["fmt", "--all", "--check"]) },
    Step { name: "clippy", run: clippy },
    Step { name: "docs", run: docs },
    Step { name: "deny", run: deny },
    Step { name: "purity", run: |root| Ok(purity::run(root)?.into()) },
    Step { name: "tidy", run: |root| Ok(tidy::run(root)?.into()) },
    Step { name: "instructions", run: instructions },
    Step { name: "test", run: |root| Ok(test::run(root)?.into()) },
    Step { name: "python", run: python },
    Step { name: "measuring", run: measuring },
    Step { name: "fuzz", run: |root| Ok(fuzz::run(root, FUZZ_CASES)?.into()) },
    Step {
        name: "soak",
        run: |root| Ok(soak::run(root, Profile::Dev, &soak::Args::minute())?.into()),
    },
];

/// A minute or two's worth, half of it for the protocols of the load generator.
const FUZZ_CASES: u32 = 100_000;

/// The Python package, where there is Python and a registry of its packages.
fn python(root: &Path) -> Result<Outcome> {
    Ok(match python::run(root)? {
        python::Ran::Lacking(why) => Outcome::Skipped(why),
        python::Ran::Failed(what) => {
            println!("error: {what}");
            Outcome::Failed
        }
        python::Ran::Tested { passed, closing } => {
            println!("{closing}");
            passed.into()
        }
    })
}

/// The workspace of AF_XDP, which no other step compiles. Tests that need root, or two processors, say
/// that they are skipped.
fn measuring(root: &Path) -> Result<Outcome> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::Skipped("AF_XDP is Linux's".to_owned()));
    }
    let target = cargo::target_folder(root)?;
    let checks: [(&[&str], &[&str]); 3] = [
        (&["fmt", "--check"], &[]),
        (&["clippy", "--quiet", "--locked", "--all-targets"], &["--", "-D", "warnings"]),
        (&["test", "--quiet", "--locked"], &["--", "--nocapture"]),
    ];
    for (verb, more) in checks {
        let mut command = cargo::command(root, verb);
        command.args(["--manifest-path", MANIFEST]);
        if verb[0] != "fmt" {
            command.arg("--target-dir").arg(&target);
        }
        if !cargo::succeeds(command.args(more))? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// The kernel's bound on instructions, where they can be counted.
fn instructions(root: &Path) -> Result<Outcome> {
    if cargo::output(std::process::Command::new("valgrind").arg("--version")).is_err() {
        return Ok(Outcome::Skipped("valgrind is not installed".into()));
    }
    let bound = ["bound".to_owned()];
    Ok(accept::run(root, "bench", &bound, &accept::Options::default())?.into())
}

/// Runs all steps and prints a summary; false if one failed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let results = run_steps(STEPS, root);
    print!("\n{}", summary(&results));
    Ok(results.iter().all(|result| result.outcome != Outcome::Failed))
}

struct Timed {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

fn run_steps(steps: &[Step], root: &Path) -> Vec<Timed> {
    let mut results = Vec::with_capacity(steps.len());
    for step in steps {
        println!("== {}", step.name);
        let start = Instant::now();
        // A step that cannot run is a step that failed: the others still have something to say.
        let outcome = (step.run)(root).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome::Failed
        });
        if let Outcome::Skipped(why) = &outcome {
            println!("SKIPPED {}: {why}", step.name);
        }
        results.push(Timed { name: step.name, outcome, took: start.elapsed() });
    }
    results
}

/// What stands between a step that was skipped and why.
const SKIPPED: &str = " s  SKIPPED: ";

fn summary(results: &[Timed]) -> String {
    let mut text = String::new();
    for Timed { name, outcome, took } in results {
        let seconds = took.as_secs_f64();
        let verdict = match outcome {
            Outcome::Passed => " s  ok".to_owned(),
            Outcome::Failed => " s  FAILED".to_owned(),
            Outcome::Skipped(why) => format!("{SKIPPED}{why}"),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name:<10} {seconds:>7.1}{verdict}");
    }
    text
}

fn shown(root: &Path, args: &[&str]) -> Result<Outcome> {
    Ok(cargo::succeeds(&mut cargo::command(root, args))?.into())
}

fn clippy(root: &Path) -> Result<Outcome> {
    shown(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn docs(root: &Path) -> Result<Outcome> {
    let mut command = cargo::command(root, &["doc", "--workspace", "--no-deps"]);
    Ok(cargo::succeeds(command.env("RUSTDOCFLAGS", "-D warnings"))?.into())
}

fn deny(root: &Path) -> Result<Outcome> {
    if cargo::output(&mut cargo::command(root, &["deny", "--version"])).is_err() {
        return Ok(Outcome::Skipped("cargo-deny is not installed".to_owned()));
    }
    // What only one of the workspaces meets is no news in the others.
    let quiet = ["-A", "license-exception-not-encountered", "-A", "unused-wrapper"];
    let check = [&["check"], &quiet[..], &["bans", "licenses", "sources"]].concat();
    let main = shown(root, &[&["deny"], &check[..]].concat())?;
    let python = ["deny", "--manifest-path", "python/Cargo.toml"];
    // The Python package and AF_XDP are workspaces of their own, under the same rules; they are looked
    // for from there.
    let python = shown(root, &[&python[..], &check, &["--config", "../deny.toml"]].concat())?;
    let measuring = ["deny", "--manifest-path", MANIFEST];
    let measuring =
        shown(root, &[&measuring[..], &check, &["--config", "../../deny.toml"]].concat())?;
    let all = [main, python, measuring];
    Ok(all.into_iter().find(|of| *of != Outcome::Passed).unwrap_or(Outcome::Passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAKE: &[Step] = &[
        Step { name: "bad", run: |_| Ok(Outcome::Failed) },
        Step { name: "broken", run: |_| anyhow::bail!("no such program") },
        Step { name: "absent", run: |_| Ok(Outcome::Skipped("it is not installed".to_owned())) },
        Step { name: "good", run: |_| Ok(Outcome::Passed) },
    ];

    #[test]
    fn all_steps_run_and_the_summary_names_each() {
        let results = run_steps(FAKE, Path::new("."));
        let text = summary(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), FAKE.len());
        for (line, (name, verdict)) in lines.iter().zip([
            ("bad", "FAILED"),
            ("broken", "FAILED"),
            ("absent", "SKIPPED: it is not installed"),
            ("good", "ok"),
        ]) {
            assert!(line.starts_with(name) && line.ends_with(verdict), "{line:?}");
        }
    }
}
