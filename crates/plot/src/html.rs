//! What pages are made of beside plots.

use std::fmt::Write as _;

use super::format::escape;
use super::palette::{Look, key_of};

/// A figure for wide screens and the same for narrow ones; nothing where there is none. The caption
/// is HTML.
pub fn figure(key: &[(String, Look)], charts: [Option<String>; 2], caption: &str) -> String {
    let [Some(wide), Some(narrow)] = charts else { return String::new() };
    let key = key_of(key, "");
    format!("<figure>{key}{wide}{narrow}<figcaption>{caption}</figcaption></figure>")
}

/// Terms with their texts.
pub fn list<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut html = String::from("<dl>");
    for (term, text) in entries {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(term), escape(&text));
    }
    html + "</dl>"
}

/// A table that scrolls sideways where the screen is narrow. All is HTML: `head` the cells of the
/// first row, `body` whole row groups.
pub fn table(id: &str, caption: &str, head: &str, body: &str) -> String {
    format!(
        r#"<p class="caption" id="{id}-caption">{caption}<span class="hint"> Scroll the table sideways for more.</span></p><div class="scroll" role="region" aria-labelledby="{id}-caption" tabindex="0"><table class="one" aria-labelledby="{id}-caption"><thead><tr>{head}</tr></thead>{body}</table></div>"#
    )
}
