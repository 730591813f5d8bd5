//! What was found, as people read it.

use std::fmt::Write as _;

use curtail_jitter::Bias;

use super::result::{Found, Hiccup};
use crate::load::ms;
use crate::say;
use crate::table::row;

pub(super) fn table(found: &Found) -> String {
    let mut text = what_was_done(found);
    let _ = writeln!(text, "\n");
    components(&mut text, found);
    let _ = writeln!(text);
    hiccups(&mut text, found);
    if let Some(causes) = found.causes.as_ref().filter(|causes| !causes.0.is_empty()) {
        let _ = writeln!(text, "\nlikely causes of what was seen, in {}:", found.leaf.text);
        for likely in &causes.0 {
            let _ = writeln!(text, "  {:>6}  {}", likely.hiccups, likely.cause.text());
        }
    }
    let _ = write!(text, "\n{}", say::verdict(&found.verdict.text, None));
    if let Some(why) = &found.rate_missed {
        let _ = write!(text, "\n\nBut {}.", why.text);
    }
    if found.partial {
        let why = found.ended_because.as_ref().map_or("interrupted", |why| &why.text);
        let _ = write!(text, "\n\n{why}: partial results");
    }
    text
}

fn what_was_done(found: &Found) -> String {
    let Found { queries, executions, .. } = found;
    let load = match found.rate {
        Some(rate) => format!("at {rate}/s"),
        None => "one at a time".to_owned(),
    };
    let mut text = format!("{queries} queries, {executions} executions {load}, {}", often(found));
    let failed = found.errors.total();
    if failed > 0 {
        let _ = write!(text, "; {failed} executions failed and are left out: {}", found.errors);
    }
    text
}

/// How often each query was executed.
pub(super) fn often(found: &Found) -> String {
    match found.repetitions {
        0 => "but not every query of the file".to_owned(),
        times => format!("each query {times} times or more"),
    }
}

/// Means, as in Table 6.1 of document 000.
fn components(text: &mut String, found: &Found) {
    let columns = [-16, 14, 14, 14, 12];
    *text += &row(&columns, ["", "mean P + J", "mean P", "mean J", "hiccups"]);
    let mut add = |name: &str, service: f64, p: f64, j: f64, hiccup: &Hiccup| {
        let [service, p, j] = [service, p, j].map(|ns| ms(ns.round() as u64));
        let share = format!("{:.4}", hiccup.probability);
        *text += &row(&columns, [name, &service, &p, &j, &share]);
    };
    let Found { service_ns, p_ns, j_ns, .. } = found;
    add("all", service_ns.mean, p_ns.mean, j_ns.mean, &found.seen);
    for class in found.classes.iter().filter(|_| found.classes.len() > 1) {
        let name = if class.class.is_empty() { "(none)" } else { &class.class };
        add(name, class.service_ns.mean, class.p_ns.mean, class.j_ns.mean, &class.seen);
    }
    if let Some(Bias { ns, share, .. }) = found.p_ns.bias {
        let enough = match found.enough {
            "converged" => "",
            _ => "; more repetitions would lower it",
        };
        let _ = writeln!(
            text,
            "\n{}, and so too high by about {} ({:.1} %){enough}",
            least(found),
            ms(ns.max(0.0).round() as u64),
            share.max(0.0) * 100.0
        );
    }
}

/// What P is.
pub(super) fn least(found: &Found) -> String {
    match found.repetitions {
        0 => "P is the least of what there is".to_owned(),
        times => format!("P is the least of {times} times or more"),
    }
}

fn hiccups(text: &mut String, found: &Found) {
    let columns = [-16, 30, 34];
    *text += &row(&columns, ["", "probability", "duration"]);
    for (name, hiccup) in [("hiccups seen", &found.seen), ("the leaf's own", &found.hiccup)] {
        let [low, high] = hiccup.probability_ci95;
        let probability = format!("{:.5} [{low:.5}, {high:.5}]", hiccup.probability);
        let duration = match (hiccup.duration_ns, hiccup.duration_ci95) {
            (Some(value), Some([low, high])) => {
                format!("{} [{:.3}, {:.3}]", ms(value.round() as u64), low / 1e6, high / 1e6)
            }
            _ => "–".to_owned(),
        };
        *text += &row(&columns, [name, &probability, &duration]);
    }
    for between in &found.intermediate {
        let probability = format!("{:.5}", between.probability);
        let duration = ms(between.duration_ns.round() as u64);
        *text += &row(&columns, ["in between", &probability, &duration]);
    }
    let (probability, duration) = match machines(found) {
        Some((probability, duration)) => (format!("{probability:.5}"), duration),
        None => ("–".to_owned(), None),
    };
    let duration = duration.map_or("–".to_owned(), |ns| ms(ns.round() as u64));
    *text += &row(&columns, ["the machine's", &probability, &duration]);
    let _ = writeln!(text, "(intervals of 95 %; {})", gaps(found));
    if !found.seen.bimodal {
        let _ = writeln!(
            text,
            "(none were found; up to the upper border, executions beyond the clearest valley of J could be \
             some)"
        );
    }
}

/// The probability of the machine's own hiccups and their duration; none where there are no hiccups to compare
/// them with, or nobody has looked.
pub(super) fn machines(found: &Found) -> Option<(f64, Option<f64>)> {
    let floor = &found.floor;
    (found.seen.bimodal && floor.observed_ns > 0).then_some((floor.probability, floor.duration_ns))
}

/// What the machine's hiccups are.
pub(super) fn gaps(found: &Found) -> String {
    let floor = &found.floor;
    if floor.observed_ns == 0 {
        return "no loop that does nothing has run, so the machine's part is unknown".to_owned();
    }
    let gaps = match floor.gaps_from_ns {
        0 => "all gaps".to_owned(),
        ns => format!("gaps of {} or more", ms(ns)),
    };
    format!(
        "the machine's are {gaps} in a loop that did nothing, for {:.0} s on {} processors; the longest gap was {}",
        floor.observed_ns as f64 / 1e9 / floor.processors.max(1) as f64,
        floor.processors,
        ms(floor.longest_gap_ns)
    )
}
