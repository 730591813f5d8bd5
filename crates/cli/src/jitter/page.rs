//! `report.html` of `curtail jitter`: one self-contained file. Its figures are Figures 6.1 and 6.2 of
//! document 000 drawn from this measurement.

use std::fmt::Write as _;

use curtail_jitter::{self as jitter, Ccdf, Executions, View};
use curtail_report::chart::curves::{Axis, Curve, Curves, Dots, draw, draw_dots};
use curtail_report::chart::frame::{Caption, Size, bounds};
use curtail_report::number::{count, counted, ms, share, three};
use curtail_report::page::{Page, escape, figure, legend, list};
use curtail_report::policy::{Look, look};

use super::result::{Found, Means};
use super::table;
use super::table::often;

/// The number of points in a curve, and the number of dots and of line points in a panel.
const CURVE_POINTS: usize = 400;
const DOTS: usize = 3_000;
/// Maximum number of classes with their own curves and panels. Only the most frequent ones are
/// shown, because more would be indistinguishable.
pub(super) const CLASSES: usize = 6;
/// The axis omits this share of the shortest times, because a J of 0 has no logarithm.
const LEFT_OUT: f64 = 0.05;

/// The data to draw.
pub(super) struct Figures<'a> {
    pub(super) found: &'a Found,
    executions: &'a Executions,
    seed: u64,
}

/// A part of an execution: its name, its color, its id suffix, and its curve.
pub(super) type Part = (&'static str, usize, &'static str, fn(&Ccdf) -> &jitter::Curve);

pub(super) const PARTS: [Part; 3] = [
    ("P", 1, "p", |curves| &curves.p),
    ("J", 3, "j", |curves| &curves.j),
    ("P + J", 0, "service", |curves| &curves.service),
];

const BORDER: (&str, usize) = ("hiccups from here on", 6);

/// The names and styles of the parts, and of the line that marks the shortest hiccup.
pub(super) fn parts(found: &Found) -> Vec<(String, Look)> {
    let all = PARTS.map(|(name, color, ..)| (name, color));
    let all = all.into_iter().chain(found.hiccups_from_ns.map(|_| BORDER));
    all.map(|(name, color)| (name.to_owned(), look(color))).collect()
}

impl<'a> Figures<'a> {
    pub(super) fn new(found: &'a Found, executions: &'a Executions, seed: u64) -> Self {
        Self { found, executions, seed }
    }

    /// The classes to show, with their styles; empty for a single class.
    pub(super) fn classes(&self) -> Vec<(usize, String, Look)> {
        let classes = &self.found.classes;
        if classes.len() < 2 {
            return Vec::new();
        }
        let mut order: Vec<usize> = (0..classes.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(classes[at].means.executions));
        order.truncate(CLASSES);
        let named = order.into_iter().zip(2..).map(|(at, color)| {
            let name = &classes[at].class;
            let name = if name.is_empty() { "(no class)" } else { name };
            (at, name.to_owned(), look(color))
        });
        named.collect()
    }

    /// P, J and their sum, over all queries.
    pub(super) fn components(&self, size: Size) -> Option<String> {
        let ccdf = self.executions.all().ccdf(CURVE_POINTS);
        let mut curves: Vec<Curve> =
            PARTS.iter().map(|(name, color, _, of)| curve(name, look(*color), of(&ccdf))).collect();
        if let Some(from) = self.found.hiccups_from_ns {
            let at = (from.max(1.0) / 1e6).log10();
            let low = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
            let points = vec![(at, 0.0), (at, low.fold(0.0, f64::min))];
            curves.push(Curve { name: BORDER.0.to_owned(), look: look(BORDER.1), points });
        }
        let title = "Share of P, J and P + J above a given time";
        chart("components", title, &curves, size)
    }

    /// The curves of one part for all queries and for each class, as in a panel of Figure 6.1.
    pub(super) fn by_class(&self, part: &Part) -> Option<String> {
        let (name, _, id, of) = part;
        let whole = self.executions.all().ccdf(CURVE_POINTS);
        let mut curves = vec![curve("all", look(0), of(&whole))];
        for (at, class, look) in self.classes() {
            let ccdf = self.executions.class(at)?.ccdf(CURVE_POINTS);
            curves.push(curve(&class, look, of(&ccdf)));
        }
        let title = format!("Share of {name} above a given time, by class");
        chart(&format!("classes-{id}"), &title, &curves, Size::SMALL)
    }

