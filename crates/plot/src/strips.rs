//! Draws strips: rows over time that are darker where values are larger. Unlike in a
//! [`crate::heat`] map, rows have names and columns have different lengths.

use std::fmt::Write as _;

use super::axes::{Caption, Frame, Scale, axes, open, text};
use super::curves::Axis;
use super::format::{escape, three};

/// The height of a row, in pixels.
const ROW: f64 = 22.0;

/// A row, with its name and one value per column.
pub type Row = (String, Vec<Option<f64>>);

/// Draws the strips. A column extends from its start on the axis to the start of the next column.
/// The last column extends to the end of the axis. `unit` is the unit of the values, and `left` is
/// the width of the names in pixels.
pub fn draw(
    caption: &Caption,
    (x_axis, starts): (&Axis, &[f64]),
    rows: &[Row],
    unit: &str,
    (width, left, class): (f64, f64, &str),
) -> String {
    let height = 28.0 + ROW * rows.len() as f64 + 46.0;
    let frame = Frame { width, height, left, right: 14.0, top: 28.0, bottom: 46.0 };
    let x = Scale { values: x_axis.ends, positions: (frame.left, frame.plot_right()) };
    let places = x_axis.ticks.iter().map(|(at, text)| (x.at(*at), text.clone()));
    let values = rows.iter().flat_map(|row| row.1.iter().flatten()).copied();
    let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let above = format!("darkest: {}{unit}", three(most));
    let mut svg = open(&frame, caption, class)
        + &axes(&frame, &places.collect::<Vec<_>>(), &[], (&x_axis.name, &above));
    for (at, (name, values)) in rows.iter().enumerate() {
        let top = frame.top + ROW * at as f64;
        svg += &text(frame.left - 8.0, top + ROW / 2.0 + 4.0, "end", "name", name);
        for (column, value) in values.iter().enumerate() {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let from = x.at(starts[column]);
            let to = starts.get(column + 1).map_or(frame.plot_right(), |next| x.at(*next));
            let opacity = if most > 0.0 { 0.04 + 0.9 * value.max(0.0) / most } else { 0.04 };
            let tip = escape(&format!("{name}: {}{unit}", three(value)));
            let (width, height) = ((to - from).max(0.5), ROW - 1.0);
            let _ = write!(
                svg,
                r#"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{height}" fill="var(--k1)" fill-opacity="{opacity:.2}"><title>{tip}</title></rect>"#
            );
        }
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_the_darkest_and_unknown_ones_are_left_out() {
        let caption = Caption { id: "x".into(), title: "t".into(), description: "d".into() };
        let rows = [
            ("read".to_owned(), vec![Some(1.0), None, Some(2.0)]),
            ("write".to_owned(), vec![Some(0.0), Some(f64::NAN), Some(1.0)]),
        ];
        let axis = Axis::linear("s", 0.0, 10.0);
        let svg = draw(&caption, (&axis, &[0.0, 5.0, 8.0]), &rows, " ms", (214.0, 100.0, "wide"));
        assert_eq!(svg.matches("<rect").count(), 4, "{svg}");
        assert!(svg.contains(r#"x="180.0" y="28.0" width="20.0""#), "{svg}");
        assert_eq!(svg.matches(r#"fill-opacity="0.94""#).count(), 1, "{svg}");
        assert!(svg.contains("darkest: 2.00 ms") && !svg.contains("NaN"), "{svg}");
    }
}
