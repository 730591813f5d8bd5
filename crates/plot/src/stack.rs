//! Draws stacked bars, each of which shows the parts of a figure as shares or as absolute values.

use std::fmt::Write as _;

use super::axes::{Caption, Frame, Scale, axes, open, text, ticks};
use super::format::{escape, share, three, tick};
use super::palette::Look;

/// The height of a bar and the gap to the next one, in pixels.
const BAR: (f64, f64) = (24.0, 12.0);

/// A figure and its parts.
pub struct Bar {
    pub name: String,
    /// The parts, in the order of their names and all in the same unit. Their sum is the figure.
    pub parts: Vec<f64>,
}

/// How the lengths of the bars are chosen.
#[derive(Clone, Copy)]
pub enum Length<'a> {
    /// All bars have the same length, so they show shares. The value is the name of the axis.
    Shares(&'a str),
    /// The length of a bar is proportional to its figure. The value is the name of the axis.
    Sums(&'a str),
}

/// Draws one bar per figure, followed by the sum of its parts in `unit`.
pub fn draw(
    caption: &Caption,
    parts: &[(&str, Look)],
    bars: &[Bar],
    (length, unit): (Length<'_>, &str),
    (width, class): (f64, &str),
) -> String {
    let height = 28.0 + (BAR.0 + BAR.1) * bars.len() as f64 + 46.0;
    let frame = Frame { width, height, left: 52.0, right: 84.0, top: 28.0, bottom: 46.0 };
    let scale = |end| Scale { values: (0.0, end), positions: (frame.left, frame.plot_right()) };
    let (x, ticks, name) = match length {
        Length::Shares(name) => {
            let x = scale(1.0);
            let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|at| (x.at(at), share(at)));
            (x, ticks.to_vec(), name)
        }
        Length::Sums(name) => {
            let longest = bars.iter().map(|bar| bar.parts.iter().sum()).fold(0.0, f64::max);
            let ticks = ticks(0.0, longest, if width < 500.0 { 3.0 } else { 6.0 });
            let x = scale(ticks.last().copied().unwrap_or(1.0));
            (x, ticks.into_iter().map(|at| (x.at(at), tick(at))).collect(), name)
        }
    };
    let mut svg = open(&frame, caption, class);
    svg += &axes(&frame, &ticks, &[], (name, ""));
    for (row, bar) in bars.iter().enumerate() {
        let top = frame.top + (BAR.0 + BAR.1) * row as f64;
        let middle = top + BAR.0 / 2.0 + 4.0;
        let sum: f64 = bar.parts.iter().sum();
        svg += &text(frame.left - 8.0, middle, "end", "name", &bar.name);
        let whole = match length {
            Length::Shares(_) => sum.max(f64::MIN_POSITIVE),
            Length::Sums(_) => 1.0,
        };
        let mut done = 0.0;
        for ((name, look), part) in parts.iter().zip(&bar.parts) {
            let (from, to) = (x.at(done / whole), x.at((done + part) / whole));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::look;

    #[test]
    fn bars_are_as_long_as_each_other_or_as_their_figures() {
        let caption = || Caption { id: "x".into(), title: "t".into(), description: "d".into() };
        let parts = [("read", look(1)), ("write", look(2))];
        let bar = |name: &str, parts: [f64; 2]| Bar { name: name.to_owned(), parts: parts.into() };
        let bars = [bar("fast", [1.0, 1.0]), bar("slow", [1.0, 3.0])];
        let drawn = |length| draw(&caption(), &parts, &bars, (length, " ms"), (236.0, "wide"));
        // The bars are from 52 to 152, so 100 pixels wide.
        let shares = drawn(Length::Shares("share"));
        assert!(
            shares.contains("M102.0 28.0H152.0") && shares.contains("M77.0 64.0H152.0"),
            "{shares}"
        );
        let sums = drawn(Length::Sums("time"));
        assert!(sums.contains("M77.0 28.0H102.0") && sums.contains("M77.0 64.0H152.0"), "{sums}");
        assert!(sums.contains("write of slow: 3.00 ms"), "{sums}");
    }
}
