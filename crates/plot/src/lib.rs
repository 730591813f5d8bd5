//! Draws plots as inline SVG, and provides the style of the pages that contain them. The pages
//! contain no scripts. Tooltips are SVG `title` elements. Elements that depend on the width of the
//! screen exist in two versions, and the style sheet shows one of them.
#![allow(missing_docs, reason = "the names of the fields document them")]

pub mod axes;
pub mod bars;
pub mod curves;
pub mod distribution;
pub mod dots;
pub mod format;
pub mod heat;
pub mod html;
pub mod lines;
pub mod palette;
pub mod stack;
pub mod strips;

/// The colors and the style of plots. A plot that is saved as a separate file contains only this
/// style.
const PLOT_STYLE: &str = include_str!("plot.css");

/// The sizes of a figure on a page, for wide and narrow screens: width, height, class, and suffix
/// of the id.
pub const FIGURE_SIZES: [(f64, f64, &str, &str); 2] =
    [(960.0, 400.0, "wide", ""), (344.0, 320.0, "narrow", "-narrow")];

/// Turns a plot into a separate file, to be used on other pages.
pub fn picture(svg: &str) -> Option<String> {
    let (open, rest) = svg.split_once('>')?;
    let page = "svg { background: var(--paper); font-family: system-ui, sans-serif; padding: 8px }";
    Some(format!("{open}><style>{PLOT_STYLE}{page}</style>{rest}\n"))
}

/// The style of a page, in addition to the plots' style.
const PAGE_STYLE: &str = include_str!("style.css");

/// A page. All fields except the verb are HTML.
pub struct Page<'a> {
    pub verb: &'a str,
    pub title: &'a str,
    pub headline: &'a str,
    /// The content of the header, below the headline.
    pub more: &'a str,
    pub main: &'a str,
}

impl Page<'_> {
    /// Renders the whole file.
    pub fn render(&self) -> String {
        let Page { verb, title, headline, more, main } = self;
        format!(
            include_str!("page.html"),
            verb = verb,
            title = title,
            plot_style = PLOT_STYLE,
            page_style = PAGE_STYLE,
            headline = headline,
            more = more,
            main = main,
        )
    }
}
