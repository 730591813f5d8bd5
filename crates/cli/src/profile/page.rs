//! `profile.html`: one self-contained file, with the shares of the stages, whole requests, and changes
//! over time.

use std::fmt::Write as _;

use curtail_probe::knobs::Knob;
use curtail_probe::profile::{Profile, Whole, Window};
use curtail_probe::rank::{Ranking, Stage, total_ns};
use curtail_report::chart::curves::{Axis, Curve, Curves, draw};
use curtail_report::chart::frame::{Caption, Size};
use curtail_report::chart::rows::{Bars, Length, Stack, Strip, bars, stacks, strips};
use curtail_report::page::{Page, escape, figure, list, or_nothing, picture};
use curtail_report::policy::{Look, look};

use super::table;
use super::table::Unit;

/// Number of stages that are shown individually: those with the most variance. The others are
/// summed.
const STAGES_MAX: usize = 7;
/// Number of slow requests that are drawn.
const SLOW_MAX: usize = 20;
/// Maximum number of columns. Windows are merged until they fit.
const COLUMNS_MAX: usize = 64;
/// Minimum number of requests per percentile. With fewer requests, the percentile is a matter of
/// chance.
const P99_REQUESTS: u64 = 1_000;

/// The data to draw.
pub(super) struct Figures<'a> {
    profile: &'a Profile,
    ranking: &'a Ranking,
    unit: Unit,
}

/// The shares of a stage, and their colors.
pub(super) const SHARES: [(&str, usize); 2] =
    [("share of the variance", 1), ("share of the mean", 6)];

/// The percentiles over time, with their colors.
pub(super) const PERCENTILES: [(&str, usize, f64); 2] = [("p99", 1, 0.99), ("p50", 6, 0.5)];

fn caption(id: &str, size: Size, title: &str) -> Caption {
    Caption::new(id, size, title, "The figures are in the table, and in profile.json.")
}

