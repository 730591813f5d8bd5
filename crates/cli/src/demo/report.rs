//! The report of the demo: one HTML file that needs nothing else, on a screen, a phone, or paper.
//!
//! It has no script: plots are inline SVG, tips are their titles, and what depends on the width is
//! there twice and chosen by the style sheet.

mod ccdf;
mod figures;
mod method;
mod plots;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

use super::findings::{View, headline};
use super::results::Results;
use crate::plot::format::escape;
use crate::plot::{self, Page};

/// The main figure as a file of its own, for pages of others. None if nothing was measured.
pub(crate) fn picture(results: &Results) -> Option<String> {
    plot::picture(&plots::picture(View::of(results))?)
}

/// Renders the report.
pub(crate) fn render(results: &Results) -> String {
    let view = View::of(results);
    let headline = headline(results);
    // Not to be broken at its hyphen.
    let whole = r#"<span class="whole">per-shard</span>"#;
    let finding = escape(&headline.finding).replace("per-shard", whole);
    let paragraph = |text: &str| match text {
        "" => String::new(),
        text => format!(r#"<p class="but">{}</p>"#, escape(text).replace("per-shard", whole)),
    };
    let but = paragraph(&headline.but) + &paragraph(&headline.also);
    let main = format!(
        include_str!("report/page.html"),
        main = plots::main_figure(view),
        small = plots::small_multiples(view),
        tails = plots::tails(view),
        table = figures::table(view),
        setup = method::setup(view),
        policies = method::policies(view),
    );
    let (partial, summary) = (partial(view), method::summary(view));
    Page {
        verb: "demo",
        title: "tail latency against utilization",
        headline: &finding,
        more: &format!("{but}{partial}<p class=\"summary\">{summary}</p>"),
        main: main.trim_end(),
    }
    .render()
}

/// The warning on a run that was stopped.
fn partial(view: View<'_>) -> String {
    let (planned, measured) = view.cells();
    if !view.results.partial && measured == planned {
        return String::new();
    }
    let why = match view.results.partial {
        true => "This run was stopped before its end",
        false => "Not everything was measured",
    };
    format!(
        r#"<p class="partial" role="note"><strong>Partial.</strong> {why}: {measured} of {planned} cells are there.</p>"#
    )
}
