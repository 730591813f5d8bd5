//! Draws charts with many dots, which are single measurements, and a curve to compare them with.
//!
//! Dots in the same place are drawn once. Cost: O(n log n) for n dots.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::axes::{Caption, Frame};
use super::curves::{Axis, begin};
use super::format::escape;
use super::palette::Look;

/// The side of a dot, in pixels.
const SIDE: f64 = 2.0;
/// Dots are rounded to a grid of this size, in pixels.
const GRID: f64 = 0.5;

/// A chart of dots. Values are positions on the axes, so on a logarithmic axis they are logarithms.
pub struct Dots<'a> {
    pub caption: Caption,
    pub x: Axis,
    pub y: Axis,
    pub dots: &'a [(f64, f64)],
    /// The tooltip and the color of the dots.
    pub of_dots: (&'a str, Look),
    /// Points with ascending x.
    pub line: &'a [(f64, f64)],
    pub of_line: (&'a str, Look),
    /// Width and height, in pixels.
    pub size: (f64, f64),
}

/// Draws the chart, and omits dots outside the axes.
pub fn draw(chart: &Dots<'_>, class: &str) -> String {
    let (width, height) = chart.size;
    let frame = Frame { width, height, left: 52.0, right: 14.0, top: 28.0, bottom: 46.0 };
    let (mut svg, x, y) = begin(&frame, &chart.caption, (&chart.x, &chart.y), class);

    let inside = |ends: (f64, f64), value: f64| ends.0 <= value && value <= ends.1;
    let shown =
        chart.dots.iter().filter(|dot| inside(chart.x.ends, dot.0) && inside(chart.y.ends, dot.1));
    let cell = |at: f64| (at / GRID).round() as i64;
    let cells: BTreeSet<(i64, i64)> =
        shown.map(|dot| (cell(x.at(dot.0)), cell(y.at(dot.1)))).collect();
    let mut path = String::new();
    for (column, row) in cells {
        let [left, top] = [column, row].map(|at| at as f64 * GRID - SIDE / 2.0);
        let _ = write!(path, "M{left} {top}h{SIDE}v{SIDE}h-{SIDE}z");
    }
    let (name, look) = chart.of_dots;
    let _ = write!(
        svg,
        r#"<g class="k{}" fill-opacity=".55"><title>{}</title><path fill="currentColor" d="{path}"/></g>"#,
        look.color,
        escape(name)
    );
    let mut path = String::new();
    for (at, point) in chart.line.iter().enumerate() {
        let command = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x.at(point.0), y.at(point.1));
    }
    let (name, look) = chart.of_line;
    let _ = write!(
        svg,
        r#"<g class="k{}"><title>{}</title><path d="{path}" {}/></g>"#,
        look.color,
        escape(name),
        look.stroke()
    );
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::look;

    #[test]
    fn dots_outside_are_left_out_and_equal_ones_drawn_once() {
        let chart = Dots {
            caption: Caption { id: "x".into(), title: "t".into(), description: "d".into() },
            x: Axis::linear("x", 0.0, 10.0),
            y: Axis::log("y", 1.0, 100.0, 400.0),
            dots: &[(1.0, 1.0), (1.0, 1.0), (5.0, 2.0), (5.0, -1.0), (11.0, 1.0)],
            of_dots: ("J < P", look(3)),
            line: &[(0.0, 0.5), (10.0, 1.5)],
            of_line: ("P", look(1)),
            size: (400.0, 300.0),
        };
        let svg = draw(&chart, "wide");
        assert_eq!(svg.matches("h2v2h-2z").count(), 2, "{svg}");
        assert!(svg.contains("<title>J &lt; P</title>"), "{svg}");
        assert!(svg.ends_with("</svg>"));
    }
}
