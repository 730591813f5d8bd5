//! The page of `--out`: one self-contained file.

use std::fmt::Write as _;

use curtail_load::Summary;
use curtail_report::chart::distribution::{Latencies, Share, chart};
use curtail_report::number::{count, or_none, three, three_or_none};
use curtail_report::page::{Page, escape, figure, or_nothing};
use curtail_report::policy::{Look, look};
use curtail_report::table::{Cell, Table, Tone};

use super::run::{Figures, Run};
use super::times;

/// Colors in the order in which they are assigned to curves. The most distinct colors come first.
const COLORS: [usize; 8] = [1, 3, 4, 2, 5, 7, 6, 0];

/// Renders the page.
pub(super) fn render(runs: &[Run], figures: &[Figures]) -> String {
    let names = runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    let main = format!(
        include_str!("page.html"),
        distributions = distributions(runs),
        table = table(figures),
    );
    Page {
        verb: "report",
        title: &escape(&names),
        headline: &escape(&headline(figures)),
        more: &notes(figures),
        main: main.trim_end(),
    }
    .render()
}

/// Warnings about runs, and about comparing them.
fn notes(figures: &[Figures]) -> String {
    let note = |name: &str, is: &str, why: &str| {
        let (name, why) = (escape(name), escape(why));
        format!(r#"<p class="partial" role="note"><strong>{name} is {is}.</strong> {why}.</p>"#)
    };
    let mut notes = String::new();
    for figures in figures {
        for why in figures.reasons() {
            notes += &note(&figures.name, "not valid", why);
        }
        if figures.closed_loop == Some(true) {
            let why = "Its latencies exclude the wait of requests that would arrive while \
                       connections are busy";
            notes += &note(&figures.name, "a closed loop", why);
        }
    }
    notes
}

/// The result in a sentence.
fn headline(figures: &[Figures]) -> String {
    let p99 = |figures: &Figures| match figures.latency_ns.p99 {
        Some(ns) if figures.latency_at_least.contains(&"p99") => {
            format!("1 % of its requests took at least {} ms or failed", three(ns as f64 / 1e6))
        }
        Some(ns) => format!("99 % of its requests took at most {} ms", three(ns as f64 / 1e6)),
        None => "too few requests for a 99th percentile".to_owned(),
    };
    let Some((first, rest)) = figures.split_first() else { return String::new() };
    let mut text = format!("{}: {}", first.name, p99(first));
    for figures in rest {
        if let Some(ratio) = figures.ratio_to_first.and_then(|ratios| ratios.p99) {
            let _ = write!(text, "; {}: {} of that", figures.name, times(ratio));
        }
    }
    text + "."
}

fn distributions(runs: &[Run]) -> String {
    let curves = runs.iter().zip(COLORS.iter().cycle().map(|color| look(*color)));
    let named: Vec<(String, Look)> =
        curves.clone().map(|(run, look)| (run.name.clone(), look)).collect();
    let latencies = curves.map(|(run, look)| {
        let (counted, withheld) = (&run.all, run.withheld());
        Latencies { name: &run.name, look, counted, withheld }
    });
    let latencies: Vec<Latencies<'_>> = latencies.collect();
    let caption = "<b>Figure 1.</b> The share of requests that took longer than a given time; \
                   further left is better. Both scales are logarithmic. The slowest 10 requests of \
                   each run depend on chance and are not drawn.";
    let figure = figure(&named, caption, |size| chart("ccdf", &latencies, Share::Above, size));
    or_nothing(figure, "Too few good responses for a distribution.")
}

fn table(figures: &[Figures]) -> String {
    let counts = [
        ("Offered", "requests/s"),
        ("Achieved", "requests/s"),
        ("Measured", "requests"),
        ("Errors", "requests"),
    ];
    let names = Summary::<u64>::NAMES.map(|name| (name, "ms"));
    let mut table = Table::with_units([("Run", "")].into_iter().chain(names).chain(counts));
    for figures in figures {
        let times_ms = figures.latency_ns.each().map(|ns| ns.map(|ns| ns as f64 / 1e6));
        let offered = match figures.closed_loop {
            Some(true) => "closed loop".to_owned(),
            _ => three_or_none(figures.offered_rate),
        };
        let achieved = three_or_none(figures.achieved_rate);
        let [requests, errors] = [figures.requests, figures.errors].map(|of| or_none(of, count));
        let counts = [offered, achieved, requests, errors];
        let mut cells = times_ms.map(three_or_none);
        for (cell, field) in cells.iter_mut().zip(Summary::<u64>::FIELDS) {
            if figures.latency_at_least.contains(&field) {
                cell.insert_str(0, "≥ ");
            }
        }
        table.group("");
        table.row([figures.name.clone()].into_iter().chain(cells).chain(counts));
        if let Some(ratios) = figures.ratio_to_first {
            let ratios = ratios.each().map(|ratio| or_none(ratio, times));
            let ratios = ratios.into_iter().chain([const { String::new() }; 4]);
            let cells = ["relative to the first".to_owned()].into_iter().chain(ratios);
            table.row(cells.map(|text| Cell::new(text, Tone::Quiet)));
        }
    }
    let caption = "<b>Table 1.</b> Latencies in milliseconds, to three digits, and below them \
                   relative to the first run. ≥: a lower bound, because requests failed or were \
                   unfinished.";
    table.html("figures", caption)
}
