//! The figures of `curtail jitter`, which are Figures 6.1 and 6.2 of document 000 drawn from this
//! measurement.

use curtail_jitter::{self as jitter, Ccdf, Executions, View};

use super::result::Found;
use crate::plot::axes::Caption;
use crate::plot::curves::{Axis, Curve, Curves, draw};
use crate::plot::dots::{self, Dots};
use crate::plot::format::three;
use crate::plot::palette::{Look, look};

/// The number of points in a curve, and the number of dots and of line points in a panel.
const CURVE_POINTS: usize = 400;
const DOTS: usize = 3_000;
/// Maximum number of classes with their own curves and panels. Only the most frequent ones are
/// shown, because more would be indistinguishable.
pub(super) const CLASSES: usize = 6;
/// The axis omits this share of the shortest times, because a J of 0 has no logarithm.
const LEFT_OUT: f64 = 0.05;
/// The size, class and id suffix of a figure, as in [`crate::plot::FIGURE_SIZES`].
type Size = (f64, f64, &'static str, &'static str);
/// A figure that is shown next to others.
const SMALL: Size = (320.0, 300.0, "small", "");

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
    pub(super) fn components(&self, (width, height, class, end): Size) -> Option<String> {
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
        chart(&format!("components{end}"), title, &curves, (width, height, class, end))
    }

    /// The curves of one part for all queries and for each class, as in a panel of Figure 6.1.
    pub(super) fn by_class(&self, (name, _, id, of): &Part) -> Option<String> {
        let whole = self.executions.all().ccdf(CURVE_POINTS);
        let mut curves = vec![curve("all", look(0), of(&whole))];
        for (at, class, look) in self.classes() {
            let ccdf = self.executions.class(at)?.ccdf(CURVE_POINTS);
            curves.push(curve(&class, look, of(&ccdf)));
        }
        let title = format!("Share of {name} above a given time, by class");
        chart(&format!("classes-{id}"), &title, &curves, SMALL)
    }

    /// Figure 6.2, which shows J of all executions, with the queries ordered by P.
    pub(super) fn ranked(&self, size: Size) -> Option<String> {
        let title = "J of executions, by query in order of P";
        self.panel(self.executions.all(), &format!("ranked{}", size.3), title, size)
    }

    /// One panel of Figure 6.2, which shows J of the executions of a class.
    pub(super) fn ranked_class(&self, at: usize, name: &str) -> Option<String> {
        let title = format!("J of executions of {name}, by query in order of P");
        let (width, height, class, end) = SMALL;
        let size = (width * 1.5, height, class, end);
        self.panel(self.executions.class(at)?, &format!("ranked-{at}"), &title, size)
    }

    fn panel(
        &self,
        view: View<'_>,
        id: &str,
        title: &str,
        (width, height, class, _): Size,
    ) -> Option<String> {
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
        let mut x = Axis::linear("Queries, in order of P", 0.0, last);
        x.ends.1 = last.max(1.0);
        x.ticks.retain(|(at, _)| *at <= x.ends.1 && at.fract() == 0.0);
        let chart = Dots {
            caption: Caption {
                id: id.to_owned(),
                title: title.to_owned(),
                description: format!("{} queries, {} executions.", last, dots.len()),
            },
            x,
            y: Axis::log("ms", 10f64.powf(low), 10f64.powf(high), width),
            dots: &dots,
            of_dots: ("J of an execution", look(PARTS[1].1)),
            line: &line,
            of_line: ("P of the query", look(PARTS[0].1)),
            size: (width, height),
        };
        Some(dots::draw(&chart, class))
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

fn chart(
    id: &str,
    title: &str,
    curves: &[Curve],
    (width, height, class, _): Size,
) -> Option<String> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let low = all().map(|point| point.0).min_by(f64::total_cmp)?;
    let high = all().map(|point| point.0).max_by(f64::total_cmp)?;
    let smallest = all().map(|point| point.1).fold(0.0, f64::min);
    let (y, right) = Axis::shares_above("Share at or above this time", 10f64.powf(smallest));
    let about = curves.iter().filter_map(|curve| {
        let longest = 10f64.powf(curve.points.last()?.0);
        Some(format!("{}: at most {} ms.", curve.name, three(longest)))
    });
    let caption = Caption {
        id: id.to_owned(),
        title: title.to_owned(),
        description: about.collect::<Vec<_>>().join(" "),
    };
    let x = Axis::log("Time, ms", 10f64.powf(low), 10f64.powf(high), width);
    let size = (width, height);
    Some(draw(&Curves { caption, x, y, right: &right, curves, size }, class))
}
