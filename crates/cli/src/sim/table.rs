//! The outcomes of an experiment as text.

use std::fmt::Write as _;

use curtail_report::number::{NONE, counted, latency, or_none, unit_words, with_interval};
use curtail_report::table::Table;
use curtail_sim::{Experiment, Outcome, Shards, Versus, Window, World};

/// If replicas were busy for less than this fraction of the expected time, the run missed many of
/// the long service times.
const LESS: f64 = 0.8;

/// Renders the outcomes.
pub(super) fn render(experiment: &Experiment, outcomes: &[Outcome], percentiles: &[f64]) -> String {
    let mut text = heading(experiment);
    let heads = ["policy".to_owned(), "mean".to_owned()].into_iter();
    let heads = heads.chain(percentiles.iter().map(|p| format!("p{p}")));
    let mut table = Table::new(heads.chain(["copies", "busy", "wasted"].map(str::to_owned)));
    for outcome in outcomes {
        let Some(figures) = &outcome.request else {
            let because = outcome.unstable_because.map_or("", |because| because.text());
            table.remark(&outcome.policy, format_args!("unstable: {because}"));
            continue;
        };
        let mean = figure(figures.mean, outcome.ci95.as_ref().and_then(|w| w.mean));
        let percentiles = figures.percentiles.iter().map(|&(p, value)| {
            figure(value, outcome.ci95.as_ref().and_then(|widths| widths.percentile(p)))
        });
        let mut cells = vec![outcome.policy.clone()];
        cells.extend([mean].into_iter().chain(percentiles));
        cells.push(or_none(outcome.copies_per_query, |n| format!("{n:.2}")));
        cells.extend([outcome.utilization.busy, outcome.wasted_fraction].map(percent));
        table.row(cells);
    }
    text += &table.bare();
    text += &windows(experiment, outcomes);
    text += &shared(outcomes);
    text += &trained(outcomes);
    text += &versus(outcomes);
    text += &failed(outcomes);
    text += &idle(outcomes);
    text += &short(experiment, outcomes);
    text += &missing(outcomes);
    text.truncate(text.trim_end().len());
    text
}

fn heading(experiment: &Experiment) -> String {
    let Experiment { world, slots, replications, requests, .. } = experiment;
    let of = if *slots == 1 { String::new() } else { format!(" of {slots} slots") };
    let unit = unit_words(if experiment.has_units { "ms" } else { "1" });
    let change = world.change_at().map_or(String::new(), |at| {
        format!("From request {at} on: {}\n", world.change_texts().join(", "))
    });
    let servers = world.servers() as usize;
    let what = match world {
        World::Shards(Shards { count, .. }) => {
            format!("{count} × {}{of}", counted(servers, "replica", "replicas"))
        }
        World::Shared(shared) => format!(
            "{}, {}{of} in groups of {}",
            counted(shared.clients as usize, "client", "clients"),
            counted(servers, "server", "servers"),
            shared.replicas
        ),
    };
    format!(
        "{what}, utilization {}, {replications} × {requests} requests\n{change}\
         Latencies of requests in {unit}, ± half of the 95 % confidence interval\n\n",
        experiment.utilization,
    )
}

fn figure(value: Option<f64>, width: Option<f64>) -> String {
    or_none(value, |value| with_interval(value, width))
}

fn percent(share: Option<f64>) -> String {
    or_none(share, |share| format!("{:.0} %", share * 100.0))
}

