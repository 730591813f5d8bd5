//! `report.html` of `curtail jitter`: one self-contained file.

use std::fmt::Write as _;

use super::figures::{CLASSES, Figures, PARTS, parts};
use super::result::{Found, Means};
use super::table::{self, often};
use crate::digits;
use crate::plot::format::{count, counted, escape, share, three};
use crate::plot::html::{figure, list};
use crate::plot::palette::{Look, key_of, look};
use crate::plot::{FIGURE_SIZES, Page};

/// Renders the report.
pub(super) fn render(figures: &Figures<'_>) -> String {
    let found = figures.found;
    let bias = table::bias(found).map_or(String::new(), |bias| format!(" {}.", escape(&bias)));
    let means = format!("<b>Table 1.</b> Mean times of an execution.{bias}");
    let about = escape(&table::about_hiccups(found));
    let main = format!(
        include_str!("page.html"),
        components = components(figures),
        table = table::means(found).html("means", &means),
        classes = classes(figures),
        ranked = ranked(figures),
        hiccups = table::hiccups(found)
            .html("hiccup-table", &format!("<b>Table 2.</b> Hiccups; {about}.")),
        causes = causes(found),
        measured = list(measured(found)),
    );
    let note = |word: &str, text: &str| {
        let text = escape(text);
        format!(r#"<p class="partial" role="note"><strong>{word}</strong> {text}.</p>"#)
    };
    let partial = found.partial.then(|| note("Partial:", found.why_partial()));
    let missed = found.rate_missed.as_ref().map(|why| note("But", &why.text));
    let notes: String = partial.into_iter().chain(missed).collect();
    let Means { queries, executions, service_ns, p_ns, .. } = &found.all;
    let summary = format!(
        "{}, {} executions{}: {} ms on average, of which {} ms are P.",
        counted(*queries, "query", "queries"),
        count(*executions as u64),
        if found.unloaded { " one at a time" } else { "" },
        digits::ms(service_ns.mean),
        digits::ms(p_ns.mean),
    );
    Page {
        verb: "jitter",
        title: &escape(&found.target),
        headline: &escape(&found.verdict.text),
        more: &format!(r#"{notes}<p class="summary">{}</p>"#, escape(&summary)),
        main: main.trim_end(),
    }
    .render()
}

fn components(figures: &Figures<'_>) -> String {
    figure(
        &parts(figures.found),
        FIGURE_SIZES.map(|size| figures.components(size)),
        "<b>Figure 1.</b> The share of queries whose P, and of executions whose J and P + J, is at \
         or above a given time. Both scales are logarithmic. The shortest 5 % are not drawn.",
    )
}

/// Renders Figure 6.1 of document 000.
fn classes(figures: &Figures<'_>) -> String {
    let classes = figures.classes();
    let panels: String = PARTS.iter().filter_map(|part| figures.by_class(part)).collect();
    if classes.is_empty() || panels.is_empty() {
        return String::new();
    }
    let key = classes.into_iter().map(|(_, name, look)| (name, look));
    let key: Vec<_> = [("all".to_owned(), look(0))].into_iter().chain(key).collect();
    let key = key_of(&key, "");
    format!(
        r#"<section aria-labelledby="classes"><h2 id="classes">By class</h2><figure>{key}<div class="row three">{panels}</div><figcaption><b>Figure 2.</b> The same for each class of queries, at most the {CLASSES} most frequent: P, J, and P + J.</figcaption></figure></section>"#
    )
}

/// Renders Figure 6.2 of document 000.
fn ranked(figures: &Figures<'_>) -> String {
    let key = &parts(figures.found)[..2];
    let caption = "<b>Figure 3.</b> J of single executions (dots), by query in the order of P (the \
                   line), on a logarithmic scale. If there are many executions, a random sample is \
                   drawn, without the shortest 5 %.";
    let mut html = figure(key, FIGURE_SIZES.map(|size| figures.ranked(size)), caption);
    let panel = |(at, name, _): (usize, String, Look)| {
        let panel = figures.ranked_class(at, &name)?;
        Some(format!("<div><p class=\"caption\"><b>{}</b></p>{panel}</div>", escape(&name)))
    };
    let panels: String = figures.classes().into_iter().filter_map(panel).collect();
    if !panels.is_empty() {
        let _ = write!(
            html,
            r#"<figure><div class="row two">{panels}</div><figcaption><b>Figure 4.</b> The same for each class.</figcaption></figure>"#
        );
    }
    html
}

fn causes(found: &Found) -> String {
    let leaf = escape(&found.leaf.text);
    match table::causes(found) {
        Some(table) => {
            let caption = format!(
                "<b>Table 3.</b> Likely causes of the hiccups seen, from the kernel's counters for \
                 {leaf}."
            );
            table.html("causes", &caption)
        }
        None if found.all.seen.bimodal => format!("<p>No likely causes: {leaf}.</p>"),
        None => "<p>No likely causes: there are no hiccups.</p>".to_owned(),
    }
}

fn measured(found: &Found) -> Vec<(&'static str, String)> {
    let pace = match found.rate {
        Some(rate) => format!("{rate} per second, Poisson arrivals"),
        None => "one query at a time: none waited for another".to_owned(),
    };
    let enough = match found.enough {
        "converged" => "P has converged",
        "at-most" => "the requested number was reached",
        _ => "the measurement ended before P had converged",
    };
    let fit = &found.fit;
    vec![
        ("Target", found.target.clone()),
        ("Leaf", found.leaf.text.clone()),
        ("Pace", pace),
        ("Repetitions", format!("{}; {enough}", often(found))),
        ("Failed", found.errors.to_string()),
        (
            "Fit",
            format!(
                "a mixture of {} to the logarithm of J; it is off by at most {} of the executions \
                 (Kolmogorov–Smirnov). {}",
                counted(fit.components, "normal distribution", "normal distributions"),
                share(fit.distance),
                match fit.ashman_d {
                    Some(d) =>
                        format!("Hiccups are separated from the others by D = {}.", three(d)),
                    None => format!(
                        "One mode: the deepest valley may be chance (p = {}).",
                        three(fit.p_value)
                    ),
                }
            ),
        ),
        ("Samples", format!("{} (for curtail advise and curtail sim)", found.samples)),
    ]
}
