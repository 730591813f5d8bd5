//! Tables of characters.

use std::fmt::{Display, Write as _};

/// A line of cells, each as wide as its column or wider: flush right, or flush left in a column whose
/// width is negative.
pub(crate) fn row(columns: &[isize], cells: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        let (cell, width) = (cell.to_string(), column.unsigned_abs());
        let _ = if *column < 0 {
            write!(text, "{cell:<width$}")
        } else {
            write!(text, "{cell:>width$}")
        };
    }
    text + "\n"
}
