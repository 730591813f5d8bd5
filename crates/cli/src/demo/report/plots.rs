//! The figures of the report, with their captions.

use std::fmt::Write as _;

use super::ccdf;
use crate::demo::findings::{View, copies_per_query};
use crate::demo::results::Cell;
use crate::plot::axes::Caption;
use crate::plot::format::{and, escape, policy, three, utilization};
use crate::plot::lines::{Chart, Line, Point, Size, draw};
use crate::plot::palette::key;

/// A figure that is plotted against utilization.
struct Metric {
    id: &'static str,
    /// The y axis.
    name: &'static str,
    /// In a title.
    title: &'static str,
    unit: &'static str,
    floor: f64,
    /// Points beyond so many times the highest of those that are compared are off the chart.
    reach: f64,
    of: fn(&Cell) -> Option<f64>,
}

/// For latencies: the others are seen to collapse, and those compared fill half of the chart.
const REACH: f64 = 2.0;

const P99: Metric = Metric {
    id: "p99",
    name: "99th percentile latency, ms",
    title: "99th percentile latency against utilization",
    unit: " ms",
    floor: 0.0,
    reach: REACH,
    of: |cell| cell.p99_ms,
};

const OTHERS: [Metric; 3] = [
    Metric {
        id: "p50",
        name: "Median latency, ms",
        title: "Median latency against utilization",
        unit: " ms",
        floor: 0.0,
        reach: REACH,
        of: |cell| cell.p50_ms,
    },
    Metric {
        id: "p999",
        name: "99.9th percentile latency, ms",
        title: "99.9th percentile latency against utilization",
        unit: " ms",
        floor: 0.0,
        reach: REACH,
        of: |cell| cell.p999_ms,
    },
    Metric {
        id: "copies",
        name: "Copies per query",
        title: "Copies per query against utilization",
        unit: " copies per query",
        floor: 1.0,
        // There is a bound on copies: two, or with cloning the replicas of a shard.
        reach: f64::INFINITY,
        of: copies_per_query,
    },
];

/// The lines of a metric, or nothing if it was never measured.
fn lines<'a>(view: View<'a>, metric: &Metric) -> Vec<Line<'a>> {
    let point = |name: &str, load: f64| {
        let cell = view.cell(name, load)?;
        let value = (metric.of)(cell).filter(|value| value.is_finite())?;
        Some(Point { x: load, value, sound: cell.valid })
    };
    view.looks()
        .into_iter()
        .map(|(name, look)| {
            let points = view.results.loads.iter().map(|load| point(name, *load)).collect();
            Line { policy: name, look, points }
        })
        .filter(|line| line.points.iter().any(Option::is_some))
        .collect()
}

