//! Charts with a row per name: bars side by side, stacked bars, and strips of colored cells.

use std::fmt::Write as _;

use super::curves::Axis;
use super::frame::{Caption, Frame, Scale, Side, Size, Tick, begin, text, ticks};
use crate::number::escape;
use crate::number::{share, three, tick};
use crate::policy::Look;

/// A chart in progress. Its height depends on the number of rows, not on its size.
struct Rows {
    svg: String,
    frame: Frame,
    x: Scale,
    /// The distance between the tops of two rows.
    step: f64,
}

impl Rows {
    /// Begins a chart with its axes. `margins` are the widths of the names and of what follows the
    /// rows, `step` is the distance between the tops of two rows, and `above` is the text above them.
    fn begin(
        caption: &Caption,
        size: Size,
        margins: [f64; 2],
        rows: usize,
        step: f64,
        x_axis: &Axis,
        above: &str,
    ) -> Self {
        let height = 28.0 + step * rows as f64 + 46.0;
        let [left, right] = margins;
        let frame = Frame { width: size.width, height, left, right, top: 28.0, bottom: 46.0 };
        let x = Scale { values: x_axis.ends, positions: (frame.left, frame.plot_right()) };
        let ticks = x_axis.ticks.iter().map(|(value, text)| (x.at(*value), text.clone()));
        let ticks: Vec<Tick> = ticks.collect();
        let x_side = Side { name: &x_axis.name, ticks: &ticks };
        let svg = begin(&frame, caption, size.class);
        let svg = svg + &frame.axes(x_side, Side { name: above, ticks: &[] });
        Self { svg, frame, x, step }
    }

    /// Writes a name, with its center at `middle` below the top of its row. Returns the top.
    fn name(&mut self, row: usize, middle: f64, name: &str) -> f64 {
        let top = self.frame.top + self.step * row as f64;
        self.svg += &text(self.frame.left - 8.0, top + middle + 4.0, "end", "name", name);
        top
    }

    fn bar(&mut self, look: Look, [from, to]: [f64; 2], y: f64, height: f64, tip: &str) {
        let (color, tip) = (look.color, escape(tip));
        let (from, to) = (self.x.at(from), self.x.at(to));
        let _ = write!(
            self.svg,
            r#"<g class="k{color}"><title>{tip}</title><path fill="currentColor" d="M{from:.1} {y:.1}H{to:.1}v{height}H{from:.1}Z"/></g>"#
        );
    }
}

/// The bars for one name.
pub struct Bars {
    pub name: String,
    /// The values, in the order of the figures.
    pub values: Vec<f64>,
    /// The interval of the first value.
    pub interval: Option<[f64; 2]>,
}

/// Draws shares as bars, with several figures per name, side by side. The first figure has an
/// interval. `left` is the width of the names, in pixels.
pub fn bars(
    caption: &Caption,
    figures: &[(&str, Look)],
    all: &[Bars],
    x_name: &str,
    left: f64,
    size: Size,
) -> String {
    /// The height of a bar.
    const BAR: f64 = 13.0;
    let ends = all.iter().flat_map(|of| of.values.iter().chain(of.interval.iter().flatten()));
    let ends = ends.copied().filter(|end| end.is_finite());
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    // Zero is a tick, and negative ticks have the same spacing. A value barely below zero needs no
    // negative tick.
    let low = if low > -0.01 * high { 0.0 } else { low };
    let right = ticks(0.0, high.max(-low).max(0.01), if size.is_narrow() { 3.0 } else { 5.0 });
    let below: Vec<f64> =
        right.iter().skip(1).map(|tick| -tick).take_while(|_| low < 0.0).collect();
    let first = below.iter().position(|&tick| tick <= low).map_or(0, |last| last + 1);
    let ticks: Vec<f64> = below[..first].iter().rev().chain(&right).copied().collect();
    let whole = BAR * figures.len() as f64;
    let x_axis = Axis {
        name: x_name.to_owned(),
        ends: (ticks[0], ticks[ticks.len() - 1]),
        ticks: ticks.into_iter().map(|at| (at, share(at))).collect(),
    };
    let mut rows = Rows::begin(caption, size, [left, 24.0], all.len(), whole + 10.0, &x_axis, "");
    for (row, bars) in all.iter().enumerate() {
        let top = rows.name(row, whole / 2.0, &bars.name);
        let values = figures.iter().zip(&bars.values).enumerate();
        for (nth, ((name, look), value)) in values.filter(|(_, (_, value))| value.is_finite()) {
            let tip = format!("{name} of {}: {}", bars.name, share(*value));
            rows.bar(*look, [0.0, *value], top + BAR * nth as f64, BAR - 1.0, &tip);
        }
        if let Some(ends) = bars.interval {
            let ([low, high], y) = (ends.map(|end| rows.x.at(end)), top + BAR / 2.0 - 0.5);
            let (above, below) = (y - 3.0, y + 3.0);
            let _ = write!(
                rows.svg,
                r#"<path fill="none" stroke="var(--ink)" d="M{low:.1} {y:.1}H{high:.1}M{low:.1} {above:.1}V{below:.1}M{high:.1} {above:.1}V{below:.1}"/>"#
            );
        }
    }
    rows.svg + "</svg>"
}

