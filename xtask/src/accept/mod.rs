//! `cargo xtask accept NAME`: every line that a capability is done by, with its figure and verdict.
//!
//! A line is judged by what is run here and now; nothing is remembered. Lines take minutes, and
//! some of them want an otherwise idle machine.

mod capability;
mod finding;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

use finding::{Finding, Verdict};

/// What can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Capability {
    /// LÆDGE in front of a real sharded search service, in one command
    Main,
    /// The simulator, the models and the advisor
    Decide,
    /// Our own policy: second copies for stuck queries
    Rescue,
    /// The load generator and IQ-jitter
    Measure,
}

/// One line of what a capability is done by.
struct Check {
    line: u32,
    run: fn(&Path) -> Result<Vec<Finding>>,
}

/// Judges a capability; false if a line does not hold. `only`: which lines, or none for all.
pub(crate) fn run(root: &Path, capability: Capability, only: &[u32]) -> Result<bool> {
    let checks = match capability {
        Capability::Main => capability::MAIN,
        Capability::Decide => capability::DECIDE,
        Capability::Rescue => capability::RESCUE,
        Capability::Measure => capability::MEASURE,
    };
    let known: Vec<u32> = checks.iter().map(|check| check.line).collect();
    if let Some(line) = only.iter().find(|line| !known.contains(line)) {
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        anyhow::bail!("--line {line}: there is no such line; give one of {}", known.join(", "));
    }
    let mut told = String::new();
    let mut verdicts = Vec::new();
    for check in checks.iter().filter(|check| only.is_empty() || only.contains(&check.line)) {
        eprintln!("== line {}", check.line);
        let findings = (check.run)(root).unwrap_or_else(|error| {
            vec![Finding::new("it can be judged", format!("{error:#}"), Verdict::Broken)]
        });
        for finding in findings {
            verdicts.push(finding.verdict);
            let line = format!("{}  {finding}\n", check.line);
            eprint!("{line}");
            told.push_str(&line);
        }
    }
    print!("\n{told}{}\n", tally(&verdicts));
    Ok(!verdicts.contains(&Verdict::Broken))
}

/// What was skipped breaks nothing, but it was not judged: that is said.
fn tally(verdicts: &[Verdict]) -> String {
    let count = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    let [hold, broken, skipped] = [Verdict::Holds, Verdict::Broken, Verdict::Skipped].map(count);
    format!("{hold} hold, {broken} BROKEN, {skipped} SKIPPED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_is_told() {
        let verdicts = [Verdict::Holds, Verdict::Skipped, Verdict::Holds, Verdict::Broken];
        assert_eq!(tally(&verdicts), "2 hold, 1 BROKEN, 1 SKIPPED");
        assert_eq!(tally(&[]), "0 hold, 0 BROKEN, 0 SKIPPED");
    }
}
