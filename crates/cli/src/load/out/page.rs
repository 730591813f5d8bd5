//! `report.html`: one self-contained file for screens, phones and paper.

use std::iter;

use curtail_load::{Plan, Report, Summary};
use curtail_report::chart::distribution::Share;
use curtail_report::number::{count, three, three_or_none};
use curtail_report::page::{Page, escape, figure, list, or_nothing};
use curtail_report::table::Table;
use serde_json::Value;

use super::document::{Document, Host};
use super::figures::{Figures, latencies, over_time, parts, rates};
use crate::load::table::{remarks, when};

/// Renders the report.
pub(super) fn render(document: &Document<'_>, figures: &Figures<'_>) -> String {
    let report = document.report;
    let (headline, but) = headline(report);
    let lost = match report.unobserved {
        0 => None,
        lost => Some(format!(
            "{} requests are missing from the table of samples, because it could not be written \
             fast enough.",
            count(lost)
        )),
    };
    let but: String = but
        .iter()
        .chain(&lost)
        .chain(&remarks(document.report))
        .map(|text| format!(r#"<p class="but">{}</p>"#, escape(text)))
        .collect();
    let main = format!(
        include_str!("page.html"),
        distributions = distributions(figures),
        parts = of_parts(figures),
        over_time = times(figures),
        table = figures_of(report),
        failures = failures(report),
        asked = list(asked(document)),
    );
    let summary = escape(&summary(document, figures.plan));
    Page {
        verb: "load",
        title: &escape(&figures.plan.target.to_string()),
        headline: &escape(&headline),
        more: &format!(r#"{but}<p class="summary">{summary}</p>"#),
        main: main.trim_end(),
    }
    .render()
}

/// The verdict in a sentence, and further remarks.
pub(super) fn headline(report: &Report) -> (String, Vec<String>) {
    let ms = |ns: u64| format!("{} ms", three(ns as f64 / 1e6));
    let mut within = Vec::new();
    let of = [("half", "p50", report.latency_ns.p50), ("99 %", "p99", report.latency_ns.p99)];
    for (share, field, percentile) in of {
        // Skip percentiles that are lower bounds because of failures.
        let known = percentile.filter(|_| !report.latency_at_least.contains(&field));
        within.extend(known.map(|ns| format!("{share} within {}", ms(ns))));
    }
    let rate = three(report.achieved_rate);
    let of = report.offered_rate.map_or(String::new(), |offered| format!(" of {}", three(offered)));
    let within = within.join(", ");
    let measured = match &within[..] {
        "" => format!("{rate}{of} requests per second succeeded."),
        within => format!("{rate}{of} requests per second succeeded: {within}."),
    };
    let notes = report.notes.iter().map(|note| format!("Note: {note}."));
    let mut reasons = report.invalid_because.iter().map(|reason| format!("{reason}."));
    match reasons.next() {
        None => (format!("Valid: {measured}"), report.warning().into_iter().chain(notes).collect()),
        Some(first) => {
            let rest = reasons.map(|reason| format!("Also: {reason}"));
            (format!("Not valid: {first}"), rest.chain([measured]).chain(notes).collect())
        }
    }
}

fn summary(document: &Document<'_>, plan: &Plan) -> String {
    let Document { host, report, started, .. } = document;
    format!(
        "{} measured requests to {}, from {}; seed {}.",
        count(report.requests),
        plan.target,
        started.started_utc,
        plan.seed
    ) + &format!(" Sent by {} {} with curtail {}.", host.system, host.kernel, document.curtail)
}

fn distributions(figures: &Figures<'_>) -> String {
    let html = figure(
        &latencies(),
        "<b>Figure 1.</b> The share of requests that took longer than a given time; further left \
         is better. Both scales are logarithmic. The slowest 10 requests depend on chance and are \
         not drawn.",
        |size| figures.distribution(Share::Above, size),
    ) + &figure(
        &latencies(),
        "<b>Figure 2.</b> The share of requests that took at most a given time.",
        |size| figures.distribution(Share::Below, size),
    );
    or_nothing(html, "Too few good responses for a distribution.")
}

fn of_parts(figures: &Figures<'_>) -> String {
    let named = parts(figures.report).into_iter().map(|(name, look)| (name.to_owned(), look));
    figure(
        &named.collect::<Vec<_>>(),
        "<b>Figure 3.</b> The parts of the latency at its percentiles: means over the requests \
         around each percentile.",
        |size| figures.parts(size),
    )
}

fn times(figures: &Figures<'_>) -> String {
    let html = figure(
        &over_time(),
        "<b>Figure 4.</b> Latency over time, on a logarithmic scale. A higher percentile needs \
         more requests, so its intervals are longer.",
        |size| figures.percentiles(size),
    ) + &figure(
        &rates(),
        "<b>Figure 5.</b> Good responses per second, and the requested rate.",
        |size| figures.rate(size),
    );
    or_nothing(html, "The run was too short for these figures.")
}

/// The latencies, their confidence intervals and their parts.
fn figures_of(report: &Report) -> String {
    let columns = Summary::<u64>::NAMES.map(|name| (name, "ms"));
    let mut rows = Table::with_units(iter::once(("", "")).chain(columns));
    let mut row = |name: &str, cells: &[String]| {
        rows.row(iter::once(name.to_owned()).chain(cells.iter().cloned()));
    };
    // These rows have no maximum and no mean.
    let percentiles = |cells: [String; 5]| [&cells[..], &[String::new(), String::new()]].concat();
    let mut latency = report.latency_ns.each().map(ms);
    for (cell, field) in latency.iter_mut().zip(Summary::<u64>::FIELDS) {
        if report.latency_at_least.contains(&field) {
            cell.insert_str(0, "≥ ");
        }
    }
    row("latency", &latency);
    row("95 % interval", &percentiles(report.latency_ci95_ns.each().map(interval)));
    row("uncorrected", &report.uncorrected_ns.each().map(ms));
    row("schedule lag", &report.schedule_lag_ns.each().map(ms));
    if report.split_ns.any() {
        rows.group("");
        for (place, name) in report.split_ns.names().iter().enumerate() {
            let parts = report.split_ns.each().map(|of| ms(of.map(|of| of.each()[place])));
            let cells = [name.to_string()].into_iter().map(|name| format!("of which {name}"));
            rows.row(cells.chain(percentiles(parts)));
        }
    }
    let caption = "<b>Table 1.</b> Latencies in milliseconds, to three digits. They cover all \
                   requests; the uncorrected ones cover good responses only. A failed request \
                   counts as at least the timeout, and an unfinished one as at least its age at \
                   the end of the run; ≥ marks figures that are lower bounds for this reason.";
    rows.html("figures", caption)
}

fn ms(ns: Option<u64>) -> String {
    three_or_none(ns.map(|ns| ns as f64 / 1e6))
}

fn interval(borders: Option<[u64; 2]>) -> String {
    let ms = |ns: u64| three(ns as f64 / 1e6);
    borders.map_or_else(|| "unknown".to_owned(), |ends| ends.map(ms).join(" to "))
}

fn failures(report: &Report) -> String {
    let found = report.errors.kinds().into_iter().filter(|(count, _)| *count > 0);
    let rows: Vec<_> = found.map(|(of, kind)| [kind.to_owned(), count(of)]).collect();
    if rows.is_empty() {
        return "<p>Every request had a good response.</p>".to_owned();
    }
    let mut table = Table::new(["Kind", "Requests"]);
    rows.into_iter().for_each(|row| table.row(row));
    let when = report.failures.as_ref().map(|of| format!("<p>{}.</p>", escape(&when(of))));
    let caption = "<b>Table 2.</b> Requests without a good response, by kind.";
    when.unwrap_or_default() + &table.html("kinds", caption)
}

/// The content of `result.json` by field names, without fields that readers of the page do not
/// need.
fn asked<'a>(document: &'a Document<'_>) -> Vec<(&'a str, String)> {
    let protocol = document.plan["protocol"].as_object().into_iter().flatten();
    let plan = document.plan.as_object().into_iter().flatten().chain(protocol);
    let mut asked: Vec<(&'a str, String)> =
        plan.filter_map(|(name, value)| Some((&name[..], shown(value)?))).collect();
    let Host { system, kernel, architecture, processors, .. } = &document.host;
    let processors = processors.map_or("?".to_owned(), |processors| processors.to_string());
    asked.push(("connections opened", count(document.report.connections_opened)));
    asked.push(("sent by", format!("{system} {kernel}, {architecture}, {processors} processors")));
    asked
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) | Value::Object(_) => None,
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => Some(list.iter().filter_map(shown).collect::<Vec<_>>().join(", ")),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
    }
}
