//! Charts as inline SVG. Tooltips are SVG `title` elements.

pub mod curves;
pub mod distribution;
pub mod frame;
pub mod heat;
pub mod lines;
pub mod rows;
