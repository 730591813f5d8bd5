//! The frame of a plot: its position, scales, grid and labels.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::number::escape;

/// The height of a row of text above a plot.
pub(super) const ROW_HEIGHT: f64 = 15.0;

/// The size of a chart, in CSS pixels before scaling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    pub width: f64,
    pub height: f64,
    pub class: &'static str,
    /// The suffix of the ids on the page.
    pub suffix: &'static str,
}

impl Size {
    pub const WIDE: Size = Size { width: 960.0, height: 400.0, class: "wide", suffix: "" };
    pub const NARROW: Size =
        Size { width: 344.0, height: 320.0, class: "narrow", suffix: "-narrow" };
    /// For one of several charts that are shown side by side.
    pub const SMALL: Size = Size { width: 320.0, height: 300.0, class: "small", suffix: "" };

    /// Whether the chart is for phones.
    pub fn is_narrow(self) -> bool {
        self.width < 500.0
    }
}

/// The size of an SVG and the margins of its plot, in CSS pixels before scaling.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    pub(super) fn plot_right(&self) -> f64 {
        self.width - self.right
    }

    /// Adds room for rows of text above the plot.
    pub(super) fn with_rows(self, rows: usize) -> Frame {
        let more = if rows == 0 { 0.0 } else { 10.0 + ROW_HEIGHT * rows as f64 };
        Frame { top: self.top + more, height: self.height + more, ..self }
    }

    pub(super) fn plot_bottom(&self) -> f64 {
        self.height - self.bottom
    }

    /// Draws grid lines with their labels, the axes and their names. The name of the y axis is
    /// written horizontally above it.
    pub(super) fn axes(&self, x: Side<'_>, y: Side<'_>) -> String {
        let (left, right, bottom) = (self.left, self.plot_right(), self.plot_bottom());
        let mut svg = String::from("<g aria-hidden=\"true\">");
        for (at, label) in y.ticks {
            let _ = write!(svg, r#"<path class="grid" d="M{left:.1} {at:.1}H{right:.1}"/>"#);
            svg += &text(left - 8.0, at + 4.0, "end", "tick", label);
        }
        for (at, label) in x.ticks {
            let _ = write!(svg, r#"<path class="axis" d="M{at:.1} {bottom:.1}v5"/>"#);
            svg += &text(*at, bottom + 19.0, "middle", "tick", label);
        }
        let _ = write!(svg, r#"<path class="axis" d="M{left:.1} {bottom:.1}H{right:.1}"/>"#);
        svg += &text((left + right) / 2.0, bottom + 38.0, "middle", "name", x.name);
        svg += &text(2.0, 14.0, "start", "name", y.name);
        svg + "</g>"
    }
}

/// A tick: its position and its text.
pub type Tick = (f64, String);

/// What is written along an axis. The positions of the ticks are in pixels.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) name: &'a str,
    pub(super) ticks: &'a [Tick],
}

/// Maps values to positions, linearly.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub values: (f64, f64),
    pub positions: (f64, f64),
}

impl Scale {
    pub fn at(self, value: f64) -> f64 {
        let part = (value - self.values.0) / (self.values.1 - self.values.0);
        self.positions.0 + part * (self.positions.1 - self.positions.0)
    }
}

/// The smallest and the largest of some numbers; `None` if there are none.
pub fn bounds(numbers: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    Some((numbers.clone().min_by(f64::total_cmp)?, numbers.max_by(f64::total_cmp)?))
}

/// Returns a round step that divides `span` into about `parts` parts.
fn step(span: f64, parts: f64) -> f64 {
    let rough = span / parts;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough)
}

/// Returns round values from `low` to the first that is not below `high`: the ticks of an axis that
/// covers both.
pub fn ticks(low: f64, high: f64, parts: f64) -> Vec<f64> {
    if !(high - low).is_finite() || high <= low {
        return vec![low, low + 1.0];
    }
    let step = step(high - low, parts);
    let count = ((high - low) / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|i| low + i as f64 * step).collect()
}

/// The id, title and description of a chart, for screen readers and tooltips.
#[derive(Clone, Debug, Default)]
pub struct Caption {
    /// The id, which must be unique on the page.
    pub id: String,
    pub title: String,
    pub description: String,
}

impl Caption {
    /// A caption for one of the sizes of a chart.
    pub fn new(
        id: impl AsRef<str>,
        size: Size,
        title: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        let id = format!("{}{}", id.as_ref(), size.suffix);
        Self { id, title: title.into(), description: description.into() }
    }
}

/// Begins an SVG, which the caller ends with `</svg>`.
pub(super) fn begin(frame: &Frame, caption: &Caption, class: &str) -> String {
    let Caption { id, title, description } = caption;
    let (width, height) = (frame.width, frame.height);
    format!(
        r#"<svg class="plot {class}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{id}-title {id}-desc" xmlns="http://www.w3.org/2000/svg"><title id="{id}-title">{}</title><desc id="{id}-desc">{}</desc>"#,
        escape(title),
        escape(description)
    )
}

/// Draws text at a point. `anchor` has the same values as in SVG: `start`, `middle`, `end`.
pub fn text(x: f64, y: f64, anchor: &str, class: &str, text: &str) -> String {
    let text = escape(text);
    format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#)
}

/// Moves ascending positions apart until each is at least `gap` from the next, within the bounds if
/// there is room.
pub fn spread(positions: &mut [f64], gap: f64, bounds: RangeInclusive<f64>) {
    for i in 1..positions.len() {
        positions[i] = positions[i].max(positions[i - 1] + gap);
    }
    let mut limit = *bounds.end();
    for position in positions.iter_mut().rev() {
        *position = position.min(limit);
        limit = *position - gap;
    }
    // Some positions may now be below the lower bound. Move them up, starting at the bound.
    let mut limit = *bounds.start();
    for position in positions.iter_mut() {
        *position = position.max(limit);
        limit = *position + gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover() {
        assert_eq!(ticks(0.0, 180.0, 5.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(1.0, 2.0, 4.0), [1.0, 1.25, 1.5, 1.75, 2.0]);
        assert_eq!(ticks(3.0, 3.0, 4.0), [3.0, 4.0]);
    }

    #[test]
    fn labels_do_not_overlap() {
        let mut at = [10.0, 11.0, 50.0, 99.0, 100.0];
        spread(&mut at, 14.0, 0.0..=100.0);
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 14.0), "{at:?}");
        assert!(at[0] >= 0.0 && at[4] <= 100.0, "{at:?}");
    }
}
