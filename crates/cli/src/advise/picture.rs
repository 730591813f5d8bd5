//! Plots p99 against utilization, as text.

use std::fmt::Write as _;

use curtail_sim::advise::{Advice, Point};

use super::counted;
use crate::digits;

/// Minimum and maximum length of the longest bar, in columns.
const BARS: std::ops::RangeInclusive<usize> = 20..=60;

/// Draws two bars per load, one for each of the two policies. Bars are cut off at three times the
/// p99 of per-shard queuing at the lowest load. Anything longer is unacceptable anyway.
pub(super) fn curve(advice: &Advice, width: usize) -> String {
    let Some(least) = advice.curve.iter().find_map(|point| point.psq) else { return String::new() };
    let most = 3.0 * least;
    let name = advice.hedging_policy.chars().count().max("psq".len());
    let columns = width.saturating_sub(name + 22).clamp(*BARS.start(), *BARS.end());
    let mut any_faster = false;
    let mut text = format!("p99 by utilization{}\n", counted(advice));
    for point in &advice.curve {
        let Point { utilization, psq, hedging, faster } = *point;
        any_faster |= faster;
        let rows =
            [("psq", psq, ' '), (&advice.hedging_policy, hedging, if faster { '<' } else { ' ' })];
        for (at, (policy, p99, mark)) in rows.into_iter().enumerate() {
            let load = if at == 0 { format!("{utilization:.2}") } else { String::new() };
            let _ = writeln!(text, "{load:>5}  {policy:<name$} {mark}{}", bar(p99, most, columns));
        }
    }
    if any_faster {
        let _ = writeln!(text, "\n<: {} is faster, beyond chance", advice.hedging_policy);
    }
    text
}

fn bar(p99: Option<f64>, most: f64, columns: usize) -> String {
    let Some(p99) = p99 else { return "unstable".to_owned() };
    let length = (p99 / most * columns as f64).round() as usize;
    let cut = length > columns;
    let bar = "█".repeat(length.min(columns));
    format!("{bar}{} {}", if cut { "…" } else { "" }, digits::latency(p99))
}
