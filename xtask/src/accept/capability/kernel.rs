//! The kernel: its promises over random events, and what a query costs.

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::{Finding, Verdict};
use crate::bench::kernel::{self, Case};
use crate::cargo;

const EVENTS: &str = "10000000";

/// What a query may cost more where 100,000 wait than where 10 do, and on one of 512 replicas than
/// on one of 64: growth with the logarithm, and none.
const QUEUE_MOST: f64 = 1.1;
const REPLICAS_MOST: f64 = 1.5;

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = vec![properties(root)?];
    let cost = |case: Case| kernel::count(root, case);
    let Some(pair) = cost(kernel::BOUND)? else {
        let claim = "instructions per arrive + finished pair";
        findings.push(Finding::new(claim, "valgrind is not installed", Verdict::Skipped));
        return Ok(findings);
    };
    findings.push(Finding::new(
        format!("at most {} instructions per arrive + finished pair, PSQ, r = 2", kernel::MOST),
        pair.to_string(),
        pair <= kernel::MOST,
    ));
    let mut growth = |claim: &str, less: Case, more: Case, most: f64| -> Result<()> {
        let (Some(less), Some(more)) = (cost(less)?, cost(more)?) else { return Ok(()) };
        let ratio = more as f64 / less as f64;
        let figure = format!("{less} → {more}, {ratio:.2} × (at most {most} ×)");
        findings.push(Finding::new(claim, figure, ratio <= most));
        Ok(())
    };
    let (queue, replicas) = ("instructions from 10 to 100,000 waiting", "from r = 64 to 512");
    growth(&format!("{queue}, r = 2"), ("psq", 2, 10), ("psq", 2, 100_000), QUEUE_MOST)?;
    growth(&format!("{queue}, r = 512"), ("psq", 512, 10), ("psq", 512, 100_000), QUEUE_MOST)?;
    growth(&format!("instructions {replicas}"), ("psq", 64, 0), ("psq", 512, 0), REPLICAS_MOST)?;
    Ok(findings)
}

fn properties(root: &Path) -> Result<Finding> {
    let args = ["test", "--workspace", "--test", "random_events"];
    let mut command = cargo::command(root, &[&args[..], &["--test", "small_worlds"]].concat());
    command.env("CURTAIL_EVENTS", EVENTS);
    let start = std::time::Instant::now();
    let good = cargo::succeeds(&mut command)?;
    let figure = format!("{EVENTS} events in {:.0} s", start.elapsed().as_secs_f64());
    Ok(Finding::new("the promises hold over random events and in all small worlds", figure, good))
}
