//! The comparison as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::estimate::{mean_ms, of};
use super::rule::{Cell, Estimate, Verdict};
use super::service::{name, percent};
use super::{Comparison, Place};

/// What stands for a figure that is not known.
const NONE: &str = "—";

/// What the machine adds to a latency, by part: what people call it, and the samples.
fn parts(place: &Place) -> [(&'static str, &[u64]); 3] {
    let samples = &place.samples;
    [("front", &samples.front), ("network", &samples.network), ("late", &samples.late)]
}

/// How many of the runs that are left out are told.
const SHOWN: usize = 5;

pub(super) fn render(comparison: &Comparison) -> String {
    let size = comparison.plan.size;
    let mut text = String::new();
    if comparison.smoke {
        text +=
            "A SMOKE RUN: too short to judge latencies. It passes if all cells are measured.\n\n";
    }
    let _ = writeln!(
        text,
        "All times of the service are {} × those of the demo. Latencies of requests in ms, ± half of \
         the 95 % confidence interval: measured, over {} sound runs or more ({} wanted) of {} requests \
         in each cell; simulated, over 6 replications of {}.\n",
        size.scale, comparison.sound, size.repetitions, size.requests, size.simulated
    );
    text += &aligned(&cells(comparison));
    let _ = writeln!(
        text,
        "\nWhat the machine adds, in ms, mean / p50 / p99: front, client and root, per request; \
         network, between root and leaf, there and back, per copy; late, timers of the leaf, per \
         copy. P + J as drawn should be {:.3} on average where all copies are known (psq). Copies per \
         query, and how many are simulated.\n",
        size.drawn_mean_ms()
    );
    text += &aligned(&places(comparison));
    for why in comparison.left_out.iter().take(SHOWN) {
        let _ = writeln!(text, "left out, unsound: {why}");
    }
    if let Some(more @ 1..) = comparison.left_out.len().checked_sub(SHOWN) {
        let _ = writeln!(text, "left out, unsound: {more} more, which results.json lists");
    }
    let verdict = match (comparison.holds(), comparison.smoke) {
        (true, false) => "simulated and measured agree",
        (false, false) => "simulated and measured DO NOT agree, or were not measured soundly",
        (true, true) => "smoke: all cells are measured and simulated",
        (false, true) => "smoke: NOT all cells are measured soundly",
    };
    let _ = writeln!(text, "\n{verdict}");
    text
}

/// A cell: what should be, what is, and whether that is good enough.
pub(crate) fn told(cell: &Cell) -> (String, String, bool) {
    let Cell { policy, load, percentile, measured, simulated, with_overhead } = *cell;
    let (name, percent) = (name(percentile), percent(load));
    let claim = format!("{policy}, {name} at {percent}: within 15 % of simulated");
    let figure = format!(
        "{} ms measured, {} simulated ({}), {} with overhead ({})",
        shown(measured),
        shown(simulated),
        share(cell.difference()),
        shown(with_overhead),
        share(cell.difference_with_overhead()),
    );
    (claim, figure, cell.verdict() != Verdict::Differs)
}

fn cells(comparison: &Comparison) -> Vec<Vec<String>> {
    let head = [
        "load",
        "policy",
        "",
        "measured",
        "simulated",
        "difference",
        "with overhead",
        "difference",
        "verdict",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for cell in &comparison.cells {
        let verdict = match cell.verdict() {
            Verdict::Agrees => "agrees",
            Verdict::WithOverhead => "MISSES, agrees with overhead",
            Verdict::Differs => "DIFFERS",
        };
        let verdict = if comparison.smoke { "not judged" } else { verdict };
        rows.push(vec![
            percent(cell.load),
            cell.policy.to_owned(),
            name(cell.percentile),
            shown(cell.measured),
            shown(cell.simulated),
            share(cell.difference()),
            shown(cell.with_overhead),
            share(cell.difference_with_overhead()),
            verdict.to_owned(),
        ]);
    }
    rows
}

fn places(comparison: &Comparison) -> Vec<Vec<String>> {
    let head = [
        "load",
        "policy",
        "front",
        "network",
        "late",
        "P + J",
        "copies",
        "simulated",
        "offered/s",
        "achieved/s",
        "requests",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for place in &comparison.places {
        let mut row = vec![percent(place.load), place.policy.to_owned()];
        row.extend(parts(place).map(|(_, samples)| {
            let at =
                |percentile| of(samples, percentile).map_or(NONE.into(), |ms| format!("{ms:.2}"));
            format!("{:.2} / {} / {}", mean_ms(samples), at(50.0), at(99.0))
        }));
        row.push(format!("{:.3}", mean_ms(&place.samples.drawn)));
        row.push(format!("{:.2}", place.counts.copies));
        row.push(place.copies.map_or(NONE.into(), |copies| format!("{copies:.2}")));
        row.push(format!("{:.1}", place.counts.offered));
        row.push(format!("{:.1}", place.counts.achieved));
        row.push(place.samples.latency.len().to_string());
        rows.push(row);
    }
    rows
}

pub(crate) fn shown(estimate: Option<Estimate>) -> String {
    match estimate {
        None => NONE.to_owned(),
        Some(Estimate { value, half: None }) => format!("{value:.2}"),
        Some(Estimate { value, half: Some(half) }) => format!("{value:.2} ±{half:.2}"),
    }
}

pub(crate) fn share(by: Option<f64>) -> String {
    by.map_or(NONE.to_owned(), |by| format!("{:+.1} %", by * 100.0))
}

/// Rows in columns.
fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let fields = row.iter().zip(&widths).map(|(field, &width)| format!("{field:<width$}"));
        fields.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

pub(super) fn json(comparison: &Comparison) -> Value {
    let estimate = |estimate: Option<Estimate>| {
        estimate.map(|Estimate { value, half }| json!({ "ms": value, "ci95_ms": half }))
    };
    let cell = |cell: &Cell| {
        json!({
            "load": cell.load, "policy": cell.policy, "percentile": cell.percentile,
            "measured": estimate(cell.measured),
            "simulated": estimate(cell.simulated), "difference": cell.difference(),
            "with_overhead": estimate(cell.with_overhead),
            "difference_with_overhead": cell.difference_with_overhead(),
            "agrees": cell.verdict() == Verdict::Agrees,
            "agrees_with_overhead": cell.verdict() != Verdict::Differs,
        })
    };
    let place = |place: &Place| {
        let added = parts(place).map(|(name, samples)| {
            let figures = json!({
                "mean_ms": mean_ms(samples), "p50_ms": of(samples, 50.0), "p99_ms": of(samples, 99.0),
            });
            (name.to_owned(), figures)
        });
        json!({
            "load": place.load, "policy": place.policy,
            "requests": place.samples.latency.len(),
            "offered_rate": place.counts.offered, "achieved_rate": place.counts.achieved,
            "copies_per_query": place.counts.copies, "copies_per_query_simulated": place.copies,
            "overhead": serde_json::Map::from_iter(added),
            "drawn_mean_ms": mean_ms(&place.samples.drawn),
        })
    };
    json!({
        "smoke": comparison.smoke,
        "holds": comparison.holds(),
        "runs": { "wanted": comparison.plan.size.repetitions, "sound": comparison.sound,
                  "left_out": comparison.left_out },
        "scale": comparison.plan.size.scale,
        "drawn_mean_ms_expected": comparison.plan.size.drawn_mean_ms(),
        "cells": comparison.cells.iter().map(cell).collect::<Vec<_>>(),
        "places": comparison.places.iter().map(place).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::search::measured::Counts;
    use crate::eval::search::samples::Samples;
    use crate::eval::search::service::{PERCENTILES, Plan, Size};

    /// A comparison in which one cell is so far off, and all others are as simulated.
    fn comparison(smoke: bool, off: f64) -> Comparison {
        let estimate = |value: f64| Some(Estimate { value, half: Some(0.125) });
        let mut cells = Vec::new();
        let plan = Plan::search(Size::new(smoke, 1));
        for &load in plan.loads {
            for &policy in plan.policies {
                cells.extend(PERCENTILES.map(|percentile| Cell {
                    policy,
                    load,
                    percentile,
                    measured: estimate(10.0),
                    simulated: estimate(10.0),
                    with_overhead: estimate(10.0),
                }));
            }
        }
        cells[0].measured = estimate(10.0 * (1.0 + off));
        cells[0].with_overhead = estimate(12.0);
        let samples = Samples {
            latency: vec![9_000_000; 1_000],
            front: vec![250_000; 1_000],
            network: vec![500_000; 1_000],
            late: vec![50_000; 5],
            drawn: vec![3_000_000; 1_000],
        };
        let counts = Counts { offered: 133.3, achieved: 133.0, copies: 1.0 };
        let place = Place { policy: "psq", load: 0.2, counts, copies: None, samples };
        let sound = plan.size.repetitions;
        let left_out = vec!["seed 1: psq at 20 %: fell behind".to_owned()];
        Comparison { smoke, plan, cells, places: vec![place], sound, left_out }
    }

    #[test]
    fn the_table_says_what_misses_and_why_a_run_was_left_out() {
        let text = render(&comparison(false, 0.2));
        let row = text.lines().find(|line| line.starts_with("20 %  psq     p50")).unwrap_or("");
        assert!(row.contains("12.00 ±0.12") && row.contains("+20.0 %"), "{text}");
        assert!(row.ends_with("MISSES, agrees with overhead"), "{text}");
        assert!(text.contains("0.25 / 0.25 / 0.25") && text.contains("0.05 / — / —"), "{text}");
        assert!(text.contains("left out, unsound: seed 1"), "{text}");
        assert!(text.ends_with("simulated and measured agree\n"), "{text}");
        assert!(render(&comparison(false, 0.5)).contains("DO NOT agree"));
    }

    #[test]
    fn a_smoke_run_judges_no_latency() {
        let text = render(&comparison(true, 0.5));
        assert!(text.starts_with("A SMOKE RUN") && !text.contains("DIFFERS"), "{text}");
        assert!(text.ends_with("smoke: all cells are measured and simulated\n"), "{text}");
        let mut missing = comparison(true, 0.0);
        missing.cells[3].measured = None;
        assert!(render(&missing).ends_with("smoke: NOT all cells are measured soundly\n"));
    }

    #[test]
    fn too_few_sound_runs_are_no_agreement() {
        let mut comparison = comparison(false, 0.0);
        assert!(comparison.holds());
        comparison.sound -= 1;
        assert!(!comparison.holds());
        assert_eq!(json(&comparison)["holds"], false);
    }

    #[test]
    fn the_document_has_both_differences() {
        let document = json(&comparison(false, 0.2));
        let cell = &document["cells"][0];
        let by = |name: &str| cell[name].as_f64().expect("a number");
        assert!((by("difference") - 0.2).abs() < 1e-9);
        assert!(by("difference_with_overhead").abs() < 1e-9);
        assert_eq!((&cell["agrees"], &cell["agrees_with_overhead"]), (&json!(false), &json!(true)));
        assert_eq!(document["places"][0]["overhead"]["late"]["p99_ms"], Value::Null);
    }
}
