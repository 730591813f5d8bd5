//! `profile.html`: one self-contained file.

use std::fmt::Write as _;

use curtail_probe::knobs::Knob;
use curtail_probe::profile::Profile;
use curtail_probe::rank::Ranking;

use super::figures::{Figures, PERCENTILES, SHARES};
use super::table;
use crate::plot::format::escape;
use crate::plot::html::{figure, list};
use crate::plot::palette::{Look, look};
use crate::plot::{FIGURE_SIZES, Page, picture};

/// Renders the report.
pub(super) fn render(profile: &Profile, ranking: &Ranking) -> String {
    let figures = Figures::new(profile, ranking);
    let shares = SHARES.map(|(name, color)| (name.to_owned(), look(color)));
    let main = format!(
        include_str!("page.html"),
        shares = figure(
            &shares,
            FIGURE_SIZES.map(|size| figures.shares(size)),
            "<b>Figure 1.</b> The share of each stage in the variance of the total, with its 95 % \
             interval, and in the mean. The further the two are apart, the more the mean misleads.",
        ),
        table =
            table::table(ranking).html(
                "ranking",
                "<b>Table 1.</b> The stages, ordered by their share of the variance.",
            ),
        causes = causes(ranking),
        next = escape(&table::next(ranking)),
        requests = or_nothing(requests(&figures), "No whole requests were kept."),
        over_time = or_nothing(over_time(&figures), "There are too few windows of time."),
    );
    let notes = table::notes(profile, ranking)
        .into_iter()
        .map(|note| format!(r#"<p class="summary">{}.</p>"#, escape(&note)));
    let summary = escape(&table::summary(profile, ranking));
    Page {
        verb: "profile",
        title: &escape(&profile.target),
        headline: &escape(&table::guide(ranking)),
        more: &format!(r#"<p class="summary">{summary}.</p>{}"#, notes.collect::<String>()),
        main: main.trim_end(),
    }
    .render()
}

/// Renders figure 1 as a separate file.
pub(super) fn stages(profile: &Profile, ranking: &Ranking) -> Option<String> {
    picture(&Figures::new(profile, ranking).shares(FIGURE_SIZES[0])?)
}

fn or_nothing(html: String, why: &str) -> String {
    if html.is_empty() { format!(r#"<p class="nothing">{why}</p>"#) } else { html }
}

fn requests(figures: &Figures<'_>) -> String {
    figure(
        &figures.parts(),
        FIGURE_SIZES.map(|size| figures.requests(size)),
        "<b>Figure 2.</b> The slowest requests by stage, and below them the median of a random \
         sample (p50): stages that are longer than in the median cause the tail.",
    )
}

fn over_time(figures: &Figures<'_>) -> String {
    let named: Vec<(String, Look)> =
        PERCENTILES.map(|(name, color, _)| (name.to_owned(), look(color))).into();
    figure(
        &[],
        FIGURE_SIZES.map(|size| figures.strips(size)),
        "<b>Figure 3.</b> The standard deviation of each stage over time. A column that stands out \
         in one row is an event in that stage; a column that stands out in all rows is an event of \
         the machine.",
    ) + &figure(
        &named,
        FIGURE_SIZES.map(|size| figures.over_time(size)),
        "<b>Figure 4.</b> Percentiles of the total over time, each over at least 1,000 requests.",
    )
}

fn causes(ranking: &Ranking) -> String {
    let mut html = String::new();
    for (heading, causes) in table::causes(ranking) {
        let _ = write!(html, r#"<p class="but">{}</p>"#, escape(&heading));
        for (cause, knobs) in causes {
            let _ = write!(html, "<p>{}.</p>", escape(&cause));
            let text = |of: &Knob| {
                format!("{}. Expect: {}. In the comparison: {}.", of.how, of.expect, of.test)
            };
            if !knobs.is_empty() {
                html += &list(knobs.iter().map(|of| (of.name, text(of))));
            }
        }
    }
    html
}
