//! What holds whatever happens.

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::Finding;
use crate::cargo;
use crate::eval::sim::Simulator;

/// Tests of the kernel, by what they show.
const TESTS: [(&str, &[&str]); 3] = [
    (
        "in random events: a suspect overtakes a server's queue once per query of it, no query has \
         more than two copies, and rescues stay within the budget",
        &["--test", "random_events"],
    ),
    ("each step of the policy does as it should", &["--test", "rescue"]),
    (
        "what is learned of drawn services is right, and exploration fades",
        &["--test", "rescue_learner"],
    ),
];

/// Second copies per query that may be left without hiccups, once a million queries have been seen.
const LEFT: f64 = 0.001;

/// What may be spent in vain: the default of the budget.
const BUDGET: f64 = 0.02;

pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (claim, test) in TESTS {
        let args = [&["test", "--quiet", "-p", "curtail-kernel"], test].concat();
        let mut last = String::new();
        let passed = cargo::followed(&mut cargo::command(root, &args), |line| {
            if line.starts_with("test result") {
                line.trim_end().clone_into(&mut last);
            }
        })?;
        findings.push(Finding::new(claim, last, passed));
    }
    findings.extend(without_hiccups(root)?);
    Ok(findings)
}

/// Without hiccups there is nothing to rescue.
fn without_hiccups(root: &Path) -> Result<Vec<Finding>> {
    let learning = Simulator::new(root, &["--requests", "20000", "--warm-up", "0"])?;
    let learned = Simulator::new(root, &["--requests", "40000", "--warm-up", "0.5"])?;
    let mut findings = Vec::new();
    for policy in ["rescue", "rescue:preempt", "rescue:no-cancel"] {
        let copies = |simulator: &Simulator| -> Result<f64> {
            let outcomes = simulator.at(0.3, &[policy], &[])?;
            Ok(outcomes[0].number("/copies_per_query")? - 1.0)
        };
        let (at_first, later) = (copies(&learning)?, copies(&learned)?);
        let claim = format!("{policy} without hiccups explores within the budget, and becomes psq");
        let figure = format!(
            "{:.3} % of queries are explored in the first million, {:.3} % in the next",
            100.0 * at_first,
            100.0 * later
        );
        findings.push(Finding::new(claim, figure, at_first <= BUDGET && later <= LEFT));
    }
    Ok(findings)
}
