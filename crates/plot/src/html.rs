//! The HTML elements of a page, except for the plots.

use std::fmt::{Display, Write as _};

use super::format::escape;
use super::palette::{Look, key_of};

/// Returns a figure in two versions, for wide and narrow screens, or an empty text if a version is
/// missing. The caption is HTML.
pub fn figure(key: &[(String, Look)], charts: [Option<String>; 2], caption: &str) -> String {
    let [Some(wide), Some(narrow)] = charts else { return String::new() };
    let key = key_of(key, "");
    format!("<figure>{key}{wide}{narrow}<figcaption>{caption}</figcaption></figure>")
}

/// Returns a list of terms with their descriptions.
pub fn list<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut html = String::from("<dl>");
    for (term, text) in entries {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(term), escape(&text));
    }
    html + "</dl>"
}

/// Returns the head of a table: the column names with their units, which may be empty.
pub fn head<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut html = String::new();
    for (name, unit) in columns {
        let unit = if unit.is_empty() { String::new() } else { format!("<span>{unit}</span>") };
        let _ = write!(html, r#"<th scope="col">{name}{unit}</th>"#);
    }
    html
}

/// Returns a row of a table. The name and the cells are HTML.
pub fn row(name: &str, cells: impl IntoIterator<Item = impl Display>) -> String {
    let mut html = format!(r#"<tr><th scope="row">{name}</th>"#);
    for cell in cells {
        let _ = write!(html, "<td>{cell}</td>");
    }
    html + "</tr>"
}

/// Returns a table that scrolls sideways on narrow screens. All arguments are HTML: `head` contains
/// the cells of the first row, and `body` contains whole row groups.
pub fn table(id: &str, caption: &str, head: &str, body: &str) -> String {
    format!(
        r#"<p class="caption" id="{id}-caption">{caption}<span class="hint"> Scroll the table sideways for more.</span></p><div class="scroll" role="region" aria-labelledby="{id}-caption" tabindex="0"><table class="one" aria-labelledby="{id}-caption"><thead><tr>{head}</tr></thead>{body}</table></div>"#
    )
}
