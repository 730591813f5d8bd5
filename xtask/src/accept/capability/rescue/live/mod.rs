//! Rescue: what it gains on a live service, and whether the simulator foresees that.

mod measured;
mod service;
mod simulated;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::accept::finding::Finding;
use crate::eval::search::rule::{self, Cell, Estimate, Verdict};
use measured::Live;
use service::{LOADS, POLICIES, Size, percent};
use simulated::Simulated;

/// Copies per query, at most.
const COPIES_MOST: f64 = 1.05;

/// Requests of each policy at each load, at least.
const REQUESTS_LEAST: usize = 10_000;

/// The search service with real sockets: per-shard queuing, LÆDGE and rescue, with the same requests.
pub(in crate::accept) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let size = Size::FULL;
    let out = root.join("out/rescue/live");
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let live = measured::run(root, &out, size)?;
    let simulated = Simulated::new(root, size)?;
    let mut findings = vec![enough(&live)];
    let mut cells = Vec::new();
    for load in LOADS {
        findings.extend(gains(&live, load));
        let cell = compared(&live, &simulated, &out, load)?;
        findings.push(agrees(&cell));
        cells.push(cell);
    }
    findings.push(all_agree(&cells));
    findings.push(copies(&live));
    Ok(findings)
}

fn enough(live: &Live) -> Finding {
    let least = LOADS.map(|load| live.requests(load)).into_iter().min().unwrap_or(0);
    let figure = format!("{least}; {} runs at a load were unsound and left out", live.left_out);
    let claim = format!("at least {REQUESTS_LEAST} of the same requests for each policy and load");
    Finding::new(claim, figure, least >= REQUESTS_LEAST)
}

/// What rescue gains at a load. What could not be measured is no gain.
fn gains(live: &Live, load: f64) -> [Finding; 2] {
    let [psq, laedge, rescue] = POLICIES.map(|policy| live.percentile(policy, load, 99.0));
    let holds = laedge.zip(rescue).is_some_and(|(laedge, rescue)| rescue.value < laedge.value);
    let tail = Finding::new(
        format!("at {} rescue's p99 is below LÆDGE's", percent(load)),
        format!("{} ms, LÆDGE's {}, PSQ's {}", shown(rescue), shown(laedge), shown(psq)),
        holds,
    );
    let [psq, _, rescue] = POLICIES.map(|policy| live.percentile(policy, load, 50.0));
    let holds = psq.zip(rescue).is_some_and(|(psq, rescue)| is_not_above(rescue, psq));
    let median = Finding::new(
        format!("at {} rescue's p50 is not above PSQ's, by more than chance", percent(load)),
        format!("{} ms, PSQ's {}", shown(rescue), shown(psq)),
        holds,
    );
    [tail, median]
}

/// Not above by more than the confidence intervals of both allow.
fn is_not_above(ours: Estimate, theirs: Estimate) -> bool {
    let chance = ours.half.unwrap_or(0.0).hypot(theirs.half.unwrap_or(0.0));
    ours.value <= theirs.value + chance
}

fn copies(live: &Live) -> Finding {
    let each: Vec<Option<f64>> = LOADS.iter().map(|&load| live.copies("rescue", load)).collect();
    let told = each.iter().map(|copies| copies.map_or("—".to_owned(), |c| format!("{c:.3}")));
    let figure = told.collect::<Vec<_>>().join(", ");
    let holds = each.iter().all(|copies| copies.is_some_and(|copies| copies < COPIES_MOST));
    Finding::new(format!("rescue sends fewer than {COPIES_MOST} copies per query"), figure, holds)
}

/// What was measured at a load beside what is simulated, also with the measured overhead.
fn compared(live: &Live, simulated: &Simulated, out: &Path, load: f64) -> Result<Cell> {
    let policy = "rescue";
    let samples = live.samples(policy, load);
    Ok(Cell {
        policy,
        load,
        percentile: 99.0,
        measured: live.percentile(policy, load, 99.0),
        simulated: simulated.plain(policy, load)?,
        with_overhead: simulated.with_overhead(out, policy, load, &samples)?,
    })
}

fn agrees(cell: &Cell) -> Finding {
    let by = |by: Option<f64>| by.map_or("—".to_owned(), |by| format!("{:+.1} %", by * 100.0));
    let figure = format!(
        "{} ms measured, {} simulated ({}), {} with overhead ({})",
        shown(cell.measured),
        shown(cell.simulated),
        by(cell.difference()),
        shown(cell.with_overhead),
        by(cell.difference_with_overhead()),
    );
    let claim = format!("at {} rescue's p99 is within 15 % of simulated", percent(cell.load));
    Finding::new(claim, figure, cell.verdict() != Verdict::Differs)
}

