//! Pages: one self-contained HTML file each, without scripts. Elements that depend on the width of the
//! screen exist in two versions, and the style sheet shows one of them.

use std::fmt::Write as _;

use crate::chart::frame::Size;
pub use crate::number::escape;
use crate::policy::Look;

/// The colors and the style of plots. A plot that is saved as a separate file contains only this
/// style.
const PLOT_STYLE: &str = include_str!("plot.css");

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

/// Returns a figure in two versions, for wide and narrow screens, or an empty text if a version is
/// missing. The caption is HTML.
pub fn figure(
    key: &[(String, Look)],
    caption: &str,
    chart: impl Fn(Size) -> Option<String>,
) -> String {
    let [Some(wide), Some(narrow)] = [Size::WIDE, Size::NARROW].map(chart) else {
        return String::new();
    };
    let key = legend(key);
    format!("<figure>{key}{wide}{narrow}<figcaption>{caption}</figcaption></figure>")
}

/// Returns the figures, or a sentence if there are none.
pub fn or_nothing(figures: String, why: &str) -> String {
    if figures.is_empty() { format!(r#"<p class="nothing">{why}</p>"#) } else { figures }
}

/// Returns a list of terms with their descriptions.
pub fn list<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut html = String::from("<dl>");
    for (term, text) in entries {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(term), escape(&text));
    }
    html + "</dl>"
}

/// Returns a table that scrolls sideways on narrow screens. All arguments are HTML: `head` contains
/// the cells of the first row, and `body` contains whole row groups.
pub(crate) fn table(id: &str, caption: &str, head: &str, body: &str) -> String {
    format!(
        r#"<p class="caption" id="{id}-caption">{caption}<span class="hint"> Scroll the table sideways for more.</span></p><div class="scroll" role="region" aria-labelledby="{id}-caption" tabindex="0"><table class="one" aria-labelledby="{id}-caption"><thead><tr>{head}</tr></thead>{body}</table></div>"#
    )
}

/// Returns a legend for a figure. The legend is HTML outside the figure, so it does not cover any
/// data.
pub fn legend(looks: &[(String, Look)]) -> String {
    let mut html = String::from(r#"<ul class="key ">"#);
    for (name, look) in looks {
        let swatch = format!(
            r#"<svg class="k{}" viewBox="0 0 36 14" aria-hidden="true"><path d="M0 7H36" {}/><path class="mark" d="{}"/></svg>"#,
            look.color,
            look.stroke(),
            look.marker(18.0, 7.0)
        );
        let _ = write!(html, "<li>{swatch}{}</li>", escape(name));
    }
    html + "</ul>"
}
