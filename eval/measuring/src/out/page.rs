//! The page with all figures and tables in one file.

use std::fmt::Write as _;

use super::figures::{ALONE, Figure, all};
use super::table::text;
use crate::run::Results;
use curtail_plot::format::escape;
use curtail_plot::palette::{Look, key_of};
use curtail_plot::{FIGURE_SIZES, Page};

pub(super) fn render(results: &Results) -> String {
    let mut main = String::new();
    let table = format!("<div class=\"scroll\"><pre>{}</pre></div>", escape(&text(results)));
    section(&mut main, "all", "Accuracy of each method, and all figures", &table);
    let figures: String = all(results).iter().map(figure).collect();
    section(&mut main, "figures", "Distributions", &figures);
    Page {
        verb: "eval papers measuring",
        title: "chapter 3 of document 000",
        headline: "How accurate are measurements of microseconds?",
        more: "",
        main: main.trim_end(),
    }
    .render()
}

fn section(main: &mut String, id: &str, title: &str, content: &str) {
    let _ = write!(
        main,
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{content}\n</section>\n"
    );
}

fn figure(figure: &Figure) -> String {
    let [wide, narrow] =
        FIGURE_SIZES.map(|(_, height, class, end)| figure.draw((width(class), height, class, end)));
    let looks: Vec<(String, Look)> =
        figure.lines.iter().map(|(name, look, _)| (name.clone(), *look)).collect();
    let title = escape(&figure.title);
    format!(
        "<figure>{}{wide}{narrow}<figcaption>{title}.</figcaption></figure>\n",
        key_of(&looks, "")
    )
}

fn width(class: &str) -> f64 {
    if class == ALONE.2 { ALONE.0 } else { FIGURE_SIZES[1].0 }
}
