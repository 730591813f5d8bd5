//! Decide before you deploy: the simulator and the advisor.

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::accept::finding::{Finding, Verdict};
use crate::bench::sim;
use crate::cargo;
use crate::eval::papers::{self, claims, surface};
use crate::eval::search;
use crate::python::{self, Ran};

/// What the sources claim.
pub(super) fn claims(root: &Path) -> Result<Vec<Finding>> {
    let rows = claims::judge(root, false)?;
    let finding = |row: papers::Row| {
        let holds = row.verdict == papers::Verdict::Agrees;
        Finding::new(format!("{} ({})", row.claim, row.published), row.ours, holds)
    };
    // What is only reported is not claimed, so there is nothing to hold or to break.
    let claimed = rows.into_iter().filter(|row| row.verdict != papers::Verdict::Reported);
    let mut findings: Vec<Finding> = claimed.map(finding).collect();
    findings.push(surface(root)?);
    Ok(findings)
}

/// Table 5.1: an hour, where its maps are not drawn yet.
fn surface(root: &Path) -> Result<Finding> {
    let rows = surface::judge(root, false)?;
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let off = count(papers::Verdict::Differs);
    let claim =
        "Table 5.1 is redrawn: its cells are within 6 points on our grid, or on one as good";
    let figure = format!(
        "{} and {} of {}; eval papers table-5.1 lists all",
        count(papers::Verdict::Agrees),
        count(papers::Verdict::Explained),
        rows.len()
    );
    Ok(Finding::new(claim, figure, off == 0))
}

/// A live service beside the simulator. A cell that may miss holds; that only one does is a finding
/// of its own.
pub(super) fn live(root: &Path) -> Result<Vec<Finding>> {
    let comparison = search::compare_all(root)?;
    let mut findings: Vec<Finding> =
        comparison.told().map(|(claim, figure, good)| Finding::new(claim, figure, good)).collect();
    let claim = "simulated and measured agree in all cells, or in all but one";
    findings.push(Finding::new(claim, comparison.summary(), comparison.holds()));
    Ok(findings)
}

/// The same scenarios in the simulator and over sockets.
pub(super) fn conformance(root: &Path) -> Result<Vec<Finding>> {
    // Printing, or the test would keep what it counts to itself.
    let args = ["test", "-p", "curtail-runtime", "--test", "conformance", "--", "--nocapture"];
    let mut agreed = Agreed::default();
    let passed = cargo::followed(&mut cargo::command(root, &args), |line| agreed.read(line))?;
    let claim = "simulator and sockets make the same decisions in the same order";
    Ok(vec![Finding::new(claim, agreed.to_string(), passed && agreed.counts.len() == KINDS)])
}

/// Written scenarios and random ones.
const KINDS: usize = 2;

/// What the conformance test says it compared.
#[derive(Debug, Default)]
struct Agreed {
    counts: Vec<String>,
}

impl Agreed {
    /// Reads `conformance: 25 written scenarios: 300 decisions, 320 events agree`, behind whatever
    /// the test runner has left on the line.
    fn read(&mut self, line: &str) {
        let counts = line.split_once("conformance: ").map(|(_, counts)| counts.trim_end());
        self.counts.extend(counts.filter(|c| c.ends_with(" agree")).map(str::to_owned));
    }
}

impl fmt::Display for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counts.as_slice() {
            [] => f.write_str("the test does not say what it compared"),
            counts => f.write_str(&counts.join("; ")),
        }
    }
}

/// The Python package.
pub(super) fn python(root: &Path) -> Result<Vec<Finding>> {
    let installs = "the Python package installs into a fresh environment, and its tests pass";
    let same = "a sweep on Ray gives the same bytes as a local one";
    let both = |figure: &str, verdict: Verdict| {
        vec![Finding::new(installs, figure, verdict), Finding::new(same, figure, verdict)]
    };
    Ok(match python::run(root)? {
        Ran::Lacking(why) => both(&why, Verdict::Skipped),
        Ran::Failed(what) => both(what, Verdict::Broken),
        Ran::Tested { passed, closing, ray } => vec![
            Finding::new(installs, closing, passed),
            Finding::new(same, if ray { "compared" } else { "not compared, or other" }, ray),
        ],
    })
}

/// How fast the simulator is.
pub(super) fn speed(root: &Path) -> Result<Vec<Finding>> {
    let bounds = sim::bounds(root)?;
    let finding = |bound: sim::Bounded| Finding::new(bound.claim, bound.figure, bound.holds);
    Ok(bounds.into_iter().map(finding).collect())
}

/// Is advice right?
pub(super) fn advice(root: &Path) -> Result<Vec<Finding>> {
    let claim = "advice is right in ten services, and hiccups are found in samples";
    let start = std::time::Instant::now();
    let mut good = true;
    // A filter would apply to the tests of both.
    for tests in [&["--test", "advise"][..], &["--lib", "advise"]] {
        let args = [&["test", "-p", "curtail-sim"][..], tests].concat();
        good &= cargo::succeeds(&mut cargo::command(root, &args))?;
    }
    Ok(vec![Finding::new(claim, format!("in {:.0} s", start.elapsed().as_secs_f64()), good)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compared_is_read_and_repeated() {
        let mut agreed = Agreed::default();
        assert_eq!(agreed.to_string(), "the test does not say what it compared");
        agreed.read("test a ... conformance: 2 written scenarios: 3 decisions, 4 events agree\n");
        agreed.read("test conformance: ok\n");
        agreed.read("conformance: 5 random scenarios: 6 decisions, 7 events agree\n");
        let all = "2 written scenarios: 3 decisions, 4 events agree; \
                   5 random scenarios: 6 decisions, 7 events agree";
        assert_eq!(agreed.to_string(), all);
    }
}
