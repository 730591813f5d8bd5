//! The figures of the report, with their captions.

use std::fmt::Write as _;

use crate::demo::findings::{View, copies_per_query};
use crate::demo::results::Cell;
use crate::plot::FIGURE_SIZES;
use crate::plot::axes::Caption;
use crate::plot::distribution::{self, Latencies, Share};
use crate::plot::format::{and, policy, three, utilization};
use crate::plot::html::figure;
use crate::plot::lines::{Chart, Line, Point, Size, draw};
use crate::plot::palette::key_of;

/// A figure that is plotted against utilization.
struct Metric {
    id: &'static str,
    name: &'static str,
    unit: &'static str,
    floor: f64,
    /// Points beyond so many times the highest of those that are compared are off the chart.
    reach: f64,
    of: fn(&Cell) -> Option<f64>,
}

impl Metric {
    /// The others are seen to collapse, and those compared fill half of the chart.
    const fn latency(id: &'static str, name: &'static str, of: fn(&Cell) -> Option<f64>) -> Self {
        Self { id, name, unit: "ms", floor: 0.0, reach: 2.0, of }
    }
}

const P99: Metric = Metric::latency("p99", "99th percentile latency", |cell| cell.p99_ms);

const OTHERS: [Metric; 3] = [
    Metric::latency("p50", "Median latency", |cell| cell.p50_ms),
    Metric::latency("p999", "99.9th percentile latency", |cell| cell.p999_ms),
    Metric {
        id: "copies",
        name: "Copies",
        unit: "per query",
        floor: 1.0,
        // There is a bound on copies: two, or with cloning the replicas of a shard.
        reach: f64::INFINITY,
        of: copies_per_query,
    },
];

/// The lines of a metric, without those that were never measured.
fn lines<'a>(view: View<'a>, metric: &Metric) -> Vec<Line<'a>> {
    let point = |name: &str, load: f64| {
        let cell = view.cell(name, load)?;
        let value = (metric.of)(cell).filter(|value| value.is_finite())?;
        Some(Point { x: load, value, sound: cell.valid })
    };
    let line = |(policy, look)| {
        let points = view.results.loads.iter().map(|load| point(policy, *load)).collect();
        Line { policy, look, points }
    };
    let lines = view.looks().into_iter().map(line);
    lines.filter(|line| line.points.iter().any(Option::is_some)).collect()
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
            format!("{} {unit}{unsound} at {}", three(point.value), utilization(point.x))
        });
        let _ = write!(text, "{}: {}. ", policy(line.policy).short, and(at));
    }
    text.trim_end().to_owned()
}

fn chart(view: View<'_>, metric: &Metric, size: Size) -> Option<String> {
    let lines = lines(view, metric);
    let (suffix, class) = match size {
        Size::Wide => ("", "wide"),
        Size::Narrow => ("-narrow", "narrow"),
        Size::Small => ("", "small"),
    };
    let Metric { id, name, unit, floor, reach, .. } = metric;
    let chart = Chart {
        caption: Caption {
            id: format!("{id}{suffix}"),
            title: format!("{name} against utilization"),
            description: describe(&lines, unit),
        },
        name: &format!("{name}, {unit}"),
        unit: &format!(" {unit}"),
        x_name: "Utilization",
        x_text: &utilization,
        xs: &view.results.loads,
        lines: &lines,
        floor: *floor,
        most: reach * highest(&lines),
        size,
        nothing: "nothing was measured",
    };
    (!lines.is_empty()).then(|| draw(&chart, class))
}

/// The chart of the main figure alone.
pub(super) fn picture(view: View<'_>) -> Option<String> {
    chart(view, &P99, Size::Wide)
}

/// The main figure: p99 against utilization.
pub(super) fn main_figure(view: View<'_>) -> String {
    let both = [Size::Wide, Size::Narrow].map(|size| chart(view, &P99, size));
    let caption = "<b>Figure 1.</b> 99th percentile latency against utilization; lower is better. Values \
                   with an arrow are off the chart. Hollow markers and values in italics are not \
                   sound, for the reason given under the table.";
    match &figure(&view.key(), both, caption)[..] {
        "" => r#"<p class="nothing">No 99th percentile was measured.</p>"#.to_owned(),
        figure => figure.to_owned(),
    }
}

/// The other percentiles, and what they cost.
pub(super) fn small_multiples(view: View<'_>) -> String {
    let charts = OTHERS.iter().filter_map(|metric| chart(view, metric, Size::Small));
    let charts: String = charts.collect();
    if charts.is_empty() {
        return charts;
    }
    format!(
        r#"<figure>{}<div class="row three">{charts}</div><figcaption><b>Figure 2.</b> Other percentiles, as far as there are enough requests for them, and what hedging costs: the copies that a query runs as. Arrow heads: off the chart.</figcaption></figure>"#,
        key_of(&view.key(), "")
    )
}

/// The distributions at the lowest and the highest load at which both that are compared are sound.
pub(super) fn tails(view: View<'_>) -> String {
    let sound =
        |name: Option<&str>, load| name.is_some_and(|name| view.sound(name, load).is_some());
    let both = |load: &f64| sound(view.baseline, *load) && sound(view.subject, *load);
    let loads: Vec<f64> = view.results.loads.iter().copied().filter(both).collect();
    let ends = loads.first().into_iter().chain(loads.last().filter(|_| loads.len() > 1));
    let tails = ends.zip(3..).map(|(&load, number)| {
        let key = view.key();
        let named = key.iter().zip(view.results.policies());
        let latencies: Vec<Latencies<'_>> = named
            .filter_map(|((name, look), policy)| {
                let Cell { histogram: counted, withheld, .. } =
                    view.cell(policy, load).filter(|cell| cell.valid)?;
                Some(Latencies { name, look: *look, counted, withheld: *withheld })
            })
            .collect();
        let caption = format!(
            "<b>Figure {number}.</b> The share of requests that took longer than a given time, at {} \
             utilization. Further left is better. Both scales are logarithmic. The last 10 requests of \
             each tail are chance and not drawn, nor is what is not sound.",
            utilization(load)
        );
        let charts = FIGURE_SIZES.map(|(width, height, class, end)| {
            let id = format!("tail-{:.0}{end}", load * 1e3);
            distribution::chart(&id, &latencies, Share::Above, ((width, height), class))
        });
        figure(&key, charts, &caption)
    });
    tails.collect()
}
