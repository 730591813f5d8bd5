//! The comparison as text for a terminal.

use std::fmt::Write as _;

use curtail_load::{Percentiles, Summary};

use super::run::Figures;
use crate::load::table::{BOUNDS, bounded, line};

/// Renders a line about each run, and the table.
pub(super) fn text(all: &[Figures]) -> String {
    let mut text: String = all.iter().map(|figures| about(figures) + "\n").collect();
    text.push('\n');
    let wide = all.iter().map(|figures| figures.name.chars().count()).max().unwrap_or(0).max(9);
    let mut line = |name: &str, cells: &[Option<String>]| text += &line(wide, name, cells);
    line("latency", &Summary::<u64>::NAMES.map(|name| Some(name.to_owned())));
    for figures in all {
        line(&figures.name, &bounded(&figures.latency_ns, &figures.latency_at_least));
        if let Some(ratios) = figures.ratio_to_first {
            line("", &ratios.each().map(|ratio| ratio.map(times)));
        }
        if let Some(sure) = figures.ratio_ci95.filter(Percentiles::any) {
            let known = |[low, high]: [f64; 2]| format!("×{low:.2}–{high:.2}");
            line("95 % CI", &sure.each().map(|interval| interval.map(known)));
        }
    }
    if all.iter().any(|figures| figures.ratio_to_first.is_some()) {
        text += &format!("\n×: relative to {}", all[0].name);
    }
    if all.iter().any(|figures| !figures.latency_at_least.is_empty()) {
        text += &format!("\n{BOUNDS}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Formats a ratio: `×1.25`.
pub(super) fn times(ratio: f64) -> String {
    format!("×{ratio:.2}")
}

/// A line about a run. If the run is not valid, the reasons are below it.
fn about(figures: &Figures) -> String {
    let mut parts = Vec::new();
    parts.extend(figures.target.clone());
    parts.extend((figures.closed_loop == Some(true)).then(|| "closed loop".to_owned()));
    parts.extend(figures.offered_rate.map(|rate| format!("offered {rate:.1}/s")));
    parts.extend(figures.achieved_rate.map(|rate| format!("achieved {rate:.1}/s")));
    parts.extend(figures.requests.map(|requests| format!("{requests} requests")));
    parts.extend(figures.errors.map(|errors| format!("{errors} without a good response")));
    if figures.target.is_none() {
        parts.push("latencies only, so its validity is unknown".to_owned());
    }
    let mut text = format!("{}: {}", figures.name, parts.join(", "));
    for why in figures.reasons() {
        let _ = write!(text, "\n  invalid: {why}");
    }
    if figures.closed_loop == Some(true) {
        text += "\n  closed loop: the latencies exclude the wait of requests that would arrive \
                 while connections are busy";
    }
    text
}
