//! Charts of curves through many points, and of many dots with a curve to compare them with.
//!
//! Values are positions on an axis. For a logarithmic axis, the caller passes logarithms.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::frame::{Caption, Frame, Scale, Side, Size, Tick, begin, text, ticks};
use crate::number::escape;
use crate::number::{share, tick};
use crate::policy::Look;

/// Minimum distance between drawn points, in pixels.
const RESOLUTION: f64 = 0.7;

/// Charts narrower than this, in pixels, are for phones.
const NARROW: f64 = 500.0;

/// A curve.
pub struct Curve {
    /// The name that the tooltip shows.
    pub name: String,
    pub look: Look,
    /// Positions on the axes, with ascending x. A curve that leaves the chart at the right edge
    /// gets an arrow.
    pub points: Vec<(f64, f64)>,
}

/// An axis.
pub struct Axis {
    pub name: String,
    /// The values at the left and right ends, or at the bottom and top.
    pub ends: (f64, f64),
    /// The positions of ticks, with their labels.
    pub ticks: Vec<Tick>,
}

impl Axis {
    /// A linear axis from `low` to the first round tick that covers `high`.
    pub fn linear(name: &str, low: f64, high: f64) -> Self {
        let ticks = ticks(low, high, 5.0);
        let top = ticks.last().copied().unwrap_or(low + 1.0);
        let ticks = ticks.into_iter().map(|value| (value, tick(value))).collect();
        Self { name: name.to_owned(), ends: (low, top), ticks }
    }

    /// A linear axis that ends at `high`.
    pub fn until(name: &str, low: f64, high: f64) -> Self {
        let mut axis = Self::linear(name, low, high);
        axis.ends.1 = high;
        axis.ticks.retain(|(at, _)| *at <= high);
        axis
    }

    /// A logarithmic axis (base 10) for positive values from `low` to `high`, on a chart of
    /// `pixels` pixels.
    pub fn log(name: &str, low: f64, high: f64, pixels: f64) -> Self {
        let most = if pixels < NARROW { 5 } else { 9 };
        let (low, high) = (low.log10(), high.log10());
        let ends = if high - low < 0.2 { (low - 0.1, high + 0.1) } else { (low, high) };
        let decades = (ends.0.floor() as i32)..=(ends.1.ceil() as i32);
        let of = |factors: &[f64]| {
            let all = decades.clone().flat_map(|decade| {
                factors.iter().map(move |factor| factor.log10() + f64::from(decade))
            });
            let inside = all.filter(|at| *at >= ends.0 - 1e-9 && *at <= ends.1 + 1e-9);
            inside.map(|at| (at, tick(10f64.powf(at)))).collect::<Vec<_>>()
        };
        let fine = of(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let coarser = [of(&[1.0, 2.0, 5.0]), of(&[1.0, 3.0]), of(&[1.0])];
        let fit = [fine].into_iter().chain(coarser).find(|ticks| ticks.len() <= most);
        let ticks = fit.unwrap_or_else(|| {
            let decades = of(&[1.0]);
            let every = decades.len().div_ceil(most);
            decades.into_iter().step_by(every).collect()
        });
        Self { name: name.to_owned(), ends, ticks }
    }

    /// Returns a logarithmic axis (base 10) for shares from `smallest` up to 1.
    pub fn shares_above(name: &str, smallest: f64) -> Self {
        let lowest = smallest.min(0.1).log10() - 0.1;
        let tick = |decade: i32| (f64::from(-decade), share(10f64.powi(-decade)));
        let ticks = (0..=(-lowest) as i32).map(tick).collect();
        Self { name: name.to_owned(), ends: (lowest, 0.0), ticks }
    }

    /// Returns the percentiles at the ticks of [`Self::shares_above`], as labels of the other side.
    pub fn percentiles(&self) -> Vec<Tick> {
        const NAMES: [&str; 6] = ["", "", "p99", "p99.9", "p99.99", "p99.999"];
        let named = self.ticks.iter().zip(NAMES);
        named.map(|((at, _), name)| (*at, name.to_owned())).collect()
    }
}

/// A chart of curves.
pub struct Curves<'a> {
    pub caption: Caption,
    pub x: Axis,
    pub y: Axis,
    /// Labels at the right edge, with their positions on the y axis.
    pub right: &'a [Tick],
    /// The first curve is drawn on top.
    pub curves: &'a [Curve],
    pub size: Size,
}

/// Draws a chart.
pub fn draw(chart: &Curves<'_>) -> String {
    let right = if chart.right.is_empty() { 14.0 } else { 48.0 };
    let (mut svg, frame, x, y) =
        begin_with(&chart.caption, chart.size, [60.0, right], &chart.x, &chart.y);
    for (place, name) in chart.right {
        svg += &text(frame.plot_right() + 4.0, y.at(*place) + 4.0, "start", "tick", name);
    }
    for curve in chart.curves.iter().rev() {
        svg += &line(curve, x, y);
    }
    svg + "</svg>"
}

