//! Latencies by window in a terminal: a row per window, a column per policy.

use std::fmt::Write as _;

use curtail_sim::{Experiment, Outcome, Window};

use crate::digits::{self, NONE};
use crate::table::row;

/// The most windows that are shown.
const MOST: usize = 20;

/// One percentile of all policies, window by window; nothing where none was asked for.
pub(super) fn render(experiment: &Experiment, outcomes: &[Outcome]) -> String {
    let told = |outcome: &Outcome| outcome.windows.clone().unwrap_or_default();
    let all: Vec<Vec<Window>> = outcomes.iter().map(told).collect();
    let Some((windows, first)) = experiment.windows.zip(all.first()) else {
        return String::new();
    };
    let mut text = String::from("\n");
    let Some(p) = first.first().and_then(shown) else {
        text += "Windows begin behind the last request: there is none; see --change-at\n";
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
        let _ = writeln!(text, "… and {} windows more: see --json", first.len() - MOST);
    }
    let lacks = |(outcome, windows): (&Outcome, &Vec<Window>)| {
        outcome.stable && windows.iter().take(MOST).any(|window| figure(window, p).is_none())
    };
    if outcomes.iter().zip(&all).any(lacks) {
        let _ = writeln!(text, "{NONE}: fewer than 10 samples lie above it; see --window");
    }
    text
}

/// The percentile that is shown: p99, or else the highest one for which there are enough samples.
fn shown(window: &Window) -> Option<f64> {
    let mut asked: Vec<f64> = window.percentiles.iter().map(|&(p, _)| p).collect();
    asked.sort_by(|a, b| (*b == 99.0).cmp(&(*a == 99.0)).then(b.total_cmp(a)));
    let known = asked.iter().find(|&&p| figure(window, p).is_some());
    known.or(asked.first()).copied()
}

fn figure(window: &Window, percentile: f64) -> Option<f64> {
    window.percentiles.iter().find(|(p, _)| *p == percentile).and_then(|&(_, figure)| figure)
}
