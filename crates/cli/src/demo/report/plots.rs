//! The figures of the report, with their captions.

use std::fmt::Write as _;

use crate::demo::findings::{View, copies_per_query};
use crate::demo::results::LoadPoint;
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
    /// Points above this multiple of the highest compared point are off the chart.
    reach: f64,
    of: fn(&LoadPoint) -> Option<f64>,
}

impl Metric {
    /// The compared policies fill half of the chart, which leaves room to show that other policies
    /// collapse.
    const fn latency(
        id: &'static str,
        name: &'static str,
        of: fn(&LoadPoint) -> Option<f64>,
    ) -> Self {
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
        // Points above this multiple of the highest point of the compared policies are off the
        // chart. Without cloning, it is at most two.
        reach: f64::INFINITY,
        of: copies_per_query,
    },
];

/// The lines of a metric, except those without any measurement.
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

/// The highest sound point of the compared policies; infinite if there is none, so that all points
/// are on the chart.
fn highest(lines: &[Line<'_>]) -> f64 {
    let compared = lines.iter().filter(|line| line.look.color < 2);
    let points = compared.flat_map(|line| line.points.iter().flatten());
    let sound = points.filter(|point| point.sound).map(|point| point.value);
    sound.max_by(f64::total_cmp).unwrap_or(f64::INFINITY)
}

/// Describes a chart in words, for screen readers.
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

/// Renders the chart of the main figure without its caption.
pub(super) fn picture(view: View<'_>) -> Option<String> {
    chart(view, &P99, Size::Wide)
}

/// The main figure: p99 against utilization.
pub(super) fn main_figure(view: View<'_>) -> String {
    let both = [Size::Wide, Size::Narrow].map(|size| chart(view, &P99, size));
    let caption = "<b>Figure 1.</b> 99th percentile latency against utilization; lower is better. \
                   Values with an arrow are off the chart. Hollow markers and values in italics \
                   are not sound, for the reasons given under the table.";
    match &figure(&view.key(), both, caption)[..] {
        "" => r#"<p class="nothing">No 99th percentile was measured.</p>"#.to_owned(),
        figure => figure.to_owned(),
    }
}

/// Plots of the other percentiles, and of the copies per query.
pub(super) fn small_multiples(view: View<'_>) -> String {
    let charts = OTHERS.iter().filter_map(|metric| chart(view, metric, Size::Small));
    let charts: String = charts.collect();
    if charts.is_empty() {
        return charts;
    }
    format!(
        r#"<figure>{}<div class="row three">{charts}</div><figcaption><b>Figure 2.</b> Other percentiles, if there are enough requests for them, and the cost of hedging: the number of copies per query. Arrow heads: off the chart.</figcaption></figure>"#,
        key_of(&view.key(), "")
    )
}

/// The distributions at the lowest and the highest load at which both compared policies are sound.
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
                let LoadPoint { histogram: counted, withheld, .. } =
                    view.cell(policy, load).filter(|cell| cell.valid)?;
                Some(Latencies { name, look: *look, counted, withheld: *withheld })
            })
            .collect();
        let caption = format!(
            "<b>Figure {number}.</b> The share of requests that took longer than a given time, at \
             {} utilization. Further left is better. Both scales are logarithmic. The slowest 10 \
             requests of each curve depend on chance and are not drawn. Results that are not sound \
             are not drawn either.",
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
