//! The runs for people, on a terminal.

use std::fmt::Write as _;

use curtail_load::{Percentiles, Summary};

use super::run::Figures;
use crate::load::table::ms;

const COLUMNS: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// The table, and above it what each run was.
pub(super) fn text(all: &[Figures]) -> String {
    let mut text = String::new();
    for figures in all {
        let _ = writeln!(text, "{}", about(figures));
    }
    let wide = all.iter().map(|figures| figures.name.chars().count()).max().unwrap_or(0).max(9);
    let _ = write!(text, "\n{:<wide$}", "latency");
    for name in COLUMNS {
        let _ = write!(text, "{name:>13}");
    }
    for figures in all {
        let _ = write!(text, "\n{:<wide$}", figures.name);
        let Summary { p50, p90, p99, p999, max, .. } = figures.latency_ns;
        for value in [p50, p90, p99, p999, max] {
            let _ = write!(text, "{:>13}", value.map_or_else(|| "–".to_owned(), ms));
        }
        if let Some(Summary { p50, p90, p99, p999, max, .. }) = figures.ratio_to_first {
            let _ = write!(text, "\n{:<wide$}", "");
            for ratio in [p50, p90, p99, p999, max] {
                let _ = write!(text, "{:>13}", ratio.map_or_else(|| "–".to_owned(), times));
            }
        }
        let sure = figures.ratio_ci95.filter(Percentiles::any);
        if let Some(Percentiles { p50, p90, p99, p999, .. }) = sure {
            let _ = write!(text, "\n{:<wide$}", "95 % sure");
            for interval in [p50, p90, p99, p999] {
                let known = interval.map(|[low, high]| format!("×{low:.2}–{high:.2}"));
                let _ = write!(text, "{:>13}", known.unwrap_or_else(|| "–".to_owned()));
            }
        }
    }
    if all.iter().any(|figures| figures.ratio_to_first.is_some()) {
        let name = &all[0].name;
        let _ = write!(text, "\n\n×: over that of {name}");
    }
    text
}

/// A ratio: `×1.25`.
pub(super) fn times(ratio: f64) -> String {
    format!("×{ratio:.2}")
}

/// A run in a line, and why it is not valid below.
fn about(figures: &Figures) -> String {
    let mut parts = Vec::new();
    parts.extend(figures.target.clone());
    parts.extend((figures.closed_loop == Some(true)).then(|| "closed loop".to_owned()));
    parts.extend(figures.offered_rate.map(|rate| format!("offered {rate:.1}/s")));
    parts.extend(figures.achieved_rate.map(|rate| format!("achieved {rate:.1}/s")));
    parts.extend(figures.requests.map(|requests| format!("{requests} requests")));
    parts.extend(figures.errors.map(|errors| format!("{errors} without a good answer")));
    if figures.target.is_none() {
        parts.push("of latencies only, so nobody knows whether it is valid".to_owned());
    }
    let mut text = format!("{}: {}", figures.name, parts.join(", "));
    for why in figures.reasons() {
        let _ = write!(text, "\n  invalid: {why}");
    }
    if figures.closed_loop == Some(true) {
        text += "\n  closed loop: the latencies leave out what others would wait";
    }
    text
}
