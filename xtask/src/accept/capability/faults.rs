//! Killed leaves and black holes: the tests run them, and print figures.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::accept::finding::Finding;
use crate::cargo;

const AGAIN_MS_MOST: u64 = 1_000;

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let args = ["test", "--workspace", "--test", "faults", "--"];
    let args = [&args[..], &["--nocapture", "--test-threads", "1"]].concat();
    let said = cargo::output(&mut cargo::command(root, &args))?;
    // The runner writes a test's name before what it prints, on the same line.
    let figures = said.lines().filter_map(|line| Some(line.split_once("figure: ")?.1));
    let findings = figures.map(finding).collect::<Result<Vec<_>>>()?;
    anyhow::ensure!(findings.len() >= 6, "the tests print {} figures, not 6", findings.len());
    Ok(findings)
}

/// Of a line such as `kill -9, psq: 0 of 600 failed, used again after 301 ms`. That no request
/// failed is asserted by the test.
fn finding(line: &str) -> Result<Finding> {
    let read = || {
        let (fault, figure) = line.split_once(": ")?;
        let (_, again) = figure.rsplit_once("used again after ")?;
        Some((fault, figure, again.strip_suffix(" ms")?.parse::<u64>().ok()?))
    };
    let (fault, figure, again) = read().with_context(|| format!("no figure: {line}"))?;
    let claim = format!("{fault}: no request fails, and the leaf is used within a second");
    Ok(Finding::new(claim, figure, again <= AGAIN_MS_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::finding::Verdict;

    #[test]
    fn a_leaf_must_be_used_within_a_second() {
        let line = |ms: u64| format!("kill -9, psq: 0 of 600 failed, used again after {ms} ms");
        assert_eq!(finding(&line(1_000)).unwrap().verdict, Verdict::Holds);
        assert_eq!(finding(&line(1_001)).unwrap().verdict, Verdict::Broken);
        assert!(finding("kill -9").is_err());
    }
}
