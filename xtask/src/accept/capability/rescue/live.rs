//! What rescue gains on the live search service, and whether the simulator foresees that.

use std::path::Path;

use anyhow::Result;

use crate::accept::finding::Finding;
use crate::eval::search::rule::{self, Cell, Estimate};
use crate::eval::search::service::{Plan, Size, percent};
use crate::eval::search::{self, Comparison, SCALE, table};

/// Four times as many requests where the load is high: two copies that are stuck block a shard there,
/// and a hundred requests wait, so that of ten thousand chance decides which are the slowest hundred.
/// A service that has run for a while is judged: at a lighter load, before, rescue learns.
fn plans() -> [Plan; 2] {
    let size = Size { repetitions: 10, ..Size::new(false, SCALE) };
    let (policies, together) = (&["psq", "laedge", "rescue"], true);
    let light = Plan { policies, loads: &LOADS[..1], learning: Some(0.2), together, size };
    let size = Size { requests: 4 * size.requests, ..size };
    [light, Plan { loads: &LOADS[1..], learning: Some(0.4), size, ..light }]
}

/// Utilizations.
static LOADS: [f64; 3] = [0.3, 0.5, 0.7];

/// Copies per query, at most.
const COPIES_MOST: f64 = 1.05;

/// Requests of each policy at each load, at least.
const REQUESTS_LEAST: usize = 10_000;

/// The search service with real sockets: per-shard queuing, LÆDGE and rescue, with the same requests.
pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let [light, heavy] = plans();
    let lightly = search::compare(root, "rescue/light", light, false)?;
    let heavily = search::compare(root, "rescue/heavy", heavy, false)?;
    let at = |&load, of| Load { load, of };
    let measured: Vec<Load<'_>> = (light.loads.iter().map(|load| at(load, &lightly)))
        .chain(heavy.loads.iter().map(|load| at(load, &heavily)))
        .collect();
    let requests: Vec<usize> = measured.iter().map(|load| load.of.requests()).collect();
    let mut findings = vec![Finding::new(
        format!("at least {REQUESTS_LEAST} of the same requests for each policy and load"),
        told(requests.iter().map(ToString::to_string)),
        requests.iter().all(|&requests| requests >= REQUESTS_LEAST),
    )];
    for load in &measured {
        findings.extend([tail(load.load, load.all(99.0)), median(load.load, load.all(50.0))]);
    }
    findings.push(copies(measured.iter().map(|load| load.of.copies("rescue", load.load))));
    findings.extend(foreseen(&measured));
    Ok(findings)
}

/// What was measured at a load.
struct Load<'a> {
    load: f64,
    of: &'a Comparison,
}

impl Load<'_> {
    /// A percentile of per-shard queuing, LÆDGE and rescue.
    fn all(&self, percentile: f64) -> [Option<Estimate>; 3] {
        let of = |policy| self.of.cell(policy, self.load, percentile);
        ["psq", "laedge", "rescue"].map(|policy| of(policy).and_then(|cell| cell.measured))
    }
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

fn copies(each: impl Iterator<Item = Option<f64>> + Clone) -> Finding {
    Finding::new(
        format!("rescue sends fewer than {COPIES_MOST} copies per query"),
        told(each.clone().map(|copies| copies.map_or("—".to_owned(), |c| format!("{c:.3}")))),
        each.into_iter().all(|copies| copies.is_some_and(|copies| copies < COPIES_MOST)),
    )
}

fn told(figures: impl Iterator<Item = String>) -> String {
    figures.collect::<Vec<_>>().join(", ")
}

/// As where the other policies are compared: the overhead may explain one load, and no more.
fn foreseen(measured: &[Load<'_>]) -> Vec<Finding> {
    let cells = || measured.iter().filter_map(|load| load.of.cell("rescue", load.load, 99.0));
    let told = |cell| {
        let (claim, figure, good) = table::told(cell);
        Finding::new(claim, figure, good)
    };
    let mut findings: Vec<Finding> = cells().map(told).collect();
    let verdicts: Vec<_> = cells().map(Cell::verdict).collect();
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
    fn every_load_is_measured_once_after_rescue_has_learned() {
        let plans = plans();
        assert_eq!(plans.map(|plan| plan.loads).concat(), LOADS);
        for plan in plans {
            let requests = plan.size.repetitions * plan.size.requests as usize;
            assert!(requests >= REQUESTS_LEAST);
            assert!(plan.learning.is_some_and(|load| load < plan.loads[0]));
        }
    }
}
