//! Bar charts with several figures per name, side by side. The first figure has an interval.

use std::fmt::Write as _;

use super::axes::{Caption, Frame, Scale, axes, open, text, ticks};
use super::format::{escape, share};
use super::palette::Look;

/// The height of a bar, and the gap to the next name, in pixels.
const BAR: (f64, f64) = (13.0, 10.0);

/// The bars for one name.
pub struct Bars {
    pub name: String,
    /// The values, in the order of the figures.
    pub values: Vec<f64>,
    /// The interval of the first value.
    pub interval: Option<[f64; 2]>,
}

/// Draws a bar chart of shares. `left` is the width of the names, in pixels.
pub fn draw(
    caption: &Caption,
    figures: &[(&str, Look)],
    all: &[Bars],
    x_name: &str,
    (width, left, class): (f64, f64, &str),
) -> String {
    let step = BAR.0 * figures.len() as f64 + BAR.1;
    let height = 28.0 + step * all.len() as f64 + 46.0;
    let frame = Frame { width, height, left, right: 24.0, top: 28.0, bottom: 46.0 };
    let ends = all.iter().flat_map(|of| of.values.iter().chain(of.interval.iter().flatten()));
    let ends = ends.copied().filter(|end| end.is_finite());
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    // Zero is a tick, and negative ticks have the same spacing. A value barely below zero needs no
    // negative tick.
    let low = if low > -0.01 * high { 0.0 } else { low };
    let parts = if width < 500.0 { 3.0 } else { 5.0 };
    let right = ticks(0.0, high.max(-low).max(0.01), parts);
    let left: Vec<f64> = right.iter().skip(1).map(|tick| -tick).take_while(|_| low < 0.0).collect();
    let first = left.iter().position(|&tick| tick <= low).map_or(0, |last| last + 1);
    let ticks: Vec<f64> = left[..first].iter().rev().chain(&right).copied().collect();
    let ends = (ticks[0], ticks[ticks.len() - 1]);
    let x = Scale { values: ends, positions: (frame.left, frame.plot_right()) };
    let ticks: Vec<_> = ticks.into_iter().map(|at| (x.at(at), share(at))).collect();
    let mut svg = open(&frame, caption, class) + &axes(&frame, &ticks, &[], (x_name, ""));
    for (row, bars) in all.iter().enumerate() {
        let top = frame.top + step * row as f64;
        let middle = top + BAR.0 * figures.len() as f64 / 2.0 + 4.0;
        svg += &text(frame.left - 8.0, middle, "end", "name", &bars.name);
        for (nth, ((name, look), value)) in figures.iter().zip(&bars.values).enumerate() {
            if !value.is_finite() {
                continue;
            }
            let (y, from, to) = (top + BAR.0 * nth as f64, x.at(0.0), x.at(*value));
            let tip = escape(&format!("{name} of {}: {}", bars.name, share(*value)));
            let (height, color) = (BAR.0 - 1.0, look.color);
            let _ = write!(
                svg,
                r#"<g class="k{color}"><title>{tip}</title><path fill="currentColor" d="M{from:.1} {y:.1}H{to:.1}v{height}H{from:.1}Z"/></g>"#
            );
        }
        if let Some([low, high]) = bars.interval {
            let (low, high, y) = (x.at(low), x.at(high), top + BAR.0 / 2.0 - 0.5);
            let (above, below) = (y - 3.0, y + 3.0);
            let _ = write!(
                svg,
                r#"<path fill="none" stroke="var(--ink)" d="M{low:.1} {y:.1}H{high:.1}M{low:.1} {above:.1}V{below:.1}M{high:.1} {above:.1}V{below:.1}"/>"#
            );
        }
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::look;

    #[test]
    fn bars_start_at_zero_and_may_be_negative() {
        let caption = Caption { id: "x".into(), title: "t".into(), description: "d".into() };
        let bars = |name: &str, values: [f64; 2], interval| Bars {
            name: name.to_owned(),
            values: values.into(),
            interval,
        };
        let all = [bars("a<b", [0.75, f64::NAN], Some([0.5, 1.0])), bars("c", [-0.25, 0.5], None)];
        let figures = [("variance", look(1)), ("mean", look(6))];
        let svg = draw(&caption, &figures, &all, "Share", (224.0, 100.0, "wide"));
        // The axis maps -0.5 to 100 and 1 to 200.
        assert!(svg.contains("M133.3 28.0H183.3") && svg.contains("M133.3 64.0H116.7"), "{svg}");
        assert!(svg.contains("M166.7 34.0H200.0"), "the interval: {svg}");
        assert!(svg.contains("variance of a&lt;b") && !svg.contains("NaN"), "{svg}");
    }
}
