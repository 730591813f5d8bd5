//! What figures are made of: a bar for each, in parts.

use std::fmt::Write as _;

use super::axes::{Caption, Frame, Scale, axes, open, text};
use super::format::{escape, share, three};
use super::palette::Look;

/// The height of a bar, and the gap to the next, in pixels.
const BAR: (f64, f64) = (24.0, 12.0);

/// A figure and its parts.
pub struct Bar {
    pub name: String,
    /// In one unit, in the order of the names. They add up to the figure.
    pub parts: Vec<f64>,
}

/// Draws the shares of the parts, a bar per figure; its sum stands behind it, in `unit`.
pub fn draw(
    caption: &Caption,
    parts: &[(&str, Look)],
    bars: &[Bar],
    unit: &str,
    (width, class): (f64, &str),
) -> String {
    let height = 28.0 + (BAR.0 + BAR.1) * bars.len() as f64 + 46.0;
    let frame = Frame { width, height, left: 52.0, right: 84.0, top: 28.0, bottom: 46.0 };
    let x = Scale { values: (0.0, 1.0), positions: (frame.left, frame.plot_right()) };
    let ticks: Vec<_> = [0.0, 0.25, 0.5, 0.75, 1.0].map(|at| (x.at(at), share(at))).into();
    let mut svg = open(&frame, caption, class);
    svg += &axes(&frame, &ticks, &[], ("Share of the latency", ""));
    for (row, bar) in bars.iter().enumerate() {
        let top = frame.top + (BAR.0 + BAR.1) * row as f64;
        let middle = top + BAR.0 / 2.0 + 4.0;
        let sum: f64 = bar.parts.iter().sum();
        svg += &text(frame.left - 8.0, middle, "end", "name", &bar.name);
        let mut done = 0.0;
        for ((name, look), part) in parts.iter().zip(&bar.parts) {
            let (from, to) = (
                x.at(done / sum.max(f64::MIN_POSITIVE)),
                x.at((done + part) / sum.max(f64::MIN_POSITIVE)),
            );
            done += part;
            let tip = format!("{name} of {}: {}{unit}", bar.name, three(*part));
            let _ = write!(
                svg,
                r#"<g class="k{}"><title>{}</title><path fill="currentColor" d="M{from:.1} {top:.1}H{to:.1}v{}H{from:.1}Z"/></g>"#,
                look.color,
                escape(&tip),
                BAR.0
            );
        }
        svg += &text(
            frame.plot_right() + 8.0,
            middle,
            "start",
            "tick",
            &format!("{}{unit}", three(sum)),
        );
    }
    svg + "</svg>"
}
