//! Plots as inline SVG, and the style of the pages that they are on. They have no script: tips are
//! titles, and what depends on the width is there twice and chosen by the style sheet.
#![allow(missing_docs, reason = "fields of charts are what their names say")]

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

/// Colors, and what plots need of the style; so much is in a picture of its own, too.
const PLOT_STYLE: &str = include_str!("plot.css");

/// How large a figure of a page is, for wide screens and for narrow ones: width, height, its class, and
/// the end of its id.
pub const FIGURE_SIZES: [(f64, f64, &str, &str); 2] =
    [(960.0, 400.0, "wide", ""), (344.0, 320.0, "narrow", "-narrow")];

/// A plot as a file of its own, for pages of others.
pub fn picture(svg: &str) -> Option<String> {
    let (open, rest) = svg.split_once('>')?;
    let page = "svg { background: var(--paper); font-family: system-ui, sans-serif; padding: 8px }";
    Some(format!("{open}><style>{PLOT_STYLE}{page}</style>{rest}\n"))
}

/// The style of a page, beyond that of its plots.
const PAGE_STYLE: &str = include_str!("style.css");

/// A page. All is HTML, but for the verb.
pub struct Page<'a> {
    pub verb: &'a str,
    pub title: &'a str,
    pub headline: &'a str,
    /// What is in the header below the headline.
    pub more: &'a str,
    pub main: &'a str,
}

impl Page<'_> {
    /// The whole file.
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
