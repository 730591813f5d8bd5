//! The report of the demo: one self-contained HTML file for screens, phones and paper.

mod plots;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

use super::findings::{View, headline};
use super::results::{Results, Setup};
use super::table::{Room, table};
use crate::plot::format::{count, counted, elapsed, escape, policy, three};
use crate::plot::html::list;
use crate::plot::{self, Page};

/// Renders the main figure as a separate file, to be used on other pages. `None` if nothing was
/// measured.
pub(crate) fn picture(results: &Results) -> Option<String> {
    plot::picture(&plots::picture(View::of(results))?)
}

/// Renders the report.
pub(crate) fn render(results: &Results) -> String {
    let view = View::of(results);
    let headline = headline(results);
    // Prevent a line break at the hyphen.
    let whole = r#"<span class="whole">per-shard</span>"#;
    // The warning about a busy machine comes first.
    let (first, next) = match &headline.first[..] {
        "" => (&headline.finding, ""),
        _ => (&headline.first, &headline.finding[..]),
    };
    let finding = escape(first).replace("per-shard", whole);
    let paragraph = |text: &str| match text {
        "" => String::new(),
        text => format!(r#"<p class="but">{}</p>"#, escape(text).replace("per-shard", whole)),
    };
    let more = [&headline.but, &headline.also, &headline.lowest, &headline.learned];
    let but: String = [next].into_iter().chain(more.map(|text| &**text)).map(paragraph).collect();
    let partial = view.partial().map_or(String::new(), |text| {
        format!(r#"<p class="partial" role="note"><strong>{text}</strong></p>"#)
    });
    let policies: Vec<_> = results.policies().map(|name| (name, policy(name))).collect();
    let policies = policies.iter().map(|(name, named)| {
        let colon = if named.does.is_empty() { "" } else { ": " };
        (named.short.as_str(), format!("{name}{colon}{}", named.does))
    });
    let main = format!(
        include_str!("report/page.html"),
        main = plots::main_figure(view),
        small = plots::small_multiples(view),
        tails = plots::tails(view),
        table = figures(view),
        setup = list(setup(&results.setup)),
        policies = list(policies),
    );
    Page {
        verb: "demo",
        title: "tail latency against utilization",
        headline: &finding,
        more: &format!("{but}{partial}<p class=\"summary\">{}</p>", summary(results)),
        main: main.trim_end(),
    }
    .render()
}

/// The table of all figures. Below it are the reasons why some cells are not sound.
fn figures(view: View<'_>) -> String {
    let (table, notes) = table(view, Room::Page);
    let caption = "<b>Table 1.</b> All figures, to three digits, by utilization. The lowest sound \
                   99th percentile at each utilization is in bold; results that are not sound are \
                   not compared.";
    let notes: String = notes.iter().map(|note| format!("<p>{}</p>", escape(note))).collect();
    format!("{}<div class=\"notes\">{notes}</div>", table.html("figures", caption))
}

/// A line that summarizes the run.
fn summary(results: &Results) -> String {
    let setup = &results.setup;
    format!(
        "{} policies at {} loads on {}. {} measured requests for each, seed {}; took {}.",
        results.order.len(),
        results.loads.len(),
        system(setup),
        count(setup.requests),
        setup.seed,
        elapsed(setup.elapsed_s)
    )
}

fn system(Setup { shards, replicas, slots, .. }: &Setup) -> String {
    format!(
        "{} × {} × {}",
        counted(*shards as usize, "shard", "shards"),
        counted(*replicas as usize, "replica", "replicas"),
        counted(*slots as usize, "slot", "slots")
    )
}

/// The setup, with enough detail to judge and repeat the run.
fn setup(setup: &Setup) -> [(&'static str, String); 8] {
    let system = system(setup);
    let Setup { service_time, service_mean_ms, hiccup, strata, .. } = setup;
    [
        (
            "System",
            format!(
                "{system}. A request sends a query to every shard, and is done when the last of \
                 them has responded."
            ),
        ),
        ("Corpus", format!("{}, {} documents", setup.corpus, count(setup.documents))),
        (
            "Service time",
            format!("{service_time} per query, mean P̄ = {} ms", three(*service_mean_ms)),
        ),
        ("Hiccups", format!("{hiccup}, on one replica: a second copy may avoid them. {strata}")),
        ("Real or stretched", setup.honesty.clone()),
        (
            "Requests",
            format!("{} measured per policy and load; seed {}", count(setup.requests), setup.seed),
        ),
        ("Duration", elapsed(setup.elapsed_s)),
        ("Command", setup.command.clone()),
    ]
}
