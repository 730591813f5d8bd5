//! The plots of a sweep, on a self-contained page.

use curtail_report::chart::frame::{Caption, Size};
use curtail_report::chart::heat;
use curtail_report::chart::heat::{Map, place};
use curtail_report::chart::lines::{Chart, Line, Point, draw};
use curtail_report::number::{and, counted, three, whole_percent};
use curtail_report::page::{Page, escape, legend, picture};
use curtail_report::policy::{Look, looks, policy};
use curtail_sim::name;
use curtail_sim::sweep::Plan;
use serde_json::Value as Json;

/// An axis is plotted only if it has at least this many values.
const FEWEST: usize = 3;

/// Maximum number of line panels, and of maps.
const MOST_PANELS: usize = 12;

/// A point above this multiple of its panel's median is drawn off the chart, so that a policy that
/// collapses does not flatten the curves of the others.
const OFF_CHART: f64 = 5.0;

/// An axis whose values span at least this factor is logarithmic.
const WIDE: f64 = 50.0;

/// The remark that is shown if a sweep has no figure.
const NOTHING: &str = " Every policy is unstable at every point: use a lower utilization.";

/// The figures to plot.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) percentile: f64,
    /// The unit of latencies, which is `ms` or `1`.
    pub(super) unit: String,
    /// The value of each policy at each point. The values of a point are adjacent. `None` if the
    /// value is unknown, or if the policy is unstable.
    pub(super) values: Vec<Option<f64>>,
    /// Whether each policy has a steady state, in the same order.
    pub(super) stable: Vec<bool>,
}

impl Figures {
    /// Starts without figures. The plots show p99 if it is among the percentiles, else the highest
    /// percentile.
    pub(super) fn new(percentiles: &[f64]) -> Self {
        let highest = percentiles.iter().copied().fold(0.0, f64::max);
        let percentile = if percentiles.contains(&99.0) { 99.0 } else { highest };
        Self { percentile, unit: String::new(), values: Vec::new(), stable: Vec::new() }
    }

    /// Returns the reason why these places have no figure; `None` if one of them has a figure.
    pub(super) fn nothing(&self, of: impl Iterator<Item = usize> + Clone) -> Option<String> {
        if of.clone().any(|place| self.values[place].is_some()) {
            return None;
        }
        let mut of = of;
        Some(if of.any(|place| self.stable[place]) {
            format!("p{} is unknown here: too few requests", self.percentile)
        } else {
            "every policy is unstable here: queues grow without limit".to_owned()
        })
    }

    /// Adds the outcomes of the next point.
    pub(super) fn read(&mut self, outcomes: &[Json]) {
        let p = name(self.percentile);
        for outcome in outcomes {
            outcome["unit"].as_str().unwrap_or_default().clone_into(&mut self.unit);
            self.stable.push(outcome["stable"].as_bool().unwrap_or_default());
            self.values.push(outcome["request"][&p].as_f64());
        }
    }
}

/// A sweep, prepared for plotting.
struct View<'a> {
    plan: &'a Plan,
    figures: &'a Figures,
    /// For each axis that has enough numbers, its index and its values.
    axes: Vec<(usize, Vec<f64>)>,
    /// The reference policies of the maps.
    versus: &'a [usize],
}

/// The rendered plots.
pub(super) struct Plots {
    /// The page with all plots.
    pub(super) page: String,
    /// The chart as a separate file, if there is only one.
    pub(super) picture: Option<String>,
}

