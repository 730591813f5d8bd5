//! The figures: the share of packets that took longer, on logarithmic scales, as in Figures 3.2 and
//! 3.3 of document 000.

use curtail_load::{Histogram, SAMPLES_ABOVE_MIN};

use crate::function::{Function, Subject};
use crate::method::Method;
use crate::processors::Configuration;
use crate::run::Results;
use crate::slice::nanoseconds;
use curtail_plot::axes::Caption;
use curtail_plot::curves::{Axis, Curve, Curves, draw};
use curtail_plot::format::share;
use curtail_plot::palette::{Look, look};

/// The width and height of a picture, its class, and the suffix of its id.
pub(super) type Size = (f64, f64, &'static str, &'static str);

/// The size of a picture in its own file.
pub(super) const ALONE: Size = (960.0, 400.0, "wide", "");

/// A picture with several distributions.
pub(super) struct Figure {
    /// The file name without extension, unique in a page.
    pub(super) id: String,
    pub(super) title: String,
    /// Whether the figure shows the share above a latency instead of the share at or below it.
    above: bool,
    pub(super) lines: Vec<(String, Look, Histogram<u64>)>,
}

/// The source of a measurement: the taps or a method.
#[derive(Clone, Copy)]
enum By {
    Taps,
    Method(Method),
}

impl By {
    /// The most precise source comes first, because it is drawn on top.
    const ALL: [Self; 5] = [
        Self::Taps,
        Self::Method(Method::Kernel),
        Self::Method(Method::Xdp),
        Self::Method(Method::Software),
        Self::Method(Method::Blocking),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Taps => "taps",
            Self::Method(method) => method.name(),
        }
    }

    /// Returns the latencies of a subject. Those of the taps cover the packets of all methods.
    fn of(self, results: &Results, subject: Subject) -> Option<Histogram<u64>> {
        let all = match self {
            Self::Method(method) => results.cell(subject, method)?.sum(|s| &s.measured),
            Self::Taps => {
                let mut all = nanoseconds();
                for cell in Method::ALL.into_iter().filter_map(|m| results.cell(subject, m)) {
                    all.add(cell.sum(|s| &s.tapped)).expect("they have the same bounds");
                }
                all
            }
        };
        (all.len() >= 2 * SAMPLES_ABOVE_MIN).then_some(all)
    }
}

fn switch(antagonist: bool) -> Subject {
    Subject { function: Function::Switch, configuration: None, antagonist }
}

/// Returns all figures that are not empty.
pub(super) fn all(results: &Results) -> Vec<Figure> {
    let mut all = Vec::new();
    for above in [false, true] {
        let (id, title) = if above {
            (
                "switch-ccdf",
                "The switch, measured by the taps and by each method: share of slower packets",
            )
        } else {
            (
                "switch-cdf",
                "The switch, measured by the taps and by each method: share of packets not slower",
            )
        };
        let line = |(color, by): (usize, By)| {
            Some((by.name().to_owned(), look(color), by.of(results, switch(false))?))
        };
        let lines = By::ALL.into_iter().enumerate().filter_map(line).collect();
        all.push(Figure { id: id.to_owned(), title: title.to_owned(), above, lines });
    }
    for antagonist in [false, true] {
        for function in [Function::Sockets, Function::Xdp] {
            all.extend(By::ALL.map(|by| configurations(results, function, antagonist, by)));
        }
    }
    all.retain(|figure| !figure.lines.is_empty());
    all
}

/// Returns the figure that shows all configurations of a function as one source measured them, with
/// the switch for comparison.
fn configurations(results: &Results, function: Function, antagonist: bool, by: By) -> Figure {
    let (name, beside) = (function.name(), if antagonist { "-antagonist" } else { "" });
    let line = |(color, configuration): (usize, Configuration)| {
        let subject = Subject { function, configuration: Some(configuration), antagonist };
        Some((configuration.name().to_owned(), look(color), by.of(results, subject)?))
    };
    let order = Configuration::ALL.into_iter().rev().zip(1..);
    let mut lines: Vec<_> = order.filter_map(|(of, color)| line((color, of))).collect();
    if let Some(of) = by.of(results, switch(antagonist)) {
        lines.push(("switch".to_owned(), look(0), of));
    }
    let with = if antagonist { ", with an antagonist" } else { "" };
    Figure {
        id: format!("{name}{beside}-{}-ccdf", by.name()),
        title: format!(
            "The function on {name}{with}, measured by the {}: share of slower packets",
            match by {
                By::Taps => "taps".to_owned(),
                By::Method(method) => format!("method {method}"),
            }
        ),
        above: true,
        lines,
    }
}

impl Figure {
    pub(super) fn draw(&self, (width, height, class, end): Size) -> String {
        let points: Vec<Vec<(f64, f64)>> =
            self.lines.iter().map(|(_, _, of)| points(of, self.above)).collect();
        let all = || points.iter().flatten();
        let low = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = all().map(|point| point.0).fold(low, f64::max);
        let (y, right) = if self.above {
            let smallest = all().map(|point| point.1).fold(1.0, f64::min);
            Axis::shares_above("Share of slower packets", smallest)
        } else {
            let mut y = Axis::linear("Share of packets not slower", 0.0, 1.0);
            y.ticks.iter_mut().for_each(|(value, text)| *text = share(*value));
            (y, Vec::new())
        };
        let place = |(micros, share): (f64, f64)| {
            (micros.log10(), if self.above { share.log10() } else { share })
        };
        let curve = |((name, look, _), points): (&(String, Look, _), &Vec<(f64, f64)>)| Curve {
            name: name.clone(),
            look: *look,
            points: points.iter().copied().map(place).collect(),
        };
        let curves: Vec<Curve> = self.lines.iter().zip(&points).map(curve).collect();
        let names = self.lines.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>();
        let caption = Caption {
            id: format!("{}{end}", self.id),
            title: self.title.clone(),
            description: format!("Lines: {}.", names.join(", ")),
        };
        let x = Axis::log("Latency, µs", low, high, width);
        draw(
            &Curves { caption, x, y, right: &right, curves: &curves, size: (width, height) },
            class,
        )
    }
}

/// Returns points (µs, share). Shares of too few packets are left out.
fn points(of: &Histogram<u64>, above: bool) -> Vec<(f64, f64)> {
    let all = of.len();
    let mut below = 0;
    let start = of.min_nz().min(of.max()).max(1) as f64 / 1e3;
    let mut points = vec![(start, if above { 1.0 } else { 0.0 })];
    for bucket in of.iter_recorded() {
        below += bucket.count_since_last_iteration();
        let micros = bucket.value_iterated_to().min(of.max()).max(1) as f64 / 1e3;
        let part = if above { all - below } else { below };
        if !above || part >= SAMPLES_ABOVE_MIN {
            points.push((micros, part as f64 / all as f64));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_ends_where_ten_packets_are_left() {
        let mut of = nanoseconds();
        (1..=1_000_u64).for_each(|us| of.record(us * 1_000).expect("in range"));
        let tail = points(&of, true);
        assert_eq!(tail.first().map(|point| point.1), Some(1.0));
        assert_eq!(tail.last().map(|point| point.1), Some(0.01));
        assert_eq!(points(&of, false).last().map(|point| point.1), Some(1.0));
        let figure = Figure {
            id: "x".to_owned(),
            title: "y".to_owned(),
            above: true,
            lines: vec![("taps".to_owned(), look(0), of)],
        };
        let svg = figure.draw(ALONE);
        assert!(svg.contains("Latency, µs") && svg.contains("<title>taps</title>"), "{svg}");
    }
}
