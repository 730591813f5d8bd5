//! The figures: the share of packets that took longer, on logarithmic scales, as in Figures 3.2 and
//! 3.3 of document 000.

use curtail_load::{Histogram, SAMPLES_ABOVE_MIN};

use crate::flow::nanoseconds;
use crate::function::{Function, Subject};
use crate::method::Method;
use crate::processors::Configuration;
use crate::run::Results;
use curtail_report::chart::curves::{Axis, Curve, Curves, draw};
use curtail_report::chart::frame::{Caption, Size};
use curtail_report::policy::{Look, look};

/// A picture with several distributions.
pub(super) struct Figure {
    /// The file name without extension, unique in a page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) lines: Vec<(String, Look, Histogram<u64>)>,
}

/// The sources of measurements: the taps (`None`) and the methods. The most precise one comes first,
/// because it is drawn on top.
const SOURCES: [Option<Method>; 5] =
    [None, Some(Method::Kernel), Some(Method::Xdp), Some(Method::Software), Some(Method::Blocking)];

fn name(source: Option<Method>) -> &'static str {
    source.map_or("taps", Method::name)
}

/// Returns the latencies that the taps measured, of the packets of all methods.
pub(super) fn tapped(results: &Results, subject: Subject) -> Histogram<u64> {
    let mut all = nanoseconds();
    results.of(subject).for_each(|cell| all += &cell.all.tapped);
    all
}

/// Returns a line with the latencies of a subject, unless there are too few.
fn line(
    results: &Results,
    subject: Subject,
    source: Option<Method>,
    name: &str,
    color: usize,
) -> Option<(String, Look, Histogram<u64>)> {
    let of = match source {
        Some(method) => results.cell(subject, method)?.all.measured.clone(),
        None => tapped(results, subject),
    };
    (of.len() >= 2 * SAMPLES_ABOVE_MIN).then(|| (name.to_owned(), look(color), of))
}

/// Returns all figures that are not empty.
pub(super) fn all(results: &Results) -> Vec<Figure> {
    let switch = |(color, source): (usize, Option<Method>)| {
        line(results, Subject::switch(false), source, name(source), color)
    };
    let mut all = vec![Figure {
        id: "switch-ccdf".to_owned(),
        title: "The switch, measured by the taps and by each method: share of slower packets"
            .to_owned(),
        lines: SOURCES.into_iter().enumerate().filter_map(switch).collect(),
    }];
    for antagonist in [false, true] {
        for function in [Function::Sockets, Function::Xdp] {
            all.extend(SOURCES.map(|by| configurations(results, function, antagonist, by)));
        }
    }
    all.retain(|figure| !figure.lines.is_empty());
    all
}

/// Returns the figure that shows all configurations of a function as one source measured them, with
/// the switch for comparison.
fn configurations(
    results: &Results,
    function: Function,
    antagonist: bool,
    by: Option<Method>,
) -> Figure {
    let subjects = Subject::all_of(function, antagonist).into_iter().rev().zip(1..);
    let of = |(subject, color): (Subject, usize)| {
        let name = subject.configuration.map_or("", Configuration::name);
        line(results, subject, by, name, color)
    };
    let mut lines: Vec<_> = subjects.filter_map(of).collect();
    lines.extend(line(results, Subject::switch(antagonist), by, "switch", 0));
    let (beside, with) =
        if antagonist { ("-antagonist", ", with an antagonist") } else { ("", "") };
    let (function, source) = (function.name(), name(by));
    let method = if by.is_some() { "method " } else { "" };
    Figure {
        id: format!("{function}{beside}-{source}-ccdf"),
        title: format!(
            "The function on {function}{with}, measured by the {method}{source}: share of slower \
             packets"
        ),
        lines,
    }
}

impl Figure {
    pub(super) fn draw(&self, size: Size) -> String {
        let points: Vec<Vec<(f64, f64)>> = self.lines.iter().map(|(.., of)| points(of)).collect();
        let all = || points.iter().flatten();
        let low = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = all().map(|point| point.0).fold(low, f64::max);
        let smallest = all().map(|point| point.1).fold(1.0, f64::min);
        let y = Axis::shares_above("Share of slower packets", smallest);
        let right = y.percentiles();
        let curve = |((name, look, _), points): (&(String, Look, _), &Vec<(f64, f64)>)| Curve {
            name: name.clone(),
            look: *look,
            points: points.iter().map(|(micros, share)| (micros.log10(), share.log10())).collect(),
        };
        let curves: Vec<Curve> = self.lines.iter().zip(&points).map(curve).collect();
        let names = self.lines.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>();
        let about = format!("Lines: {}.", names.join(", "));
        let caption = Caption::new(&self.id, size, &self.title, about);
        let x = Axis::log("Latency, µs", low, high, size.width);
        draw(&Curves { caption, x, y, right: &right, curves: &curves, size })
    }
}

/// Returns points (µs, share above). Shares of too few packets are left out.
fn points(of: &Histogram<u64>) -> Vec<(f64, f64)> {
    let mut above = of.len();
    let start = of.min_nz().min(of.max()).max(1) as f64 / 1e3;
    let mut points = vec![(start, 1.0)];
    for bucket in of.iter_recorded() {
        above -= bucket.count_since_last_iteration();
        let micros = bucket.value_iterated_to().min(of.max()).max(1) as f64 / 1e3;
        if above >= SAMPLES_ABOVE_MIN {
            points.push((micros, above as f64 / of.len() as f64));
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
        let tail = points(&of);
        assert_eq!(tail.first().map(|point| point.1), Some(1.0));
        assert_eq!(tail.last().map(|point| point.1), Some(0.01));
        let lines = vec![("taps".to_owned(), look(0), of)];
        let figure = Figure { id: "x".to_owned(), title: "y".to_owned(), lines };
        let svg = figure.draw(Size::WIDE);
        assert!(svg.contains("Latency, µs") && svg.contains("<title>taps</title>"), "{svg}");
    }
}