/// As where the demo's other policies are compared: the overhead may explain one, and no more.
fn all_agree(cells: &[Cell]) -> Finding {
    let count = |verdict| cells.iter().filter(|cell| cell.verdict() == verdict).count();
    let (plain, explained) = (count(Verdict::Agrees), count(Verdict::WithOverhead));
    let figure = format!("{plain} of {} agree, {explained} more with overhead", LOADS.len());
    let claim = "simulated and measured agree at all loads, or at all but one";
    let holds = plain + explained == LOADS.len() && explained <= rule::MISSES_MOST;
    Finding::new(claim, figure, holds)
}

fn shown(estimate: Option<Estimate>) -> String {
    match estimate {
        None => "—".to_owned(),
        Some(Estimate { value, half: None }) => format!("{value:.2}"),
        Some(Estimate { value, half: Some(half) }) => format!("{value:.2} ±{half:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::measured::Run;
    use super::*;
    use crate::accept::finding;
    use crate::eval::search::samples::Samples;

    /// Two runs in which the latencies of policies are 1 ms times these and 1 to 1,050.
    fn live(times: [u64; 3], copies: f64) -> Live {
        let mut live = Live::default();
        for load in LOADS {
            for run in 0..2 {
                let runs = times.map(|times| {
                    let latency = (1..=1_050).map(|ms| (ms * times + run) * 1_000_000).collect();
                    Run { samples: Samples { latency, ..Samples::default() }, copies }
                });
                live.add(load, runs);
            }
        }
        live
    }

    fn verdicts(live: &Live) -> Vec<bool> {
        let all = LOADS.iter().flat_map(|&load| gains(live, load)).chain([copies(live)]);
        all.map(|finding| finding.verdict == finding::Verdict::Holds).collect()
    }

    #[test]
    fn a_lower_tail_a_median_no_higher_and_few_copies_hold() {
        assert_eq!(verdicts(&live([10, 9, 8], 1.01)), [true; 7]);
        assert_eq!(
            verdicts(&live([10, 8, 8], 1.05)),
            [false, true, false, true, false, true, false]
        );
        assert_eq!(
            verdicts(&live([8, 10, 9], 1.01)),
            [true, false, true, false, true, false, true]
        );
        assert_eq!(verdicts(&Live::default()), [false; 7]);
    }

    #[test]
    fn the_overhead_may_explain_one_load() {
        let cell = |measured: f64| {
            let some = |value| Some(Estimate { value, half: None });
            let (measured, simulated, with_overhead) = (some(measured), some(10.0), some(12.0));
            let (policy, load, percentile) = ("rescue", LOADS[0], 99.0);
            Cell { policy, load, percentile, measured, simulated, with_overhead }
        };
        for (cells, holds) in [
            ([cell(10.0), cell(11.0), cell(9.0)], true),
            ([cell(10.0), cell(13.0), cell(9.0)], true),
            ([cell(13.0), cell(13.0), cell(9.0)], false),
            ([cell(10.0), cell(15.0), cell(9.0)], false),
        ] {
            assert_eq!(all_agree(&cells).verdict == finding::Verdict::Holds, holds, "{cells:?}");
        }
        assert_eq!(agrees(&cell(13.0)).verdict, finding::Verdict::Holds);
        let differs = agrees(&cell(15.0));
        assert_eq!(differs.verdict, finding::Verdict::Broken);
        assert!(
            differs.to_string().contains("15.00 ms measured, 10.00 simulated (+50.0 %), 12.00")
        );
    }

    #[test]
    fn chance_is_not_above() {
        let ours = Estimate { value: 10.4, half: Some(0.3) };
        let theirs = |value| Estimate { value, half: Some(0.4) };
        assert!(is_not_above(ours, theirs(10.0)) && !is_not_above(ours, theirs(9.8)));
        assert!(!is_not_above(
            Estimate { half: None, ..ours },
            Estimate { value: 10.3, half: None }
        ));
    }

    #[test]
    fn what_was_measured_is_counted() {
        let live = live([10, 9, 8], 1.01);
        assert_eq!(live.requests(LOADS[0]), 2_100);
        let finding = enough(&live);
        assert_eq!(finding.verdict, finding::Verdict::Broken);
        assert!(
            finding.to_string().ends_with(": 2100; 0 runs at a load were unsound and left out")
        );
    }
}
