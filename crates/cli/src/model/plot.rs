//! Latency over utilization, as bars in a terminal.

use std::fmt::Write as _;

use serde::Serialize;

use super::values::figure;

/// Columns of the longest bar.
const WIDTH: f64 = 50.0;

/// The utilizations of a picture: closer where latency bends.
pub(super) const UTILIZATIONS: [f64; 11] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95];

/// The sojourn at a utilization.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    pub(super) utilization: f64,
    pub(super) mean: f64,
    /// The highest percentile that was asked for, if the model knows it.
    pub(super) tail: Option<f64>,
}

/// A bar for each point: solid up to the mean, lighter up to the percentile.
pub(super) fn bars(points: &[Point], percentile: Option<f64>) -> String {
    let reach = |point: &Point| point.tail.unwrap_or(point.mean).max(point.mean);
    let longest = points.iter().map(reach).fold(0.0, f64::max);
    let has_tail = points.iter().any(|point| point.tail.is_some());
    let percentile = percentile.filter(|_| has_tail);
    let tail = percentile.map_or(String::new(), |p| format!(", ░ up to p{p}"));
    let mut text = format!("\nsojourn over utilization: █ up to the mean{tail}\n");
    for point in points {
        let columns = |time: f64| (time / longest * WIDTH).round() as usize;
        let (mean, all) = (columns(point.mean), columns(reach(point)));
        let bar = "█".repeat(mean) + &"░".repeat(all.saturating_sub(mean));
        let value = figure(point.mean);
        let tail = point.tail.map_or(String::new(), |tail| format!(" – {}", figure(tail)));
        let _ = writeln!(text, "{:>5} {bar} {value}{tail}", point.utilization);
    }
    text
}
