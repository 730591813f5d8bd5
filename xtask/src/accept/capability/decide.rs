//! Decide before you deploy: the simulator and the advisor.

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::Finding;
use crate::bench::sim;
use crate::cargo;
use crate::eval::papers::{self, claims};

/// What the sources claim.
pub(super) fn claims(root: &Path) -> Result<Vec<Finding>> {
    let rows = claims::judge(root, false)?;
    let finding = |row: papers::Row| {
        let holds = row.verdict == papers::Verdict::Agrees;
        Finding::new(format!("{} ({})", row.claim, row.published), row.ours, holds)
    };
    let mut findings: Vec<Finding> = rows.into_iter().map(finding).collect();
    findings.extend(unbuilt("Table 5.1 is redrawn in full, and its deviations are explained")?);
    Ok(findings)
}

/// A live service beside the simulator.
pub(super) fn live(_: &Path) -> Result<Vec<Finding>> {
    unbuilt("simulated and measured latencies of the search service agree")
}

/// The same scenarios in the simulator and over sockets.
pub(super) fn conformance(_: &Path) -> Result<Vec<Finding>> {
    unbuilt("simulator and sockets make the same decisions in the same order")
}

/// The Python package.
pub(super) fn python(_: &Path) -> Result<Vec<Finding>> {
    unbuilt("the Python package installs, and a sweep on Ray gives the same bytes")
}

/// A line that nothing judges does not hold.
fn unbuilt(claim: &str) -> Result<Vec<Finding>> {
    Ok(vec![Finding::new(claim, "nothing judges this yet", false)])
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
