//! Draws curves through many points, for distributions and for changes over time.
//!
//! Values are positions on an axis. For a logarithmic axis, the caller passes logarithms.

use std::fmt::Write as _;

use super::axes::{Caption, Frame, Scale, axes, open, text, ticks};
use super::format::{escape, share, tick};
use super::palette::Look;

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
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis from `low` to the first round tick that covers `high`.
    pub fn linear(name: &str, low: f64, high: f64) -> Self {
        let ticks = ticks(low, high, 5.0);
        let top = ticks.last().copied().unwrap_or(low + 1.0);
        let ticks = ticks.into_iter().map(|value| (value, tick(value))).collect();
        Self { name: name.to_owned(), ends: (low, top), ticks }
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

    /// Returns a logarithmic axis (base 10) for shares from `smallest` up to 1, and the percentiles
    /// as labels.
    pub fn shares_above(name: &str, smallest: f64) -> (Self, Vec<(f64, String)>) {
        const NAMES: [&str; 6] = ["", "", "p99", "p99.9", "p99.99", "p99.999"];
        let lowest = smallest.min(0.1).log10() - 0.1;
        let decades = || 0..=(-lowest) as i32;
        let ticks = decades().map(|decade| (f64::from(-decade), share(10f64.powi(-decade))));
        let named =
            decades().zip(NAMES).map(|(decade, name)| (f64::from(-decade), name.to_owned()));
        let axis = Self { name: name.to_owned(), ends: (lowest, 0.0), ticks: ticks.collect() };
        (axis, named.collect())
    }
}

/// A chart of curves.
pub struct Curves<'a> {
    pub caption: Caption,
    pub x: Axis,
    pub y: Axis,
    /// Labels at the right edge, with their positions on the y axis.
    pub right: &'a [(f64, String)],
    /// The first curve is drawn on top.
    pub curves: &'a [Curve],
    /// Width and height, in pixels.
    pub size: (f64, f64),
}

/// Draws a chart.
pub fn draw(chart: &Curves<'_>, class: &str) -> String {
    let (width, height) = chart.size;
    let right = if chart.right.is_empty() { 14.0 } else { 48.0 };
    let frame = Frame { width, height, left: 60.0, right, top: 28.0, bottom: 46.0 };
    let (mut svg, x, y) = begin(&frame, &chart.caption, (&chart.x, &chart.y), class);
    for (place, name) in chart.right {
        svg += &text(frame.plot_right() + 4.0, y.at(*place) + 4.0, "start", "tick", name);
    }
    for curve in chart.curves.iter().rev() {
        svg += &line(curve, x, y);
    }
    svg + "</svg>"
}

/// Begins a chart with its axes, and returns their scales.
pub fn begin(
    frame: &Frame,
    caption: &Caption,
    (x_axis, y_axis): (&Axis, &Axis),
    class: &str,
) -> (String, Scale, Scale) {
    let x = Scale { values: x_axis.ends, positions: (frame.left, frame.plot_right()) };
    let y = Scale { values: y_axis.ends, positions: (frame.plot_bottom(), frame.top) };
    let places = |axis: &Axis, scale: Scale| {
        let ticks = axis.ticks.iter();
        ticks.map(|(value, text)| (scale.at(*value), text.clone())).collect::<Vec<_>>()
    };
    let names = (x_axis.name.as_str(), y_axis.name.as_str());
    let axes = axes(frame, &places(x_axis, x), &places(y_axis, y), names);
    (open(frame, caption, class) + &axes, x, y)
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let (axis, names) = Axis::shares_above("", 0.0005);
        let of =
            |ticks: &[(f64, String)]| ticks.iter().map(|tick| tick.1.clone()).collect::<Vec<_>>();
        assert_eq!(of(&axis.ticks), ["100\u{a0}%", "10\u{a0}%", "1\u{a0}%", "0.1\u{a0}%"]);
        assert_eq!(of(&names), ["", "", "p99", "p99.9"]);
    }
}
