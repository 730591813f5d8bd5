//! Draws heat maps over two axes, with a colored cell per pair of values.

use std::fmt::Write as _;

use super::frame::{Caption, Frame, Side, Size, begin, text};
use crate::number::escape;

/// A heat map.
pub struct Map<'a> {
    pub caption: Caption,
    /// The heading above the map.
    pub name: &'a str,
    pub x: (&'a str, &'a [f64]),
    pub y: (&'a str, &'a [f64]),
    /// The rows, from the bottom up, one per value of y. `None` stands for an unknown value.
    pub values: &'a [Vec<Option<f64>>],
    /// Formats a value.
    pub word: &'a dyn Fn(f64) -> String,
    /// The shade of a value, from -1 to 1: blue above 0, orange below 0, and stronger toward the
    /// ends.
    pub shade: &'a dyn Fn(f64) -> f64,
    /// The meaning of an unknown value.
    pub unknown: &'a str,
    /// A line over the cells, in units of columns and rows, which are numbered from 0. Whole
    /// numbers refer to the centers of cells.
    pub line: &'a [(f64, f64)],
    pub size: Size,
}

/// Minimum width and height, in pixels, of a cell that shows its value.
const WRITTEN: (f64, f64) = (40.0, 16.0);

/// The start of the line's SVG path.
const LINE: &str = r#"<path fill="none" stroke="var(--ink)" stroke-width="2" d="M"#;

/// The distance between legend entries, in pixels.
const LEGEND_WIDTH: f64 = 108.0;

/// Minimum distance between ticks along x and y, in pixels.
const TICKS: (f64, f64) = (41.0, 32.0);