/// Lines about policies that were trained.
fn trained(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let Some((trained, budget)) = outcome.trained.as_ref().zip(outcome.budget) else {
            continue;
        };
        let policy = &outcome.policy;
        let _ = if budget > 0.0 {
            let percent = budget * 100.0;
            writeln!(text, "{policy} is {trained}, for second copies of {percent:.3} % of queries")
        } else {
            writeln!(text, "{policy} is {trained}: no second copies")
        };
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Lines on the differences from the first policy. They mark differences that may be due to chance.
fn versus(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let Some(versus) = &outcome.versus_first else { continue };
        let Versus { policy, difference, ci95 } = versus;
        let known = |p: f64| Some((p, difference.percentile(p)?, ci95.percentile(p)?));
        // p99, or the highest requested percentile.
        let highest = || difference.percentiles.iter().rev().find_map(|&(p, _)| known(p));
        let Some((p, difference, width)) = known(99.0).or_else(highest) else { continue };
        let verdict = match difference.abs() {
            0.0 if width == 0.0 => ", the same",
            size if size <= width => ", which may be chance",
            _ => "",
        };
        let sign = if difference < 0.0 { "" } else { "+" };
        let shown = with_interval(difference, Some(width));
        let _ = writeln!(text, "{} − {policy}: p{p} {sign}{shown}{verdict}", outcome.policy);
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Lines on policies with failed requests, which the latencies exclude.
fn failed(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.requests_failed > 0) {
        let all = outcome.requests_failed + outcome.histogram.len();
        let share = outcome.requests_failed as f64 / all as f64;
        let _ = writeln!(
            text,
            "{}: {} of {all} requests FAILED ({}): a shard had no response for them. The latencies \
             are those of the others",
            outcome.policy,
            outcome.requests_failed,
            percent(Some(share)),
        );
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// A warning that is shown if long service times are so rare that the run had less load than
/// planned.
fn idle(outcomes: &[Outcome]) -> String {
    let is_less = |outcome: &&Outcome| {
        let expected = outcome.utilization.with_jitter.min(1.0);
        outcome.stable && outcome.utilization.busy.is_some_and(|busy| busy < LESS * expected)
    };
    // Only policies that serve each query once are checked. The bound O1 has no jitter, and other
    // policies may stop copies.
    let balances = |outcome: &&Outcome| {
        outcome.policy != "o1" && outcome.copies_per_query.is_some_and(|copies| copies < 1.001)
    };
    match outcomes.iter().filter(balances).find(is_less) {
        None => String::new(),
        Some(Outcome { policy, utilization, .. }) => format!(
            "\n{policy}: replicas were busy for {} of the time instead of {}: these runs miss \
             rare, long service times; see --requests\n",
            percent(utilization.busy),
            percent(Some(utilization.with_jitter)),
        ),
    }
}

/// A run shorter than this multiple of a queue's relaxation time shows too little of the queue.
const LONG_ENOUGH: f64 = 100.0;

/// A warning if the run is too short for its load: its samples are then correlated. If the
/// experiment changes during the run, only the part after the change is considered.
fn short(experiment: &Experiment, outcomes: &[Outcome]) -> String {
    let after = experiment.after();
    let experiment = after.as_ref().unwrap_or(experiment);
    let Experiment { requests, warm_up, replications, .. } = experiment;
    let load = experiment.utilization_with_jitter();
    if load >= 1.0 || !outcomes.iter().any(|outcome| outcome.stable) {
        return String::new();
    }
    let lasts = (requests - warm_up) as f64 * f64::from(*replications) * experiment.gap_ns();
    let remembers = experiment.relaxation_ns();
    // If the variance is infinite, so is the relaxation time. It then does not limit the accuracy
    // of percentiles.
    if lasts >= LONG_ENOUGH * remembers || remembers.is_infinite() {
        return String::new();
    }
    let jitter = if experiment.jitter.is_some() { ", with the jitter," } else { "" };
    format!(
        "\nAt a utilization of {load:.4}{jitter} a queue keeps its state for the time of {:.0} \
         requests,\nand {} are measured: latencies may be off by more than their ±; see \
         --requests\n",
        remembers / experiment.gap_ns(),
        (requests - warm_up) * u64::from(*replications),
    )
}

/// Explains a dash, if the table has one.
fn missing(outcomes: &[Outcome]) -> String {
    let lacks = |outcome: &Outcome| {
        let figures = outcome.request.as_ref().filter(|_| !outcome.histogram.is_empty());
        figures.is_some_and(|f| f.percentiles.iter().any(|(_, value)| value.is_none()))
    };
    if outcomes.iter().any(lacks) {
        return format!(
            "\n{NONE}: fewer than 10 samples lie above the percentile; see --requests\n"
        );
    }
    String::new()
}

/// Maximum number of windows that are shown.
const MOST: usize = 20;

/// Renders one percentile of all policies per window. Returns nothing without `--window`.
fn windows(experiment: &Experiment, outcomes: &[Outcome]) -> String {
    let windows_of = |outcome: &Outcome| outcome.windows.clone().unwrap_or_default();
    let all: Vec<Vec<Window>> = outcomes.iter().map(windows_of).collect();
    let Some((windows, first)) = experiment.windows.zip(all.first()) else {
        return String::new();
    };
    let mut text = String::from("\n");
    let Some(p) = first.first().and_then(shown) else {
        text += "No windows: they would begin after the last request; see --change-at\n";
        return text;
    };
    let _ = writeln!(
        text,
        "p{p} of requests from request {} on, in windows of {}",
        windows.from, windows.length
    );
    let heads = outcomes.iter().map(|outcome| &outcome.policy[..]);
    let mut table = Table::new(["from"].into_iter().chain(heads)).at_least(10);
    for (index, window) in first.iter().enumerate().take(MOST) {
        let figures = all.iter().map(|windows| {
            let figure = windows.get(index).and_then(|window| figure_of(window, p));
            or_none(figure, latency)
        });
        table.row([window.from.to_string()].into_iter().chain(figures));
    }
    text += &table.bare();
    if first.len() > MOST {
        let _ = writeln!(text, "… and {} more windows: see --json", first.len() - MOST);
    }
    let lacks = |(outcome, windows): (&Outcome, &Vec<Window>)| {
        outcome.stable && windows.iter().take(MOST).any(|window| figure_of(window, p).is_none())
    };
    if outcomes.iter().zip(&all).any(lacks) {
        let _ =
            writeln!(text, "{NONE}: fewer than 10 samples lie above the percentile; see --window");
    }
    text
}

/// The percentile to show: p99, or the highest one with enough samples.
fn shown(window: &Window) -> Option<f64> {
    let mut asked: Vec<f64> = window.percentiles.iter().map(|&(p, _)| p).collect();
    asked.sort_by(|a, b| (*b == 99.0).cmp(&(*a == 99.0)).then(b.total_cmp(a)));
    let known = asked.iter().find(|&&p| figure_of(window, p).is_some());
    known.or(asked.first()).copied()
}

fn figure_of(window: &Window, percentile: f64) -> Option<f64> {
    window.percentiles.iter().find(|(p, _)| *p == percentile).and_then(|&(_, figure)| figure)
}

/// A table of the servers' load per policy.
fn shared(outcomes: &[Outcome]) -> String {
    let loads = || outcomes.iter().filter_map(|outcome| Some((outcome, outcome.servers.as_ref()?)));
    if loads().next().is_none() {
        return String::new();
    }
    let heads = ["policy", "mean cv", "busiest cv", "most at one", "p99 of busy", "of others"];
    let mut table = Table::new(heads).at_least(10);
    for (outcome, load) in loads() {
        let share = |of: Option<f64>| or_none(of, |share| format!("{share:.2}"));
        let p99 = |of: &Option<curtail_sim::Figures>| {
            or_none(of.as_ref().and_then(|of| of.percentile(99.0)), |p99| format!("{p99:.1}"))
        };
        table.row([
            outcome.policy.clone(),
            share(load.cv),
            share(load.busiest_cv),
            load.most_outstanding.to_string(),
            p99(&load.busy_clients),
            p99(&load.other_clients),
        ]);
    }
    "\nVariation of the servers' load between windows (coefficient of variation), and the most \
     requests at one server\n\n"
        .to_owned()
        + &table.bare()
}
