//! The advice as text.

use std::fmt::Write as _;

use curtail_report::number::{latency, or_none, with_interval};
use curtail_report::table::Table;
use curtail_sim::advise::{Advice, Latency, Point, SampleSummary, UNSETTLED};

use super::counted;
use crate::say;

/// Renders the whole advice for a terminal with `width` columns.
pub(super) fn answer(
    advice: &Advice,
    samples: Option<&SampleSummary>,
    slots: Option<&str>,
    width: usize,
) -> String {
    let mut text = headline(advice, samples);
    if let Some(samples) = samples {
        text += &found(samples, advice.unit, width);
    }
    text += &paragraph(&sentence(&advice.because), width);
    text += &slots.map_or(String::new(), |slots| paragraph(slots, width));
    text += &table(advice);
    if advice.rival.as_good {
        text += &paragraph(&sentence(&advice.rival.text), width);
    }
    text += &unsettled(advice, samples.is_some(), width);
    text += &curve(advice, width);
    if advice.hedge || advice.config.starts_with("[listen]") {
        let _ = write!(text, "\nFor the configuration of the proxy:\n\n{}", advice.config);
    }
    text.truncate(text.trim_end().len());
    text
}

fn headline(advice: &Advice, samples: Option<&SampleSummary>) -> String {
    let provided = samples.map_or(String::new(), |samples| format!(", if {}", samples.assumes));
    let sure =
        format!("confidence {:.0} %{provided}", (advice.confidence * 100.0).floor().min(99.0));
    if !advice.settled {
        let gain = advice.gain.p99.map_or(0.0, |gain| gain * 100.0);
        let open = format!(
            "Undecided: in these samples {} lowers p99 by {gain:.0} %{}, but other samples might \
             differ.",
            advice.hedging_policy,
            interval(advice.gain_ci95.p99)
        );
        return format!("{} ({sure})\n\n", say::verdict(&open, None));
    }
    if advice.hedge {
        let does = advice.gain.p99.map_or_else(
            || "has a steady state, unlike psq".to_owned(),
            |gain| format!("lowers p99 by {:.0} %{}", gain * 100.0, interval(advice.gain_ci95.p99)),
        );
        let up_to = advice.stop_above_utilization.map_or(String::new(), |u| {
            format!(", up to a utilization of {u:.2}{}", counted(advice))
        });
        let yes = format!("Yes: {} {does}{up_to}.", advice.policy);
        return format!("{} ({sure})\n\n", say::verdict(&yes, Some(true)));
    }
    let no = format!("No: hedging does not pay here; run {}.", advice.policy);
    format!("{} ({sure})\n\n", say::verdict(&no, Some(false)))
}

/// Formats the confidence interval of a share, in percent.
fn interval(of: Option<[f64; 2]>) -> String {
    of.map_or(String::new(), |[low, high]| {
        format!(" (95 % interval: {:.0} to {:.0} %)", low * 100.0, high * 100.0)
    })
}

fn found(samples: &SampleSummary, unit: &str, width: usize) -> String {
    let SampleSummary {
        count,
        with_hiccup,
        probability,
        probability_ci95,
        duration,
        duration_ci95,
        of_jitter,
        ..
    } = samples;
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    let [low, high] = probability_ci95.map(|end| end * 100.0);
    let percent = probability * 100.0;
    let between = duration_ci95
        .map_or(String::new(), |[low, high]| format!(" ({low:.2} to {high:.2}{unit})"));
    if *of_jitter {
        let text = match *with_hiccup {
            0 => format!(
                "curtail jitter found no hiccups in {count} executions: their share is at most \
                 {high:.3} %."
            ),
            _ => format!(
                "curtail jitter found hiccups in {percent:.3} % ({low:.3} to {high:.3} %) of {count} \
                 executions, of {duration:.2}{unit}{between}."
            ),
        };
        return paragraph(&text, width);
    }
    if *with_hiccup == 0 {
        let text = format!(
            "{count} samples contain no hiccups that stand out. If there are hiccups nevertheless \
             (few, short, or of all lengths), this advice does not cover them: repeat the same \
             queries, and give the variation as --jitter."
        );
        return paragraph(&text, width);
    }
    let text = format!(
        "{count} samples, of which {with_hiccup} have a hiccup: {percent:.3} % ({low:.3} to \
         {high:.3} %) of {duration:.2}{unit}{between}. A hiccup delays one copy of a query. A \
         query that is slow on every replica looks the same, but a second copy does not help it. \
         Repeat some of these queries: if they are as slow again, give the file as --service-time \
         file:PATH."
    );
    paragraph(&text, width)
}

