//! A map of two axes: how much lower a percentile is than that of the first policy.

use std::fmt::Write as _;

use crate::plot::axes::{Caption, Frame, axes, open, text};
use crate::plot::format::{escape, whole_percent};

/// A map. `gains` has a row per y.
pub(super) struct Map<'a> {
    pub(super) caption: Caption,
    /// What stands above it.
    pub(super) name: &'a str,
    pub(super) x: (&'a str, &'a [f64]),
    pub(super) y: (&'a str, &'a [f64]),
    pub(super) gains: Vec<Vec<Option<f64>>>,
}

/// Beyond so many columns the cells have no room for their figures.
const MOST_WRITTEN: usize = 6;

/// How far apart the entries of the legend are.
const LEGEND_WIDTH: f64 = 108.0;

/// The most ticks that an axis has room for.
const MOST_TICKS: usize = 6;

pub(super) fn draw(map: &Map<'_>) -> String {
    let frame =
        Frame { width: 312.0, height: 296.0, left: 56.0, right: 8.0, top: 28.0, bottom: 72.0 };
    let (columns, rows) = (map.x.1.len(), map.y.1.len());
    let width = (frame.plot_right() - frame.left) / columns as f64;
    let height = (frame.plot_bottom() - frame.top) / rows as f64;
    let x = |column: usize| frame.left + width * column as f64;
    let y = |row: usize| frame.plot_bottom() - height * (row + 1) as f64;
    let every = |count: usize| count.div_ceil(MOST_TICKS).max(1);
    let x_ticks = (0..columns).step_by(every(columns));
    let x_ticks: Vec<_> = x_ticks.map(|at| (x(at) + width / 2.0, place(map.x.1[at]))).collect();
    let y_ticks = (0..rows).step_by(every(rows));
    let y_ticks: Vec<_> = y_ticks.map(|at| (y(at) + height / 2.0, place(map.y.1[at]))).collect();
    let mut svg = open(&frame, &map.caption, "small");
    svg += &axes(&frame, &x_ticks, &y_ticks, (map.x.0, map.name));
    for (row, gains) in map.gains.iter().enumerate() {
        for (column, gain) in gains.iter().enumerate() {
            let (left, top) = (x(column), y(row));
            let [at_x, at_y] = [place(map.x.1[column]), place(map.y.1[row])];
            let told = gain.map_or_else(|| "not known".to_owned(), whole_percent);
            let tip = escape(&format!("{} {at_x}, {} {at_y}: {told}", map.x.0, map.y.0));
            let fill = fill(*gain);
            let _ = write!(
                svg,
                r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" {fill}><title>{tip}</title></rect>"#
            );
            if gain.is_some() && columns <= MOST_WRITTEN && rows <= 2 * MOST_WRITTEN {
                let (x, y) = (left + width / 2.0, top + height / 2.0 + 4.0);
                let _ = write!(
                    svg,
                    r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" class="name" aria-hidden="true">{told}</text>"#
                );
            }
        }
    }
    svg + &legend(map, frame.height) + "</svg>"
}

/// The color of a gain.
fn fill(gain: Option<f64>) -> String {
    let Some(gain) = gain else { return r#"fill="var(--faint)""#.to_owned() };
    let color = if gain >= 0.0 { 1 } else { 3 };
    let opacity = (gain.abs() * 0.85).clamp(0.04, 0.85);
    format!(r#"fill="var(--k{color})" fill-opacity="{opacity:.2}""#)
}

/// What colors mean: those of the smallest and of the largest gain, and of what is not known.
fn legend(map: &Map<'_>, bottom: f64) -> String {
    let all = || map.gains.iter().flatten();
    let known = || all().flatten().copied();
    let least = known().min_by(f64::total_cmp).map(|gain| (Some(gain), "least"));
    let most = known().max_by(f64::total_cmp).map(|gain| (Some(gain), "most"));
    let gray = all().any(Option::is_none).then_some((None, "not known"));
    let mut svg = String::from("<g class=\"legend\">");
    for (at, (gain, word)) in [least, most, gray].into_iter().flatten().enumerate() {
        let (x, y, fill) = (2.0 + LEGEND_WIDTH * at as f64, bottom - 14.0, fill(gain));
        let _ = write!(
            svg,
            r#"<rect x="{x:.1}" y="{y:.1}" width="12" height="12" stroke="var(--rule)" {fill}/>"#
        );
        let told = gain.map_or(String::new(), |gain| format!(" {}", whole_percent(gain)));
        svg += &text(x + 17.0, y + 10.5, "start", "tick", &format!("{word}{told}"));
    }
    svg + "</g>"
}

/// A value of an axis, short.
pub(super) fn place(number: f64) -> String {
    let short: f64 = format!("{number:.2e}").parse().unwrap_or(number);
    let short = if number.fract() == 0.0 { number } else { short };
    let is_tiny = short != 0.0 && short.abs() < 1e-3;
    if is_tiny || short.abs() >= 1e6 { format!("{short:e}") } else { short.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(gains: Vec<Vec<Option<f64>>>) -> String {
        let caption =
            Caption { id: "map".into(), title: String::new(), description: String::new() };
        let places = &[1.0, 2.0][..];
        draw(&Map { caption, name: "LÆDGE", x: ("p", places), y: ("d", places), gains })
    }

    #[test]
    fn the_legend_has_the_colors_of_the_smallest_and_the_largest_gain() {
        let map = drawn(vec![vec![Some(-0.2), Some(0.4)], vec![Some(0.1), None]]);
        let (cells, legend) = map.split_once("legend").expect("a legend");
        for (gain, words) in
            [(Some(-0.2), "least −20\u{a0}%"), (Some(0.4), "most 40\u{a0}%"), (None, "not known")]
        {
            assert!(legend.contains(words), "{legend}");
            assert!(cells.contains(&fill(gain)) && legend.contains(&fill(gain)), "{legend}");
        }
        let unknown = drawn(vec![vec![None; 2]; 2]);
        assert!(!unknown.contains("least") && unknown.contains("not known"), "{unknown}");
    }
}