/// A figure and its parts.
pub struct Stack {
    pub name: String,
    /// The parts, in the order of their names and all in the same unit. Their sum is the figure.
    pub parts: Vec<f64>,
}

/// How the lengths of stacked bars are chosen, and the name of the axis.
#[derive(Clone, Copy)]
pub enum Length<'a> {
    /// All bars have the same length, so they show shares.
    Shares(&'a str),
    /// The length of a bar is proportional to its figure.
    Sums(&'a str),
}

/// Draws one stacked bar per figure, followed by the sum of its parts in `unit`.
pub fn stacks(
    caption: &Caption,
    parts: &[(&str, Look)],
    stacks: &[Stack],
    length: Length<'_>,
    unit: &str,
    size: Size,
) -> String {
    /// The height of a bar.
    const BAR: f64 = 24.0;
    let longest = stacks.iter().map(|stack| stack.parts.iter().sum()).fold(0.0, f64::max);
    let (ticks, name) = match length {
        Length::Shares(name) => {
            ([0.0, 0.25, 0.5, 0.75, 1.0].map(|at| (at, share(at))).into(), name)
        }
        Length::Sums(name) => {
            let ticks = ticks(0.0, longest, if size.is_narrow() { 3.0 } else { 6.0 });
            (ticks.into_iter().map(|at| (at, tick(at))).collect::<Vec<_>>(), name)
        }
    };
    let ends = (0.0, ticks.last().map_or(1.0, |tick| tick.0));
    let x_axis = Axis { name: name.to_owned(), ends, ticks };
    let margins = [52.0, 84.0];
    let mut rows = Rows::begin(caption, size, margins, stacks.len(), BAR + 12.0, &x_axis, "");
    for (row, stack) in stacks.iter().enumerate() {
        let top = rows.name(row, BAR / 2.0, &stack.name);
        let sum: f64 = stack.parts.iter().sum();
        let whole = match length {
            Length::Shares(_) => sum.max(f64::MIN_POSITIVE),
            Length::Sums(_) => 1.0,
        };
        let mut done = 0.0;
        for ((name, look), part) in parts.iter().zip(&stack.parts) {
            let tip = format!("{name} of {}: {}{unit}", stack.name, three(*part));
            rows.bar(*look, [done / whole, (done + part) / whole], top, BAR, &tip);
            done += part;
        }
        let (end, sum) = (rows.frame.plot_right() + 8.0, format!("{}{unit}", three(sum)));
        rows.svg += &text(end, top + BAR / 2.0 + 4.0, "start", "tick", &sum);
    }
    rows.svg + "</svg>"
}

/// A strip: its name, and one value per column.
pub struct Strip {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// Draws strips of cells that are darker for larger values. A column extends from its start on the
/// axis to the start of the next column. The last column extends to the end of the axis. `unit` is
/// the unit of the values, and `left` is the width of the names in pixels.
pub fn strips(
    caption: &Caption,
    x_axis: &Axis,
    starts: &[f64],
    strips: &[Strip],
    unit: &str,
    left: f64,
    size: Size,
) -> String {
    /// The height of a strip.
    const ROW: f64 = 22.0;
    let values = strips.iter().flat_map(|strip| strip.values.iter().flatten()).copied();
    let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let above = format!("darkest: {}{unit}", three(most));
    let mut rows = Rows::begin(caption, size, [left, 14.0], strips.len(), ROW, x_axis, &above);
    for (row, strip) in strips.iter().enumerate() {
        let top = rows.name(row, ROW / 2.0, &strip.name);
        for (column, value) in strip.values.iter().enumerate() {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let from = rows.x.at(starts[column]);
            let end = rows.frame.plot_right();
            let to = starts.get(column + 1).map_or(end, |next| rows.x.at(*next));
            let opacity = if most > 0.0 { 0.04 + 0.9 * value.max(0.0) / most } else { 0.04 };
            let tip = escape(&format!("{}: {}{unit}", strip.name, three(value)));
            let (width, height) = ((to - from).max(0.5), ROW - 1.0);
            let _ = write!(
                rows.svg,
                r#"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{height}" fill="var(--k1)" fill-opacity="{opacity:.2}"><title>{tip}</title></rect>"#
            );
        }
    }
    rows.svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::look;

    fn wide(width: f64) -> Size {
        Size { width, ..Size::WIDE }
    }

    #[test]
    fn bars_start_at_zero_and_may_be_negative() {
        let bars = |name: &str, values: [f64; 2], interval| Bars {
            name: name.to_owned(),
            values: values.into(),
            interval,
        };
        let all = [bars("a<b", [0.75, f64::NAN], Some([0.5, 1.0])), bars("c", [-0.25, 0.5], None)];
        let figures = [("variance", look(1)), ("mean", look(6))];
        let svg = super::bars(&Caption::default(), &figures, &all, "Share", 100.0, wide(224.0));
        // The axis maps -0.5 to 100 and 1 to 200.
        assert!(svg.contains("M133.3 28.0H183.3") && svg.contains("M133.3 64.0H116.7"), "{svg}");
        assert!(svg.contains("M166.7 34.0H200.0"), "the interval: {svg}");
        assert!(svg.contains("variance of a&lt;b") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn stacks_are_as_long_as_each_other_or_as_their_figures() {
        let parts = [("read", look(1)), ("write", look(2))];
        let of = |name: &str, parts: [f64; 2]| Stack { name: name.to_owned(), parts: parts.into() };
        let all = [of("fast", [1.0, 1.0]), of("slow", [1.0, 3.0])];
        let drawn = |length| stacks(&Caption::default(), &parts, &all, length, " ms", wide(236.0));
        // The bars are from 52 to 152, so 100 pixels wide.
        let (shares, sums) = (drawn(Length::Shares("share")), drawn(Length::Sums("time")));
        for (svg, words) in [
            (&shares, ["M102.0 28.0H152.0", "M77.0 64.0H152.0"]),
            (&sums, ["M77.0 28.0H102.0", "M77.0 64.0H152.0"]),
            (&sums, ["write of slow: 3.00 ms", "read of fast"]),
        ] {
            assert!(words.iter().all(|word| svg.contains(word)), "{svg}");
        }
    }

    #[test]
    fn the_largest_value_is_the_darkest_and_unknown_ones_are_left_out() {
        let all = [
            Strip { name: "read".to_owned(), values: vec![Some(1.0), None, Some(2.0)] },
            Strip { name: "write".to_owned(), values: vec![Some(0.0), Some(f64::NAN), Some(1.0)] },
        ];
        let (axis, starts) = (Axis::linear("s", 0.0, 10.0), [0.0, 5.0, 8.0]);
        let svg = strips(&Caption::default(), &axis, &starts, &all, " ms", 100.0, wide(214.0));
        assert_eq!(svg.matches("<rect").count(), 4, "{svg}");
        assert!(svg.contains(r#"x="180.0" y="28.0" width="20.0""#), "{svg}");
        assert_eq!(svg.matches(r#"fill-opacity="0.94""#).count(), 1, "{svg}");
        assert!(svg.contains("darkest: 2.00 ms") && !svg.contains("NaN"), "{svg}");
    }
}