/// Renders the plots, with maps against the reference policies; `None` if no axis has enough
/// numbers.
pub(super) fn render(plan: &Plan, figures: &Figures, versus: &[usize]) -> Option<Plots> {
    let axes = plan.grid().axes().iter().enumerate();
    let numeric = axes.filter_map(|(place, axis)| Some((place, axis.numbers()?)));
    let axes = numeric.filter(|(_, numbers)| numbers.len() >= FEWEST).collect();
    let view = View { plan, figures, axes, versus };
    let (x, _) = view.axes.first()?;
    let (lines, cut) = view.lines();
    let picture = if lines.starts_with("<svg") { picture(&lines) } else { None };
    let p = figures.percentile;
    let unit = view.unit();
    let key: Vec<(String, Look)> =
        view.looks().into_iter().map(|(name, look)| (policy(name).short, look)).collect();
    let name = |place: &usize| escape(plan.grid().axes()[*place].key());
    let mut main = format!(
        "<figure>{}{lines}<figcaption><b>Figure 1.</b> p{p} \
         latency of requests{unit} over {}; lower is better. Arrow heads: off the chart. A line \
         ends where its policy is unstable.{cut}</figcaption></figure>",
        legend(&key),
        name(x),
    );
    if let [(x, _), (y, _), ..] = &view.axes[..]
        && plan.policies().len() > 1
    {
        let (maps, cut) = view.maps();
        let whom = and(versus.iter().map(|&base| policy(&plan.policies()[base]).short));
        main += &format!(
            "<figure><div class=\"row three\">{maps}</div><figcaption><b>Figure 2.</b> The \
             reduction of p{p} relative to {}, over {} and {}. Blue: lower; orange: higher; gray: \
             one of the two is unstable.{cut}</figcaption></figure>",
            escape(&whom),
            name(x),
            name(y),
        );
    }
    let keys = and(plan.grid().axes().iter().map(|axis| axis.key().to_owned()));
    let policies = and(plan.policies().iter().map(|name| policy(name).short));
    let nothing = if figures.stable.contains(&true) { "" } else { NOTHING };
    let main = format!(
        include_str!("page.html"),
        main = main,
        plan = plan.json().lines().map(escape).collect::<Vec<_>>().join("\n"),
    );
    let points = counted(plan.grid().points(), "point", "points");
    let title = format!("p{p} over {}", escape(&keys));
    let page = Page {
        verb: "sweep",
        title: &title,
        headline: &title,
        more: &format!(r#"<p class="summary">{points}, with {}.{nothing}</p>"#, escape(&policies)),
        main: main.trim_end(),
    };
    let page = page.render();
    Some(Plots { page, picture })
}

impl<'a> View<'a> {
    fn looks(&self) -> Vec<(&'a str, Look)> {
        let policies = self.plan.policies();
        let name = |place: usize| policies.get(place).map(String::as_str);
        looks(policies.iter().map(String::as_str), name(0), name(1))
    }

    fn unit(&self) -> String {
        match &self.figures.unit[..] {
            "1" | "" => String::new(),
            unit => format!(", {unit}"),
        }
    }

    fn value(&self, point: usize, policy: usize) -> Option<f64> {
        self.figures.values[point * self.plan.policies().len() + policy]
    }

    /// Returns the indexes of these points' figures, for all policies.
    fn places<'b>(&self, points: &'b [usize]) -> impl Iterator<Item = usize> + Clone + use<'b> {
        let policies = self.plan.policies().len();
        points.iter().flat_map(move |point| (0..policies).map(move |of| point * policies + of))
    }

    /// Groups the points that differ only in the `varied` axes. Returns at most `MOST_PANELS`
    /// groups, each with the values that its points share, and the total number of groups.
    fn panels(&self, varied: &[usize]) -> (Vec<(String, Vec<usize>)>, usize) {
        let grid = self.plan.grid();
        let mut panels: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        let fixed = |axis: &usize| !varied.contains(axis);
        let counts = grid.axes().iter().map(|axis| axis.values().len()).enumerate();
        let all = counts.filter(|(axis, _)| fixed(axis)).map(|(_, count)| count).product();
        for point in 0..grid.points() {
            let indexes = grid.indexes(point).into_iter().enumerate();
            let common: Vec<usize> =
                indexes.filter(|(axis, _)| fixed(axis)).map(|(_, index)| index).collect();
            match panels.iter().position(|(other, _)| *other == common) {
                Some(panel) => panels[panel].1.push(point),
                None if panels.len() < MOST_PANELS => panels.push((common, vec![point])),
                None => {}
            }
        }
        let named = panels.into_iter().map(|(_, points)| {
            let values = grid.values(points[0]).enumerate().filter(|(axis, _)| fixed(axis));
            let values = values.map(|(_, (key, value))| format!("{key} {value}"));
            (values.collect::<Vec<_>>().join(", "), points)
        });
        (named.collect(), all)
    }

    /// Draws a chart per panel over the first axis, and notes how many panels are left out.
    fn lines(&self) -> (String, String) {
        let (axis, numbers) = &self.axes[0];
        let (panels, all) = self.panels(&[*axis]);
        let scale = Scale::of(numbers);
        let mut xs: Vec<f64> = numbers.iter().map(|&number| scale.to(number)).collect();
        xs.sort_by(f64::total_cmp);
        let mut charts = String::new();
        for (place_of, (common, points)) in panels.iter().enumerate() {
            let looks = self.looks().into_iter().enumerate();
            let lines: Vec<Line<'_>> = looks
                .map(|(of, (policy, look))| {
                    let mut line: Vec<(f64, Option<f64>)> = points
                        .iter()
                        .zip(numbers)
                        .map(|(&point, &number)| (scale.to(number), self.value(point, of)))
                        .collect();
                    line.sort_by(|a, b| a.0.total_cmp(&b.0));
                    let point = |(x, value): (f64, Option<f64>)| {
                        value.map(|value| Point { x, value, sound: true })
                    };
                    Line { policy, look, points: line.into_iter().map(point).collect() }
                })
                .collect();
            let p = self.figures.percentile;
            let name = match &common[..] {
                "" => format!("p{p}{}", self.unit()),
                common => format!("p{p}{} at {common}", self.unit()),
            };
            let key = self.plan.grid().axes()[*axis].key();
            let nothing = self.figures.nothing(self.places(points)).unwrap_or_default();
            let size = match panels.len() {
                1 => Size { class: "alone", ..Size::WIDE },
                _ => Size::SMALL,
            };
            charts += &draw(&Chart {
                caption: Caption {
                    id: format!("lines-{place_of}"),
                    title: format!("{name} over {key}"),
                    description: describe(&lines) + &nothing,
                },
                name: &name,
                unit: "",
                x_name: key,
                x_text: &|x| place(scale.from(x)),
                xs: &xs,
                lines: &lines,
                floor: 0.0,
                most: most(&lines),
                size,
                nothing: &nothing,
            });
        }
        if panels.len() > 1 {
            charts = format!(r#"<div class="row three">{charts}</div>"#);
        }
        (charts, cut(panels.len(), all))
    }

    /// Draws a map per panel and pair of policies over the first two axes, and notes how many are
    /// left out.
    fn maps(&self) -> (String, String) {
        let [(x, columns), (y, rows), ..] = &self.axes[..] else { return Default::default() };
        let (panels, all) = self.panels(&[*x, *y]);
        let policies = self.plan.policies();
        let behind = |&base: &usize| (base + 1..policies.len()).map(move |of| (base, of));
        let pairs: Vec<(usize, usize)> = self.versus.iter().flat_map(behind).collect();
        let short = |place: usize| policy(&policies[place]).short;
        let axes = self.plan.grid().axes();
        let mut maps = String::new();
        let mut drawn = 0;
        for (common, points) in &panels {
            for &(base, of) in &pairs {
                if drawn == MOST_PANELS {
                    break;
                }
                let gain = |point: &usize| {
                    let theirs = self.value(*point, base).filter(|theirs| *theirs > 0.0)?;
                    Some(1.0 - self.value(*point, of)? / theirs)
                };
                // Points are ordered with the last axis varying fastest.
                let row = |row: usize| {
                    let place = |column: usize| column * rows.len() + row;
                    (0..columns.len()).map(|column| gain(&points[place(column)])).collect()
                };
                let gains: Vec<Vec<_>> = (0..rows.len()).map(row).collect();
                let name = match self.versus {
                    [_] => short(of),
                    _ => format!("{} relative to {}", short(of), short(base)),
                };
                let at = if common.is_empty() { String::new() } else { format!(" at {common}") };
                maps += &heat::draw(&Map {
                    caption: Caption {
                        id: format!("map-{drawn}"),
                        title: format!("Gain of {name}{at}"),
                        description: format!("Over {} and {}", axes[*x].key(), axes[*y].key()),
                    },
                    x: (axes[*x].key(), columns),
                    name: &format!("{name}{at}, over {}", axes[*y].key()),
                    y: (axes[*y].key(), rows),
                    values: &gains,
                    word: &whole_percent,
                    shade: &|gain| gain,
                    unknown: "unknown",
                    line: &[],
                    size: Size { width: 312.0, height: 296.0, ..Size::SMALL },
                });
                drawn += 1;
            }
        }
        (maps, cut(drawn, all * pairs.len()))
    }
}

