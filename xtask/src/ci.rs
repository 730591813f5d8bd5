//! `cargo xtask ci`: runs and times every check. A failure does not skip the checks that follow.
//!
//! The steps are listed in `xtask/capabilities/ci.toml`, quick ones first. A step whose
//! requirements are missing is skipped, and the summary reports it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::accept;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// A requirement is missing; the text names it.
    Skipped(String),
}

/// A step with its result and its duration.
struct Timed {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// Runs all steps, or only the steps with the given names, and prints a summary. The steps use the
/// given variables. Returns false if a step failed.
pub(crate) fn run(root: &Path, only: &[&str], set: &[(String, String)]) -> Result<bool> {
    let (steps, mut vars) = accept::steps(root, only)?;
    vars.extend(set.iter().cloned());
    let run = |step: &accept::Step| {
        timed(&step.name, || {
            if step.heavy && only.is_empty() {
                let why = format!("takes minutes; run cargo xtask ci --step {}", step.name);
                return Ok(Outcome::Skipped(why));
            }
            accept::step(root, step, &vars)
        })
    };
    let results: Vec<Timed> = steps.iter().map(run).collect();
    print!("\n{}", summary(&results));
    Ok(results.iter().all(|result| result.outcome != Outcome::Failed))
}

fn timed(name: &str, step: impl FnOnce() -> Result<Outcome>) -> Timed {
    println!("== {name}");
    let start = Instant::now();
    // A step that cannot run counts as failed, and the other steps still run.
    let outcome = step().unwrap_or_else(|error| {
        println!("error: {error:#}");
        Outcome::Failed
    });
    if let Outcome::Skipped(why) = &outcome {
        println!("SKIPPED {name}: {why}");
    }
    Timed { name: name.to_owned(), outcome, took: start.elapsed() }
}

fn summary(results: &[Timed]) -> String {
    let mut text = String::new();
    let mut total = Duration::ZERO;
    for Timed { name, outcome, took } in results {
        let seconds = took.as_secs_f64();
        let verdict = match outcome {
            Outcome::Passed => "ok".to_owned(),
            Outcome::Failed => "FAILED".to_owned(),
            Outcome::Skipped(why) => format!("SKIPPED: {why}"),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name:<12} {seconds:>7.1} s  {verdict}");
        total += *took;
    }
    let _ = writeln!(text, "{:<12} {:>7.1} s", "in all", total.as_secs_f64());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_each_step_and_its_outcome() {
        let skipped = || Ok(Outcome::Skipped("it is not installed".to_owned()));
        let results = [
            timed("bad", || Ok(Outcome::Failed)),
            timed("broken", || anyhow::bail!("no such program")),
            timed("absent", skipped),
            timed("good", || Ok(Outcome::Passed)),
        ];
        let text = summary(&results);
        let ends = ["FAILED", "FAILED", "  SKIPPED: it is not installed", "ok"];
        for ((line, name), end) in text.lines().zip(["bad", "broken", "absent", "good"]).zip(ends) {
            assert!(
                line.starts_with(name) && line.contains(" s  ") && line.ends_with(end),
                "{line:?}"
            );
        }
        assert_eq!(text.lines().count(), results.len() + 1);
    }
}
