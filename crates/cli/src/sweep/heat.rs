//! A map of two axes: how much lower a percentile is than that of the first policy.

use std::fmt::Write as _;

use super::report::place;
use crate::plot::axes::{Caption, Frame, axes, open};
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

/// The most ticks that an axis has room for.
const MOST_TICKS: usize = 6;

pub(super) fn draw(map: &Map<'_>) -> String {
    let frame =
        Frame { width: 312.0, height: 270.0, left: 56.0, right: 8.0, top: 28.0, bottom: 46.0 };
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
            let at = format!(
                "{} {}, {} {}",
                map.x.0,
                place(map.x.1[column]),
                map.y.0,
                place(map.y.1[row])
            );
            let Some(gain) = gain else {
                let tip = escape(&format!("{at}: not known"));
                let _ = write!(
                    svg,
                    r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="var(--faint)"><title>{tip}</title></rect>"#
                );
                continue;
            };
            let color = if *gain >= 0.0 { 1 } else { 3 };
            let opacity = (gain.abs() * 0.85).clamp(0.04, 0.85);
            let tip = escape(&format!("{at}: {}", whole_percent(*gain)));
            let _ = write!(
                svg,
                r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="var(--k{color})" fill-opacity="{opacity:.2}"><title>{tip}</title></rect>"#
            );
            if columns <= MOST_WRITTEN && rows <= 2 * MOST_WRITTEN {
                let (x, y) = (left + width / 2.0, top + height / 2.0 + 4.0);
                let _ = write!(
                    svg,
                    r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" class="name" aria-hidden="true">{}</text>"#,
                    whole_percent(*gain)
                );
            }
        }
    }
    svg + "</svg>"
}
