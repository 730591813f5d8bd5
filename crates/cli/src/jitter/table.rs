//! The report as text: tables for a terminal and for the page, and the sentences around them.

use std::fmt::Write as _;

use curtail_jitter::Bias;
use curtail_report::number;
use curtail_report::number::{count, counted, or_none, share};
use curtail_report::table::Table;

use super::result::{Found, Hiccup, Means};
use crate::load::ms;
use crate::say;

pub(super) fn table(found: &Found) -> String {
    let color = say::colored(&std::io::stdout());
    let mut text = what_was_done(found);
    let _ = writeln!(text, "\n\n{}", means(found).text(color));
    if let Some(bias) = bias(found) {
        let _ = writeln!(text, "{bias}\n");
    }
    let _ = writeln!(text, "{}({})", hiccups(found).text(color), about_hiccups(found));
    if let Some(causes) = causes(found) {
        let of = &found.leaf.text;
        let _ = write!(text, "\nhiccups seen in {of}, by cause:\n{}", causes.text(color));
    }
    let _ = write!(text, "\n{}", say::verdict(&found.verdict.text, None));
    if let Some(why) = &found.rate_missed {
        let _ = write!(text, "\n\nBut {}.", why.text);
    }
    if found.partial {
        let _ = write!(text, "\n\n{}: partial results", found.why_partial());
    }
    text
}

fn what_was_done(found: &Found) -> String {
    let Means { queries, executions, .. } = found.all;
    let load = match found.rate {
        Some(rate) => format!("at {rate}/s"),
        None => "one at a time".to_owned(),
    };
    let queries = counted(queries, "query", "queries");
    let mut text = format!("{queries}, {executions} executions {load}, {}", often(found));
    let failed = found.errors.total();
    if failed > 0 {
        let _ = write!(text, "; {failed} executions failed and are left out: {}", found.errors);
    }
    text
}

/// The number of executions of each query, in words.
pub(super) fn often(found: &Found) -> String {
    match found.repetitions {
        0 => "not every query of the file".to_owned(),
        times => format!("each query at least {times} times"),
    }
}

fn in_ms(ns: Option<f64>) -> String {
    or_none(ns, number::ms)
}

/// The mean times by class: Table 6.1 of document 000.
pub(super) fn means(found: &Found) -> Table {
    let row = |name: &str, of: &Means| {
        let [service, p, j] =
            [of.service_ns.mean, of.p_ns.mean, of.j_ns.mean].map(|ns| in_ms(Some(ns)));
        let Hiccup { probability, duration_ns, .. } = of.seen;
        [name.to_owned(), service, p, j, share(probability), in_ms(duration_ns)]
    };
    let classes = found.classes.iter().filter(|_| found.classes.len() > 1);
    let classes = classes.map(|of| {
        let name = if of.class.is_empty() { "(no class)" } else { &of.class };
        row(name, &of.means)
    });
    let head = [
        ("queries", ""),
        ("mean P + J", "ms"),
        ("mean P", "ms"),
        ("mean J", "ms"),
        ("hiccups", "of executions"),
        ("duration", "ms"),
    ];
    let mut table = Table::with_units(head);
    table.row(row("all", &found.all));
    classes.for_each(|row| table.row(row));
    table
}

/// A sentence on the bias of P, if it is known.
pub(super) fn bias(found: &Found) -> Option<String> {
    let Bias { ns, share: part, .. } = found.all.p_ns.bias?;
    let least = match found.repetitions {
        0 => "P is the minimum of the executions so far".to_owned(),
        times => format!("P is the minimum of at least {times} executions"),
    };
    let more = if found.enough == "converged" { "" } else { "; more repetitions would lower it" };
    let (too_high, part) = (in_ms(Some(ns.max(0.0))), part.max(0.0) * 100.0);
    Some(format!("{least}, so it is too high by about {too_high} ms ({part:.1} %){more}"))
}

pub(super) fn hiccups(found: &Found) -> Table {
    let row = |name: &str, of: &Hiccup| {
        let [low, high] = of.probability_ci95.map(share);
        let durations = or_none(of.duration_ci95, |ends| ends.map(number::ms).join(" to "));
        let probability = share(of.probability);
        let interval = format!("{low} to {high}");
        [name.to_owned(), probability, interval, in_ms(of.duration_ns), durations]
    };
    let unsure = |name: &str, probability: Option<f64>, duration_ns| {
        let probability = or_none(probability, share);
        [name.to_owned(), probability, String::new(), in_ms(duration_ns), String::new()]
    };
    let mut rows = vec![row("hiccups seen", &found.all.seen), row("the leaf's own", &found.hiccup)];
    let between = found.intermediate.iter();
    rows.extend(between.map(|of| unsure("in between", Some(of.probability), Some(of.duration_ns))));
    let floor = &found.floor;
    // Without hiccups there is nothing to compare the machine's gaps with.
    let known = found.all.seen.bimodal && floor.observed_ns > 0;
    let duration_ns = floor.duration_ns.filter(|_| known);
    rows.push(unsure("the machine's", known.then_some(floor.probability), duration_ns));
    let head = [
        ("", ""),
        ("probability", "of an execution"),
        ("95 % interval", ""),
        ("duration", "ms"),
        ("95 % interval", "ms"),
    ];
    let mut table = Table::with_units(head);
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// Explains the machine's hiccups, and the confidence intervals without hiccups.
pub(super) fn about_hiccups(found: &Found) -> String {
    let floor = &found.floor;
    let mut text = if floor.observed_ns == 0 {
        "no idle loop was run, so the machine's part is unknown".to_owned()
    } else {
        let gaps = match floor.gaps_from_ns {
            0 => "all gaps".to_owned(),
            ns => format!("gaps of {} or more", ms(ns)),
        };
        format!(
            "the machine's are {gaps} in an idle loop, for {:.0} s on {} processors; the longest \
             gap was {}",
            floor.observed_ns as f64 / 1e9 / floor.processors.max(1) as f64,
            floor.processors,
            ms(floor.longest_gap_ns)
        )
    };
    if !found.all.seen.bimodal {
        text += "; none were found: the upper limit counts all executions beyond the clearest \
                 valley of J";
    }
    text
}

/// A table of the likely causes, if there are any.
pub(super) fn causes(found: &Found) -> Option<Table> {
    let causes = found.causes.as_ref().filter(|causes| !causes.0.is_empty())?;
    let mut table = Table::new(["likely cause", "hiccups"]);
    causes.0.iter().for_each(|of| table.row([of.cause.text().to_owned(), count(of.hiccups)]));
    Some(table)
}