/// Capitalizes the text and adds a period.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// Wraps the text between words.
fn paragraph(text: &str, width: usize) -> String {
    textwrap::fill(text, width.clamp(40, 100)) + "\n\n"
}

/// A table of the policies, in which only the best of the delayed hedges appears.
fn table(advice: &Advice) -> String {
    let unit = if advice.unit == "1" { "time units" } else { advice.unit };
    let rival = &advice.rival.policy;
    let shown = |row: &&Latency| row.policy == *rival || !row.policy.starts_with("delayed:");
    let rows = || advice.latencies.iter().filter(shown);
    let note_head = format!("latency of requests, {unit}");
    let head = ["policy", "p50", "p99", "p99.9", "copies", &note_head];
    let mut table = Table::new(head).at_least(10).with_notes();
    for latency in rows() {
        let Latency { policy, p50, p99, p999, p99_ci95, copies_per_query, .. } = latency;
        let shown = |value: Option<f64>, half: Option<f64>| {
            or_none(value, |value| with_interval(value, half))
        };
        let figures = [(p50, None), (p99, *p99_ci95), (p999, None), (copies_per_query, None)];
        let figures = figures.map(|(value, half)| shown(*value, half));
        let note = note(advice, policy, latency.stable).to_owned();
        table.row([policy.clone()].into_iter().chain(figures).chain([note]));
    }
    table.bare() + "\n"
}

/// A warning that is shown if p99 is uncertain.
fn unsettled(advice: &Advice, by_samples: bool, width: usize) -> String {
    let share = |latency: &Latency| Some(latency.p99_ci95? / latency.p99?);
    let Some(psq) = advice.latencies.first().and_then(share).filter(|&share| share > UNSETTLED)
    else {
        return String::new();
    };
    let more = match by_samples {
        true => "Measure for longer: more samples narrow the interval.",
        false => "With curtail sim, more --requests and --replications narrow the interval.",
    };
    let text = format!(
        "p99 has an interval of ±{:.0} %: it depends on events that are rare, or that have long \
         effects at this load. {more}",
        psq * 100.0
    );
    paragraph(&text, width)
}

/// A remark on a policy that cannot be deployed, or on the best delayed hedge.
fn note(advice: &Advice, policy: &str, stable: bool) -> &'static str {
    match policy {
        _ if !stable => "unstable",
        "idealized" => "sees the future",
        "o1" => "as if hiccups cost nothing",
        _ if policy != advice.rival.policy => "",
        _ if advice.rival.as_good && advice.hedge => "as good or better",
        _ if advice.rival.as_good => "pays nevertheless",
        _ => "the best delayed hedge",
    }
}

/// Minimum and maximum length of the longest bar, in columns.
const BARS: std::ops::RangeInclusive<usize> = 20..=60;

/// Draws two bars per load, one for each of the two policies. Bars are cut off at three times the
/// p99 of per-shard queuing at the lowest load. Anything longer is unacceptable anyway.
fn curve(advice: &Advice, width: usize) -> String {
    let Some(least) = advice.curve.iter().find_map(|point| point.psq) else { return String::new() };
    let most = 3.0 * least;
    let name = advice.hedging_policy.chars().count().max("psq".len());
    let columns = width.saturating_sub(name + 22).clamp(*BARS.start(), *BARS.end());
    let mut any_faster = false;
    let mut text = format!("p99 by utilization{}\n", counted(advice));
    for point in &advice.curve {
        let Point { utilization, psq, hedging, faster } = *point;
        any_faster |= faster;
        let rows =
            [("psq", psq, ' '), (&advice.hedging_policy, hedging, if faster { '<' } else { ' ' })];
        for (at, (policy, p99, mark)) in rows.into_iter().enumerate() {
            let load = if at == 0 { format!("{utilization:.2}") } else { String::new() };
            let _ = writeln!(text, "{load:>5}  {policy:<name$} {mark}{}", bar(p99, most, columns));
        }
    }
    if any_faster {
        let _ = writeln!(text, "\n<: {} is faster, beyond chance", advice.hedging_policy);
    }
    text
}

fn bar(p99: Option<f64>, most: f64, columns: usize) -> String {
    let Some(p99) = p99 else { return "unstable".to_owned() };
    let length = (p99 / most * columns as f64).round() as usize;
    let cut = length > columns;
    let bar = "█".repeat(length.min(columns));
    format!("{bar}{} {}", if cut { "…" } else { "" }, latency(p99))
}
