//! Plots as inline SVG, and the style of the pages that they are on. They have no script: tips are
//! titles, and what depends on the width is there twice and chosen by the style sheet.

pub(crate) mod axes;
pub(crate) mod format;
pub(crate) mod lines;
pub(crate) mod palette;

/// Colors, and what plots need of the style; so much is in a picture of its own, too.
pub(crate) const PLOT_STYLE: &str = include_str!("plot.css");

/// The style of a page, beyond that of its plots.
pub(crate) const PAGE_STYLE: &str = include_str!("style.css");
