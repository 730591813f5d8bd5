//! Latencies by window as text: a row per window, a column per policy.

use std::fmt::Write as _;

use curtail_sim::{Experiment, Outcome, Window};

use crate::digits::{self, NONE};
use crate::table::row;

/// Maximum number of windows that are shown.
const MOST: usize = 20;

/// Renders one percentile of all policies per window. Returns nothing without `--window`.
pub(super) fn render(experiment: &Experiment, outcomes: &[Outcome]) -> String {
    let windows_of = |outcome: &Outcome| outcome.windows.clone().unwrap_or_default();
    let all: Vec<Vec<Window>> = outcomes.iter().map(windows_of).collect();
    let Some((windows, first)) = experiment.windows.zip(all.first()) else {
        return String::new();
    };
    let mut text = String::from("\n");
    let Some(p) = first.first().and_then(shown) else {
        text += "No windows: they would begin after the last request; see --change-at\n";
        return text;
    };
    let _ = writeln!(
        text,
        "p{p} of requests from request {} on, in windows of {}",
        windows.from, windows.length
    );
    let mut columns = vec![-10];
    columns.extend(outcomes.iter().map(|of| of.policy.chars().count().max(8) as isize + 2));
    let heads = outcomes.iter().map(|outcome| outcome.policy.clone());
    text += &row(&columns, ["from".to_owned()].into_iter().chain(heads));
    for (index, window) in first.iter().enumerate().take(MOST) {
        let figures = all.iter().map(|windows| {
            let figure = windows.get(index).and_then(|window| figure(window, p));
            digits::or_none(figure, digits::latency)
        });
        text += &row(&columns, [window.from.to_string()].into_iter().chain(figures));
    }
    if first.len() > MOST {
        let _ = writeln!(text, "… and {} more windows: see --json", first.len() - MOST);
    }
    let lacks = |(outcome, windows): (&Outcome, &Vec<Window>)| {
        outcome.stable && windows.iter().take(MOST).any(|window| figure(window, p).is_none())
    };
    if outcomes.iter().zip(&all).any(lacks) {
        let _ =
            writeln!(text, "{NONE}: fewer than 10 samples lie above the percentile; see --window");
    }
    text
}

/// The percentile to show: p99, or the highest one with enough samples.
fn shown(window: &Window) -> Option<f64> {
    let mut asked: Vec<f64> = window.percentiles.iter().map(|&(p, _)| p).collect();
    asked.sort_by(|a, b| (*b == 99.0).cmp(&(*a == 99.0)).then(b.total_cmp(a)));
    let known = asked.iter().find(|&&p| figure(window, p).is_some());
    known.or(asked.first()).copied()
}

fn figure(window: &Window, percentile: f64) -> Option<f64> {
    window.percentiles.iter().find(|(p, _)| *p == percentile).and_then(|&(_, figure)| figure)
}