/// A note that not all panels are shown.
fn cut(shown: usize, all: usize) -> String {
    if shown == all {
        return String::new();
    }
    format!(" {shown} of {all} panels are shown; results.csv has all.")
}

/// The scale of an axis.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
}

impl Scale {
    fn of(numbers: &[f64]) -> Self {
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(0.0, f64::max);
        if least > 0.0 && most / least >= WIDE { Self::Log } else { Self::Linear }
    }

    fn to(self, number: f64) -> f64 {
        match self {
            Self::Linear => number,
            Self::Log => number.log10(),
        }
    }

    fn from(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log => 10f64.powf(place),
        }
    }
}

/// The largest value that is drawn on the chart.
fn most(lines: &[Line<'_>]) -> f64 {
    let mut values: Vec<f64> =
        lines.iter().flat_map(|line| line.points.iter().flatten()).map(|p| p.value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).map_or(f64::INFINITY, |median| median * OFF_CHART)
}

/// Describes a chart in words, for screen readers.
fn describe(lines: &[Line<'_>]) -> String {
    let of = |line: &Line<'_>| {
        let values = line.points.iter().flatten().map(|point| three(point.value));
        format!("{}: {}.", policy(line.policy).short, and(values))
    };
    lines.iter().map(of).collect::<Vec<_>>().join(" ")
}
