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
    Ok(rows.into_iter().map(finding).collect())
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