pub fn draw(map: &Map<'_>) -> String {
    let Size { width, height, class, .. } = map.size;
    let frame = Frame { width, height, left: 56.0, right: 8.0, top: 28.0, bottom: 72.0 };
    let width = (frame.plot_right() - frame.left) / map.x.1.len() as f64;
    let height = (frame.plot_bottom() - frame.top) / map.y.1.len() as f64;
    let x = |column: f64| frame.left + width * (column + 0.5);
    let y = |row: f64| frame.plot_bottom() - height * (row + 0.5);
    let ticks = |places: &[f64], size: f64, gap: f64, at: &dyn Fn(f64) -> f64| -> Vec<_> {
        let every = (gap / size).ceil().max(1.0) as usize;
        let ticks = places.iter().enumerate().step_by(every);
        ticks.map(|(tick, value)| (at(tick as f64), place(*value))).collect()
    };
    let x_ticks = ticks(map.x.1, width, TICKS.0, &x);
    let y_ticks = ticks(map.y.1, height, TICKS.1, &y);
    let mut svg = begin(&frame, &map.caption, class);
    let x_side = Side { name: map.x.0, ticks: &x_ticks };
    svg += &frame.axes(x_side, Side { name: map.name, ticks: &y_ticks });
    for (row, values) in map.values.iter().enumerate() {
        for (column, value) in values.iter().enumerate() {
            let (left, top) = (x(column as f64) - width / 2.0, y(row as f64) - height / 2.0);
            let [at_x, at_y] = [place(map.x.1[column]), place(map.y.1[row])];
            let word = escape(&value.map_or_else(|| map.unknown.to_owned(), map.word));
            let tip = escape(&format!("{} {at_x}, {} {at_y}: ", map.x.0, map.y.0));
            let fill = fill(value.map(map.shade));
            let _ = write!(
                svg,
                r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" {fill}><title>{tip}{word}</title></rect>"#
            );
            if value.is_some() && width >= WRITTEN.0 && height >= WRITTEN.1 {
                let (x, y) = (left + width / 2.0, top + height / 2.0 + 4.0);
                let _ = write!(
                    svg,
                    r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" class="name" aria-hidden="true">{word}</text>"#
                );
            }
        }
    }
    for (at, &(column, row)) in map.line.iter().enumerate() {
        let command = if at == 0 { LINE } else { "L" };
        let _ = write!(svg, "{command}{:.1} {:.1}", x(column), y(row));
    }
    svg += if map.line.is_empty() { "" } else { r#""/>"# };
    svg + &legend(map, frame.height) + "</svg>"
}

/// The color of a shade.
fn fill(shade: Option<f64>) -> String {
    let Some(shade) = shade else { return r#"fill="var(--faint)""#.to_owned() };
    let color = if shade >= 0.0 { 1 } else { 3 };
    let opacity = (shade.abs() * 0.85).clamp(0.04, 0.85);
    format!(r#"fill="var(--k{color})" fill-opacity="{opacity:.2}""#)
}

/// Draws the legend, with the colors of the smallest value, the largest value and unknown values.
fn legend(map: &Map<'_>, bottom: f64) -> String {
    let all = || map.values.iter().flatten();
    let known = || all().flatten().copied();
    let entry = |value: f64, word| (Some(value), format!("{word} {}", (map.word)(value)));
    let least = known().min_by(f64::total_cmp).map(|value| entry(value, "least"));
    let most = known().max_by(f64::total_cmp).map(|value| entry(value, "most"));
    let gray = all().any(Option::is_none).then(|| (None, map.unknown.to_owned()));
    let mut svg = String::from("<g class=\"legend\">");
    for (at, (value, words)) in [least, most, gray].into_iter().flatten().enumerate() {
        let (x, y) = (2.0 + LEGEND_WIDTH * at as f64, bottom - 14.0);
        let fill = fill(value.map(map.shade));
        let _ = write!(
            svg,
            r#"<rect x="{x:.1}" y="{y:.1}" width="12" height="12" stroke="var(--rule)" {fill}/>"#
        );
        svg += &text(x + 17.0, y + 10.5, "start", "tick", &words);
    }
    svg + "</g>"
}

/// Formats an axis value in a short form.
pub fn place(number: f64) -> String {
    let short: f64 = format!("{number:.2e}").parse().unwrap_or(number);
    let short = if number.fract() == 0.0 { number } else { short };
    let is_tiny = short != 0.0 && short.abs() < 1e-3;
    if is_tiny || short.abs() >= 1e6 { format!("{short:e}") } else { short.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::whole_percent;

    fn drawn(values: &[Vec<Option<f64>>], line: &[(f64, f64)]) -> String {
        let places = &[1.0, 2.0][..];
        draw(&Map {
            caption: Caption::default(),
            name: "LÆDGE",
            x: ("p", places),
            y: ("d", places),
            values,
            word: &whole_percent,
            shade: &|value| value,
            unknown: "not known",
            line,
            size: Size { width: 312.0, height: 296.0, ..Size::SMALL },
        })
    }

    #[test]
    fn the_legend_has_the_colors_of_the_smallest_and_the_largest_value() {
        let map = drawn(&[vec![Some(-0.2), Some(0.4)], vec![Some(0.1), None]], &[]);
        let (cells, legend) = map.split_once("legend").expect("a legend");
        for (value, words) in
            [(Some(-0.2), "least −20\u{a0}%"), (Some(0.4), "most 40\u{a0}%"), (None, "not known")]
        {
            assert!(legend.contains(words), "{legend}");
            assert!(cells.contains(&fill(value)) && legend.contains(&fill(value)), "{legend}");
        }
        let unknown = drawn(&vec![vec![None; 2]; 2], &[]);
        assert!(!unknown.contains("least") && unknown.contains("not known"), "{unknown}");
    }

    #[test]
    fn a_line_goes_through_the_middles_of_cells() {
        let values = vec![vec![Some(0.5); 2]; 2];
        assert!(!drawn(&values, &[]).contains(LINE));
        // Cells are 124 wide and 98 high. The plot is from 56 to 304 and from 28 to 224.
        let map = drawn(&values, &[(0.0, 1.0), (1.0, 0.0), (1.0, -0.5)]);
        assert!(map.contains(r#" d="M118.0 77.0L242.0 175.0L242.0 224.0"/>"#), "{map}");
    }
}