/// Truncates a name to fit.
fn short(name: &str, size: Size) -> String {
    let most = if size.is_narrow() { 13 } else { 22 };
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Width of the names, in pixels.
fn left(size: Size) -> f64 {
    if size.is_narrow() { 108.0 } else { 176.0 }
}

impl<'a> Figures<'a> {
    pub(super) fn new(profile: &'a Profile, ranking: &'a Ranking) -> Self {
        let unit = Unit::of(ranking.total.mean_ns);
        Self { profile, ranking, unit }
    }

    /// Merges windows until each has at least `requests` requests and all fit into the columns.
    fn columns(&self, requests: u64) -> Vec<Window> {
        let each = self.profile.windows.len().div_ceil(COLUMNS_MAX);
        let mut columns: Vec<(usize, Window)> = Vec::new();
        for window in &self.profile.windows {
            match columns.last_mut() {
                Some((count, last)) if *count < each || last.moments.requests() < requests => {
                    last.merge(window);
                    *count += 1;
                }
                _ => columns.push((1, window.clone())),
            }
        }
        // The last window may have too few requests.
        columns.retain(|(_, window)| window.moments.requests() >= requests);
        columns.into_iter().map(|(_, window)| window).collect()
    }

    /// The stages with the most variance.
    fn top(&self) -> &'a [Stage] {
        &self.ranking.stages[..self.ranking.stages.len().min(STAGES_MAX)]
    }

    /// Draws each stage's share of the variance next to its share of the mean.
    pub(super) fn shares(&self, size: Size) -> Option<String> {
        let all = self.top().iter().map(|of| Bars {
            name: short(&of.name, size),
            values: vec![of.variance_share, of.mean_share],
            interval: of.variance_share_ci95,
        });
        let caption = caption("shares", size, "Shares of the stages in variance and mean");
        let figures = SHARES.map(|(name, color)| (name, look(color)));
        let all: Vec<Bars> = all.collect();
        Some(bars(&caption, &figures, &all, "Share of the total", left(size), size))
    }

    /// The stages that make up whole requests, in order, with their colors. The last entry stands
    /// for all other stages.
    pub(super) fn parts(&self) -> Vec<(String, Look)> {
        let mut top: Vec<&Stage> = self.top().iter().collect();
        top.sort_by_key(|stage| stage.at);
        let others = self.ranking.stages.len() > top.len();
        let names = top.iter().map(|stage| stage.name.clone());
        let names = names.chain(others.then(|| "all others".to_owned()));
        names.zip(1..).map(|(name, color)| (name, look(color))).collect()
    }

    /// Draws the slowest requests, and a median request below them.
    pub(super) fn requests(&self, size: Size) -> Option<String> {
        let mut slow: Vec<&Whole> = self.profile.slow.iter().collect();
        slow.sort_by_key(|whole| std::cmp::Reverse(total_ns(whole)));
        slow.truncate(SLOW_MAX);
        let mut usual: Vec<&Whole> = self.profile.sampled.iter().collect();
        usual.sort_by_key(|whole| total_ns(whole));
        let usual = usual.get(usual.len() / 2).map(|whole| ("p50".to_owned(), *whole));
        let slow = slow.into_iter().zip(1..).map(|(whole, nth)| (format!("#{nth}"), whole));
        let bars = slow.chain(usual).map(|(name, whole)| self.bar(name, whole));
        let bars: Vec<Stack> = bars.collect();
        if bars.is_empty() {
            return None;
        }
        let parts = self.parts();
        let parts: Vec<(&str, Look)> =
            parts.iter().map(|(name, look)| (&name[..], *look)).collect();
        let caption = caption("requests", size, "Time of the slowest requests, by stage");
        let name = format!("Time since the request arrived, {}", self.unit.name);
        let unit = format!(" {}", self.unit.name);
        Some(stacks(&caption, &parts, &bars, Length::Sums(&name), &unit, size))
    }

    fn bar(&self, name: String, whole: &Whole) -> Stack {
        let mut top: Vec<usize> = self.top().iter().map(|stage| stage.at).collect();
        top.sort_unstable();
        let of = |at: usize| whole.stages_ns[at] as f64 / self.unit.ns;
        let others = (0..whole.stages_ns.len()).filter(|at| !top.contains(at)).map(of).sum();
        let others = (whole.stages_ns.len() > top.len()).then_some(others);
        Stack { name, parts: top.iter().map(|&at| of(at)).chain(others).collect() }
    }

    /// The time axis, from the start of the first window to the end of the last.
    fn times(&self) -> Axis {
        let end = self
            .profile
            .windows
            .last()
            .map_or(0.0, |last| last.start_ns.saturating_add(last.length_ns) as f64 / 1e9);
        Axis::until("Time since the start, s", 0.0, if end > 0.0 { end } else { 1.0 })
    }

    /// Draws the standard deviation of each stage over time.
    pub(super) fn strips(&self, size: Size) -> Option<String> {
        let columns = self.columns(1);
        let sd = |window: &Window, at| window.moments.variance(at).sqrt() / self.unit.ns;
        let row = |of: &Stage| {
            let values = columns.iter().map(|window| Some(sd(window, of.at)));
            Strip { name: short(&of.name, size), values: values.collect() }
        };
        let rows: Vec<Strip> = self.top().iter().map(row).collect();
        let starts: Vec<f64> = columns.iter().map(|of| of.start_ns as f64 / 1e9).collect();
        let caption = caption("heat", size, "Standard deviation of each stage over time");
        let unit = format!(" {}", self.unit.name);
        let times = self.times();
        (starts.len() > 1)
            .then(|| strips(&caption, &times, &starts, &rows, &unit, left(size), size))
    }

    /// Draws percentiles of the total over time.
    pub(super) fn over_time(&self, size: Size) -> Option<String> {
        let columns = self.columns(P99_REQUESTS);
        let curves = PERCENTILES.map(|(name, color, q)| {
            let points = columns.iter().filter_map(|window| {
                let middle = window.start_ns as f64 + window.length_ns as f64 / 2.0;
                let quantile = window.histograms.last()?.quantile(q)?;
                Some((middle / 1e9, quantile / self.unit.ns))
            });
            Curve { name: name.to_owned(), look: look(color), points: points.collect() }
        });
        let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
        let highest = highest.fold(0.0, f64::max);
        let chart = Curves {
            caption: caption("time", size, "Percentiles of the total over time"),
            x: self.times(),
            y: Axis::linear(&format!("Total, {}", self.unit.name), 0.0, highest),
            right: &[],
            curves: &curves,
            size,
        };
        (columns.len() > 1).then(|| draw(&chart))
    }
}

/// Renders the report.
pub(super) fn render(profile: &Profile, ranking: &Ranking) -> String {
    let figures = Figures::new(profile, ranking);
    let shares = SHARES.map(|(name, color)| (name.to_owned(), look(color)));
    let main = format!(
        include_str!("page.html"),
        shares = figure(
            &shares,
            "<b>Figure 1.</b> The share of each stage in the variance of the total, with its 95 % \
             interval, and in the mean. The further the two are apart, the more the mean misleads.",
            |size| figures.shares(size),
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
    picture(&Figures::new(profile, ranking).shares(Size::WIDE)?)
}

fn requests(figures: &Figures<'_>) -> String {
    figure(
        &figures.parts(),
        "<b>Figure 2.</b> The slowest requests by stage, and below them the median of a random \
         sample (p50): stages that are longer than in the median cause the tail.",
        |size| figures.requests(size),
    )
}

fn over_time(figures: &Figures<'_>) -> String {
    let named: Vec<(String, Look)> =
        PERCENTILES.map(|(name, color, _)| (name.to_owned(), look(color))).into();
    figure(
        &[],
        "<b>Figure 3.</b> The standard deviation of each stage over time. A column that stands out \
         in one row is an event in that stage; a column that stands out in all rows is an event of \
         the machine.",
        |size| figures.strips(size),
    ) + &figure(
        &named,
        "<b>Figure 4.</b> Percentiles of the total over time, each over at least 1,000 requests.",
        |size| figures.over_time(size),
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
