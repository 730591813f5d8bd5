//! The output: a table, a document, pictures, and a page with all of them.

mod figures;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use curtail_load::Histogram;
use curtail_report::chart::frame::Size;
use curtail_report::page::{self, Page, escape, picture};
use curtail_report::policy::Look;
use serde_json::{Value, json};

pub(crate) use table::text;

use crate::agreement::{agreed, at};
use crate::processors::Configuration;
use crate::run::{Cell, Results};
use figures::Figure;

/// The file name of the page in the folder of results.
pub(crate) const PAGE: &str = "report.html";

/// Writes all output. Existing files with these names are overwritten.
pub(crate) fn write(folder: &Path, results: &Results) -> Result<()> {
    let why = || format!("{}: cannot write; use another --out", folder.display());
    fs::create_dir_all(folder).with_context(why)?;
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).with_context(why);
    put("results.json", &format!("{:#}\n", document(results)))?;
    put("table.txt", &text(results))?;
    let figures = figures::all(results);
    for figure in &figures {
        if let Some(svg) = picture(&figure.draw(Size::WIDE)) {
            put(&format!("{}.svg", figure.id), &svg)?;
        }
    }
    put(PAGE, &page(results, &figures))
}

/// Returns the document. Times are in nanoseconds, as their names state.
fn document(results: &Results) -> Value {
    let size = results.size;
    let places = results.places;
    json!({
        "rate": size.rate,
        "seconds": size.seconds,
        "repetitions": size.repetitions,
        "processors": { "generator": places.generator, "function": places.function },
        "cells": results.cells.iter().map(cell).collect::<Value>(),
    })
}

fn cell(cell: &Cell) -> Value {
    let Cell { subject, method, all, .. } = cell;
    let agreed = agreed(&all.measured, &all.tapped);
    json!({
        "function": subject.function.name(),
        "configuration": subject.configuration.map(Configuration::name),
        "antagonist": subject.antagonist,
        "method": method.name(),
        "achieved_rate": all.achieved,
        "sent": all.sent,
        "lost": all.lost(),
        "measured_ns": summary(&all.measured),
        "tapped_ns": summary(&all.tapped),
        "added_ns": summary(&all.added),
        "offset_ns": agreed.offset_ns,
        "agrees_up_to": agreed.up_to,
        "agrees_less_offset_up_to": agreed.less_offset_up_to,
    })
}

/// Percentiles with fewer than ten packets above them are null.
fn summary(of: &Histogram<u64>) -> Value {
    let some = |value: u64| (!of.is_empty()).then_some(value);
    json!({
        "count": of.len(), "min": some(of.min()), "p50": at(of, 50.0), "p90": at(of, 90.0),
        "p99": at(of, 99.0), "p999": at(of, 99.9), "p9999": at(of, 99.99), "max": some(of.max()),
    })
}

/// Returns the page with all figures and tables in one file.
fn page(results: &Results, figures: &[Figure]) -> String {
    let section = |id: &str, title: &str, content: &str| {
        format!(
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{content}\n</section>\n"
        )
    };
    let figure = |figure: &Figure| {
        let key: Vec<(String, Look)> =
            figure.lines.iter().map(|(name, look, _)| (name.clone(), *look)).collect();
        let caption = format!("{}.", escape(&figure.title));
        page::figure(&key, &caption, |size| Some(figure.draw(size))) + "\n"
    };
    let table = format!("<div class=\"scroll\"><pre>{}</pre></div>", escape(&text(results)));
    let figures: String = figures.iter().map(figure).collect();
    let main = section("all", "Accuracy of each method, and all figures", &table)
        + &section("figures", "Distributions", &figures);
    Page {
        verb: "eval papers measuring",
        title: "chapter 3 of document 000",
        headline: "How accurate are measurements of microseconds?",
        more: "",
        main: main.trim_end(),
    }
    .render()
}
