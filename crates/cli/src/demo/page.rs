//! The report of the demo: one self-contained HTML file for screens, phones and paper, with the figures
//! and their captions.

use std::fmt::Write as _;

use curtail_report::chart::distribution;
use curtail_report::chart::distribution::{Latencies, Share};
use curtail_report::chart::frame::{Caption, Size};
use curtail_report::chart::lines::{Chart, Line, Point, draw};
use curtail_report::number::{and, count, counted, elapsed, three, utilization};
use curtail_report::page::{Page, escape, figure, legend, list, or_nothing, picture as svg_file};
use curtail_report::policy::policy;

use super::findings::{Headline, View, copies_per_query, headline};
use super::results::{LoadPoint, Results, Setup};
use super::table::{Room, table};

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

/// Renders the main figure as a separate file, to be used on other pages. `None` if nothing was
/// measured.
pub(crate) fn picture(results: &Results) -> Option<String> {
    svg_file(&chart(View::of(results), &P99, Size::WIDE)?)
}

/// Renders the report.
pub(crate) fn render(results: &Results) -> String {
    let view = View::of(results);
    let Headline { first, more } = headline(results);
    // Prevent a line break at the hyphen.
    let whole = r#"<span class="whole">per-shard</span>"#;
    let mut sentences =
        first.iter().chain(&more).map(|text| escape(text).replace("per-shard", whole));
    let finding = sentences.next().unwrap_or_default();
    let but: String = sentences.map(|text| format!(r#"<p class="but">{text}</p>"#)).collect();
    let partial = view.partial().map_or(String::new(), |text| {
        format!(r#"<p class="partial" role="note"><strong>{text}</strong></p>"#)
    });
    let policies: Vec<_> = results.policies().map(|name| (name, policy(name))).collect();
    let policies = policies.iter().map(|(name, named)| {
        let colon = if named.does.is_empty() { "" } else { ": " };
        (named.short.as_str(), format!("{name}{colon}{}", named.does))
    });
    let main = format!(
        include_str!("page.html"),
        main = main_figure(view),
        small = small_multiples(view),
        tails = tails(view),
        table = figures(view),
        setup = list(setup(&results.setup)),
        policies = list(policies),
    );
    Page {
        verb: "demo",
        title: "tail latency against utilization",
        headline: &finding,
        more: &format!("{but}{partial}<p class=\"summary\">{}</p>", summary(results)),
        main: main.trim_end(),
    }
    .render()
}

/// The table of all figures. Below it are the reasons why some cells are not sound.
fn figures(view: View<'_>) -> String {
    let (table, notes) = table(view, Room::Page);
    let caption = "<b>Table 1.</b> All figures, to three digits, by utilization. The lowest sound \
                   99th percentile at each utilization is in bold; results that are not sound are \
                   not compared.";
    let notes: String = notes.iter().map(|note| format!("<p>{}</p>", escape(note))).collect();
    format!("{}<div class=\"notes\">{notes}</div>", table.html("figures", caption))
}

/// A line that summarizes the run.
fn summary(results: &Results) -> String {
    let setup = &results.setup;
    format!(
        "{} policies at {} loads on {}. {} measured requests for each, seed {}; took {}.",
        results.order.len(),
        results.loads.len(),
        system(setup),
        count(setup.requests),
        setup.seed,
        elapsed(setup.elapsed_s)
    )
}

fn system(Setup { shards, replicas, slots, .. }: &Setup) -> String {
    format!(
        "{} × {} × {}",
        counted(*shards as usize, "shard", "shards"),
        counted(*replicas as usize, "replica", "replicas"),
        counted(*slots as usize, "slot", "slots")
    )
}

/// The setup, with enough detail to judge and repeat the run.
fn setup(setup: &Setup) -> [(&'static str, String); 8] {
    let system = system(setup);
    let Setup { service_time, service_mean_ms, hiccup, strata, .. } = setup;
    [
        (
            "System",
            format!(
                "{system}. A request sends a query to every shard, and is done when the last of \
                 them has responded."
            ),
        ),
        ("Corpus", format!("{}, {} documents", setup.corpus, count(setup.documents))),
        (
            "Service time",
            format!("{service_time} per query, mean P̄ = {} ms", three(*service_mean_ms)),
        ),
        ("Hiccups", format!("{hiccup}, on one replica: a second copy may avoid them. {strata}")),
        ("Real or stretched", setup.honesty.clone()),
        (
            "Requests",
            format!("{} measured per policy and load; seed {}", count(setup.requests), setup.seed),
        ),
        ("Duration", elapsed(setup.elapsed_s)),
        ("Command", setup.command.clone()),
    ]
}

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
    let Metric { id, name, unit, floor, reach, .. } = metric;
    let chart = Chart {
        caption: Caption::new(
            id,
            size,
            format!("{name} against utilization"),
            describe(&lines, unit),
        ),
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
    (!lines.is_empty()).then(|| draw(&chart))
}

/// The main figure: p99 against utilization.
fn main_figure(view: View<'_>) -> String {
    let caption = "<b>Figure 1.</b> 99th percentile latency against utilization; lower is better. \
                   Values with an arrow are off the chart. Hollow markers and values in italics \
                   are not sound, for the reasons given under the table.";
    let figure = figure(&view.key(), caption, |size| chart(view, &P99, size));
    or_nothing(figure, "No 99th percentile was measured.")
}

/// Plots of the other percentiles, and of the copies per query.
fn small_multiples(view: View<'_>) -> String {
    let charts = OTHERS.iter().filter_map(|metric| chart(view, metric, Size::SMALL));
    let charts: String = charts.collect();
    if charts.is_empty() {
        return charts;
    }
    format!(
        r#"<figure>{}<div class="row three">{charts}</div><figcaption><b>Figure 2.</b> Other percentiles, if there are enough requests for them, and the cost of hedging: the number of copies per query. Arrow heads: off the chart.</figcaption></figure>"#,
        legend(&view.key())
    )
}

/// The distributions at the lowest and the highest load at which both compared policies are sound.
fn tails(view: View<'_>) -> String {
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
        let id = format!("tail-{:.0}", load * 1e3);
        figure(&key, &caption, |size| distribution::chart(&id, &latencies, Share::Above, size))
    });
    tails.collect()
}
