//! What rescue gains on the live search service, and whether the simulator foresees that.

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::Finding;
use crate::eval::search::rule::{self, Cell, Estimate};
use crate::eval::search::service::{Plan, Size, percent};
use crate::eval::search::{self, Comparison, SCALE, table};

/// A service that has run for a while is judged: at a lighter load, before the others, rescue learns.
fn plan() -> Plan {
    Plan {
        policies: &["psq", "laedge", "rescue"],
        loads: &LOADS,
        learning: Some(0.2),
        together: true,
        size: Size { repetitions: 10, ..Size::new(false, SCALE) },
    }
}

/// Many more requests of rescue alone, from one of the loads on: where two copies that are stuck block a
/// shard, a hundred requests wait, so that of ten thousand that decides the 99th percentile.
fn longer(first: usize) -> Plan {
    let size = plan().size;
    Plan {
        policies: &["rescue"],
        loads: &LOADS[first..],
        // Lighter still, and as many requests would take too long.
        learning: Some(if first == 0 { 0.2 } else { 0.4 }),
        size: Size { requests: 4 * size.requests, ..size },
        ..plan()
    }
}

/// Utilizations.
static LOADS: [f64; 3] = [0.3, 0.5, 0.7];

/// Copies per query, at most.
const COPIES_MOST: f64 = 1.05;

/// Requests of each policy at each load, at least.
const REQUESTS_LEAST: usize = 10_000;

/// The search service with real sockets: per-shard queuing, LÆDGE and rescue, with the same requests.
pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let comparison = search::compare(root, "rescue/live", plan(), false)?;
    let requests = comparison.requests();
    let claim = format!("at least {REQUESTS_LEAST} of the same requests for each policy and load");
    let mut findings = vec![Finding::new(claim, requests.to_string(), requests >= REQUESTS_LEAST)];
    let at = |policy, load, percentile| {
        comparison.cell(policy, load, percentile).and_then(|cell| cell.measured)
    };
    for load in LOADS {
        let [p99, p50] = [99.0, 50.0]
            .map(|percentile| ["psq", "laedge", "rescue"].map(|p| at(p, load, percentile)));
        findings.extend([tail(load, p99), median(load, p50)]);
    }
    findings.push(copies(&comparison));
    let mut cells = rescued(&comparison, &LOADS);
    if let Some(first) = cells.iter().position(|(cell, _)| is_uncertain(cell)) {
        let longer = search::compare(root, "rescue/longer", longer(first), false)?;
        cells.truncate(first);
        cells.extend(rescued(&longer, &LOADS[first..]));
    }
    findings.extend(foreseen(&cells));
    Ok(findings)
}

/// The 99th percentiles of rescue, and of how many requests they are.
fn rescued(comparison: &Comparison, loads: &[f64]) -> Vec<(Cell, usize)> {
    let cells = loads.iter().filter_map(|&load| comparison.cell("rescue", load, 99.0));
    cells.map(|cell| (cell.clone(), comparison.requests())).collect()
}

/// May it be off by more than is allowed, by chance alone?
fn is_uncertain(cell: &Cell) -> bool {
    let measured = cell.measured;
    measured.is_some_and(|it| it.half.is_none_or(|half| half > rule::TOLERANCE * it.value))
}

/// What could not be measured is no gain.
fn tail(load: f64, [psq, laedge, rescue]: [Option<Estimate>; 3]) -> Finding {
    let [psq_told, laedge_told, rescue_told] = [psq, laedge, rescue].map(table::shown);
    Finding::new(
        format!("at {} rescue's p99 is below LÆDGE's", percent(load)),
        format!("{rescue_told} ms, LÆDGE's {laedge_told}, PSQ's {psq_told}"),
        laedge.zip(rescue).is_some_and(|(laedge, rescue)| rescue.value < laedge.value),
    )
}

/// Not above by more than the confidence intervals of both allow.
fn median(load: f64, [psq, _, rescue]: [Option<Estimate>; 3]) -> Finding {
    let holds = psq.zip(rescue).is_some_and(|(psq, rescue)| {
        let chance = rescue.half.unwrap_or(0.0).hypot(psq.half.unwrap_or(0.0));
        rescue.value <= psq.value + chance
    });
    Finding::new(
        format!("at {} rescue's p50 is not above PSQ's, by more than chance", percent(load)),
        format!("{} ms, PSQ's {}", table::shown(rescue), table::shown(psq)),
        holds,
    )
}

fn copies(comparison: &Comparison) -> Finding {
    let each = LOADS.iter().map(|&load| comparison.copies("rescue", load));
    let told = each.clone().map(|copies| copies.map_or("—".to_owned(), |c| format!("{c:.3}")));
    let figure = told.collect::<Vec<_>>().join(", ");
    let holds = each.into_iter().all(|copies| copies.is_some_and(|copies| copies < COPIES_MOST));
    Finding::new(format!("rescue sends fewer than {COPIES_MOST} copies per query"), figure, holds)
}

/// As where the other policies are compared: the overhead may explain one load, and no more.
fn foreseen(cells: &[(Cell, usize)]) -> Vec<Finding> {
    let told = |(cell, requests): &(Cell, usize)| {
        let (claim, figure, good) = table::told(cell);
        Finding::new(claim, format!("{figure}, of {requests} requests"), good)
    };
    let mut findings: Vec<Finding> = cells.iter().map(told).collect();
    let verdicts: Vec<_> = cells.iter().map(|(cell, _)| cell.verdict()).collect();
    let agree = verdicts.iter().filter(|verdict| **verdict == rule::Verdict::Agrees).count();
    findings.push(Finding::new(
        "simulated and measured p99 agree at all loads, or at all but one",
        format!("{agree} of {} agree without the measured overhead", LOADS.len()),
        rule::holds(&verdicts, LOADS.len()),
    ));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, half: f64) -> Option<Estimate> {
        Some(Estimate { value, half: Some(half) })
    }

    fn holds(finding: &Finding) -> bool {
        finding.to_string().starts_with("holds")
    }

    #[test]
    fn a_tail_below_that_of_laedge_holds_whatever_that_of_psq() {
        let [four, five] = [4.0, 5.0].map(|value| estimate(value, 1.0));
        assert!(holds(&tail(0.3, [four, five, four])));
        assert!(!holds(&tail(0.3, [five, four, four])), "it is as high");
        assert!(!holds(&tail(0.3, [five, five, None])), "what was not measured is no gain");
    }

    #[test]
    fn a_median_may_be_above_by_chance() {
        let psq = |value| [estimate(value, 0.4), None, estimate(10.4, 0.3)];
        assert!(holds(&median(0.3, psq(10.0))));
        assert!(!holds(&median(0.3, psq(9.8))));
    }

    #[test]
    fn what_chance_may_decide_is_measured_longer() {
        let uncertain = |measured| {
            is_uncertain(&Cell {
                policy: "rescue",
                load: 0.7,
                percentile: 99.0,
                measured,
                simulated: None,
                with_overhead: None,
            })
        };
        assert!(uncertain(estimate(10.0, 2.0)) && !uncertain(estimate(10.0, 1.0)));
        assert!(uncertain(Some(Estimate { value: 10.0, half: None })), "of one run nobody knows");
        assert!(!uncertain(None), "it is broken already");
        let longer = longer(1);
        assert_eq!((longer.loads, longer.policies), (&LOADS[1..], &["rescue"][..]));
        assert!(longer.learning.is_some_and(|load| load < LOADS[1]));
    }
}