/// Begins a chart with its axes, and returns their scales.
fn begin_with(
    caption: &Caption,
    size: Size,
    [left, right]: [f64; 2],
    x_axis: &Axis,
    y_axis: &Axis,
) -> (String, Frame, Scale, Scale) {
    let Size { width, height, class, .. } = size;
    let frame = Frame { width, height, left, right, top: 28.0, bottom: 46.0 };
    let x = Scale { values: x_axis.ends, positions: (frame.left, frame.plot_right()) };
    let y = Scale { values: y_axis.ends, positions: (frame.plot_bottom(), frame.top) };
    let places = |axis: &Axis, scale: Scale| -> Vec<Tick> {
        axis.ticks.iter().map(|(value, text)| (scale.at(*value), text.clone())).collect()
    };
    let (x_ticks, y_ticks) = (places(x_axis, x), places(y_axis, y));
    let x_side = Side { name: &x_axis.name, ticks: &x_ticks };
    let axes = frame.axes(x_side, Side { name: &y_axis.name, ticks: &y_ticks });
    (begin(&frame, caption, class) + &axes, frame, x, y)
}

/// Draws a curve, clipped at the right edge.
fn line(curve: &Curve, x: Scale, y: Scale) -> String {
    let at = |point: &(f64, f64)| (x.at(point.0), y.at(point.1));
    let Some(first) = curve.points.first() else { return String::new() };
    let mut last = at(first);
    let mut path = format!("M{:.1} {:.1}", last.0, last.1);
    let mut leaves = None;
    for (i, point) in curve.points.iter().enumerate().skip(1) {
        let next = at(point);
        if next.0 > x.positions.1 + RESOLUTION {
            let part = (x.positions.1 - last.0) / (next.0 - last.0);
            let at = last.1 + part * (next.1 - last.1);
            let _ = write!(path, "L{:.1} {at:.1}", x.positions.1);
            leaves = Some(at);
            break;
        }
        let far = (next.0 - last.0).abs() + (next.1 - last.1).abs() >= RESOLUTION;
        if far || i + 1 == curve.points.len() {
            let _ = write!(path, "L{:.1} {:.1}", next.0, next.1);
            last = next;
        }
    }
    let mut svg = format!(
        r#"<g class="k{}"><title>{}</title><path d="{path}" {}/>"#,
        curve.look.color,
        escape(&curve.name),
        curve.look.stroke()
    );
    if let Some(at) = leaves {
        let _ = write!(
            svg,
            r#"<path class="head" d="M0 0L-9 4.5L-9 -4.5Z" transform="translate({:.1} {at:.1})"/>"#,
            x.positions.1
        );
    } else {
        // One marker at the end of a line is enough to identify the line without color.
        let _ = write!(svg, r#"<path class="mark" d="{}"/>"#, curve.look.marker(last.0, last.1));
    }
    svg + "</g>"
}

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
    pub size: Size,
}

/// Draws the chart, and omits dots outside the axes. Dots in the same place are drawn once. Cost:
/// O(n log n) for n dots.
pub fn draw_dots(chart: &Dots<'_>) -> String {
    /// The side of a dot, in pixels.
    const SIDE: f64 = 2.0;
    /// Dots are rounded to a grid of this size, in pixels.
    const GRID: f64 = 0.5;
    let (mut svg, _, x, y) =
        begin_with(&chart.caption, chart.size, [52.0, 14.0], &chart.x, &chart.y);
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
    use crate::policy::look;

    #[test]
    fn a_logarithmic_axis_has_round_ticks_that_fit() {
        let texts = |low, high| {
            let axis = Axis::log("", low, high, 960.0);
            axis.ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(texts(1.0, 10.0), ["1", "2", "5", "10"]);
        assert_eq!(texts(0.04, 3.0), ["0.05", "0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(texts(0.01, 100.0), ["0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30", "100"]);
        assert_eq!(Axis::log("", 0.04, 3.0, 344.0).ticks.len(), 4, "0.1, 0.3, 1, and 3");
        for (low, high) in [(1e-3, 1e9), (2.0, 2.0), (2.1, 2.4), (1e-9, 1e30)] {
            let ticks = texts(low, high);
            assert!(!ticks.is_empty() && ticks.len() <= 9, "{low} to {high}: {ticks:?}");
        }
    }

    #[test]
    fn shares_are_named_by_their_percentiles() {
        let axis = Axis::shares_above("", 0.0005);
        let of =
            |ticks: &[(f64, String)]| ticks.iter().map(|tick| tick.1.clone()).collect::<Vec<_>>();
        assert_eq!(of(&axis.ticks), ["100\u{a0}%", "10\u{a0}%", "1\u{a0}%", "0.1\u{a0}%"]);
        assert_eq!(of(&axis.percentiles()), ["", "", "p99", "p99.9"]);
    }

    #[test]
    fn dots_outside_are_left_out_and_equal_ones_drawn_once() {
        let chart = Dots {
            caption: Caption::default(),
            x: Axis::linear("x", 0.0, 10.0),
            y: Axis::log("y", 1.0, 100.0, 400.0),
            dots: &[(1.0, 1.0), (1.0, 1.0), (5.0, 2.0), (5.0, -1.0), (11.0, 1.0)],
            of_dots: ("J < P", look(3)),
            line: &[(0.0, 0.5), (10.0, 1.5)],
            of_line: ("P", look(1)),
            size: Size { width: 400.0, ..Size::SMALL },
        };
        let svg = draw_dots(&chart);
        assert_eq!(svg.matches("h2v2h-2z").count(), 2, "{svg}");
        assert!(svg.contains("<title>J &lt; P</title>"), "{svg}");
        assert!(svg.ends_with("</svg>"));
    }
}