/// The highest sound point of those that are compared; without any, all points are on the chart.
fn highest(lines: &[Line<'_>]) -> f64 {
    let compared = lines.iter().filter(|line| line.look.color < 2);
    let points = compared.flat_map(|line| line.points.iter().flatten());
    let sound = points.filter(|point| point.sound).map(|point| point.value);
    sound.max_by(f64::total_cmp).unwrap_or(f64::INFINITY)
}

/// What a chart shows, for those who do not see it.
fn describe(lines: &[Line<'_>], unit: &str) -> String {
    let mut text = String::new();
    for line in lines {
        let at = line.points.iter().flatten().map(|point| {
            let unsound = if point.sound { "" } else { ", not sound" };
            format!("{}{unit}{unsound} at {}", three(point.value), utilization(point.x))
        });
        let _ = write!(text, "{}: {}. ", policy(line.policy).short, and(at));
    }
    text.trim_end().to_owned()
}

fn chart(view: View<'_>, metric: &Metric, size: Size) -> Option<String> {
    let lines = lines(view, metric);
    if lines.is_empty() {
        return None;
    }
    let (suffix, class) = match size {
        Size::Wide => ("", "wide"),
        Size::Narrow => ("-narrow", "narrow"),
        Size::Small => ("", "small"),
    };
    let caption = Caption {
        id: format!("{}{suffix}", metric.id),
        title: metric.title.to_owned(),
        description: describe(&lines, metric.unit),
    };
    let chart = Chart {
        caption,
        name: metric.name,
        unit: metric.unit,
        x_name: "Utilization",
        x_text: &utilization,
        xs: &view.results.loads,
        lines: &lines,
        floor: metric.floor,
        most: metric.reach * highest(&lines),
        size,
        nothing: "nothing was measured",
    };
    Some(draw(&chart, class))
}

/// The chart of the main figure alone.
pub(super) fn picture(view: View<'_>) -> Option<String> {
    chart(view, &P99, Size::Wide)
}

/// The main figure: p99 against utilization.
pub(super) fn main_figure(view: View<'_>) -> String {
    let both = (chart(view, &P99, Size::Wide), chart(view, &P99, Size::Narrow));
    let (Some(wide), Some(narrow)) = both else {
        return r#"<p class="nothing">No 99th percentile was measured.</p>"#.to_owned();
    };
    let key = key(&view.looks(), "for-narrow");
    let mut caption = String::from(
        "<b>Figure 1.</b> 99th percentile latency against utilization; lower is better.",
    );
    if wide.contains('↑') {
        caption += " Values with an arrow are off the chart.";
    }
    if wide.contains("hollow") || wide.contains("off unsound") {
        caption += " Hollow markers and values in italics: the measurement is not sound, for the \
                    reason given under the table.";
    }
    format!("<figure>{key}{wide}{narrow}<figcaption>{caption}</figcaption></figure>")
}

/// The other percentiles, and what they cost.
pub(super) fn small_multiples(view: View<'_>) -> String {
    let charts: Vec<String> =
        OTHERS.iter().filter_map(|metric| chart(view, metric, Size::Small)).collect();
    if charts.is_empty() {
        return String::new();
    }
    let percentiles = match charts.iter().any(|chart| chart.contains("id=\"p999-title\"")) {
        true => "The median, the far tail,",
        false => "The median,",
    };
    let charts = charts.concat();
    let arrows = match charts.contains("class=\"head\"") {
        true => " Arrow heads: off the chart.",
        false => "",
    };
    format!(
        r#"<figure>{}<div class="row three">{charts}</div><figcaption><b>Figure 2.</b> {percentiles} and what hedging costs: the copies that a query runs as.{arrows}</figcaption></figure>"#,
        key(&view.looks(), "")
    )
}

/// The distributions at a low and at a high load.
pub(super) fn tails(view: View<'_>) -> String {
    let loads = ccdf::loads(view);
    if loads.is_empty() {
        return String::new();
    }
    let mut charts = String::new();
    let mut missing = String::new();
    for load in &loads {
        charts += &ccdf::draw(view, *load, false);
        charts += &ccdf::draw(view, *load, true);
        let (unsound, too_few) = ccdf::left_out(view, *load);
        for (why, names) in [("being unsound", unsound), ("having too few samples", too_few)] {
            let names = and(names.into_iter().map(|name| policy(name).short));
            if !names.is_empty() {
                let at = utilization(*load);
                let _ = write!(missing, " Left out at {at}, {why}: {}.", escape(&names));
            }
        }
    }
    let at = and(loads.iter().map(|load| utilization(*load)));
    let which = match loads.len() {
        1 => "the only utilization at which both that are compared are sound",
        _ => "the lowest and the highest utilization at which both that are compared are sound",
    };
    format!(
        r#"<figure>{}<div class="row two">{charts}</div><figcaption><b>Figure 3.</b> The share of requests that took longer than a given time, at {at}: {which}. Further left is better. The last 10 requests of each tail are chance and not drawn.{missing}</figcaption></figure>"#,
        key(&view.looks(), "")
    )
}