    /// Figure 6.2, which shows J of all executions, with the queries ordered by P.
    pub(super) fn ranked(&self, size: Size) -> Option<String> {
        let title = "J of executions, by query in order of P";
        self.panel(self.executions.all(), "ranked", title, size)
    }

    /// One panel of Figure 6.2, which shows J of the executions of a class.
    pub(super) fn ranked_class(&self, at: usize, name: &str) -> Option<String> {
        let title = format!("J of executions of {name}, by query in order of P");
        let size = Size { width: Size::SMALL.width * 1.5, ..Size::SMALL };
        self.panel(self.executions.class(at)?, &format!("ranked-{at}"), &title, size)
    }

    fn panel(&self, view: View<'_>, id: &str, title: &str, size: Size) -> Option<String> {
        let ranked = view.ranked(DOTS, self.seed);
        let place =
            |&(rank, ns): &(usize, u64)| (rank as f64 + 1.0, (ns.max(1) as f64 / 1e6).log10());
        let line: Vec<(f64, f64)> = ranked.queries.iter().map(place).collect();
        let executions = ranked.executions.iter().filter(|(_, j_ns)| *j_ns > 0);
        let dots: Vec<(f64, f64)> = executions.map(place).collect();
        let mut heights: Vec<f64> = dots.iter().map(|dot| dot.1).collect();
        heights.sort_unstable_by(f64::total_cmp);
        let shortest = heights.get((heights.len() as f64 * LEFT_OUT) as usize)?;
        let low = line.iter().map(|point| point.1).fold(*shortest, f64::min);
        let high = line.iter().map(|point| point.1).chain(heights.last().copied());
        let high = high.fold(f64::NEG_INFINITY, f64::max);
        let last = line.last()?.0;
        let mut x = Axis::until("Queries, in order of P", 0.0, last.max(1.0));
        x.ticks.retain(|(at, _)| at.fract() == 0.0);
        let about = format!("{} queries, {} executions.", last, dots.len());
        let chart = Dots {
            caption: Caption::new(id, size, title, about),
            x,
            y: Axis::log("ms", 10f64.powf(low), 10f64.powf(high), size.width),
            dots: &dots,
            of_dots: ("J of an execution", look(PARTS[1].1)),
            line: &line,
            of_line: ("P of the query", look(PARTS[0].1)),
            size,
        };
        Some(draw_dots(&chart))
    }
}

/// The points of a curve, with logarithms of both coordinates. The curve starts at the first time
/// that has a logarithm.
fn curve(name: &str, look: Look, points: &[(u64, f64)]) -> Curve {
    let start = points.iter().position(|&(ns, share)| share <= 1.0 - LEFT_OUT && ns > 0);
    // If all times are equal, the only point is kept.
    let start = start.unwrap_or(points.len().saturating_sub(1));
    let points = points.iter().skip(start).filter(|point| point.0 > 0);
    let points = points.map(|&(ns, share)| ((ns as f64 / 1e6).log10(), share.log10()));
    Curve { name: name.to_owned(), look, points: points.collect() }
}

fn chart(id: &str, title: &str, curves: &[Curve], size: Size) -> Option<String> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let (low, high) = bounds(all().map(|point| point.0))?;
    let smallest = all().map(|point| point.1).fold(0.0, f64::min);
    let y = Axis::shares_above("Share at or above this time", 10f64.powf(smallest));
    let about = curves.iter().filter_map(|curve| {
        let longest = 10f64.powf(curve.points.last()?.0);
        Some(format!("{}: at most {} ms.", curve.name, three(longest)))
    });
    let caption = Caption::new(id, size, title, about.collect::<Vec<_>>().join(" "));
    let x = Axis::log("Time, ms", 10f64.powf(low), 10f64.powf(high), size.width);
    Some(draw(&Curves { caption, x, right: &y.percentiles(), y, curves, size }))
}

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
        ms(service_ns.mean),
        ms(p_ns.mean),
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
        "<b>Figure 1.</b> The share of queries whose P, and of executions whose J and P + J, is at \
         or above a given time. Both scales are logarithmic. The shortest 5 % are not drawn.",
        |size| figures.components(size),
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
    let key = legend(&key);
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
    let mut html = figure(key, caption, |size| figures.ranked(size));
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
