//! The result for people.

use std::fmt::Write as _;
use std::iter;

use curtail_load::{
    Failures, Intervals, Invalid, Parts, PastStack, Report, SAMPLES_ABOVE_MIN, Splits, Stamps,
    Summary,
};

use crate::say;
use crate::table::row;

pub(crate) fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

pub(super) fn table(report: &Report) -> String {
    let mut text = what_was_asked(report);
    let _ = writeln!(text, "\n");
    latencies(&mut text, report);
    parts(&mut text, report);
    agents(&mut text, report);
    if let Some(stamps) = &report.stamps {
        let _ = writeln!(text, "\n{}", stamped(stamps));
    }
    if let Some(why) = missing(report) {
        let _ = writeln!(text, "\n–: {why}");
    }
    if let Some(withheld) = &report.withheld {
        let _ = writeln!(text, "\n{withheld}");
    }
    if let Some(failures) = &report.failures {
        let _ = writeln!(text, "\n{}", when(failures));
    }
    for remark in remarks(report) {
        let _ = writeln!(text, "\n{remark}");
    }
    if report.closed_loop {
        let _ = writeln!(text, "\nclosed loop: the latencies leave out what others would wait");
    }
    for reason in &report.invalid_because {
        let _ = match reason {
            Invalid::Interrupted { .. } => writeln!(text, "\n{reason}"),
            _ => writeln!(text, "\n{} {reason}", say::verdict("invalid:", Some(false))),
        };
    }
    text.truncate(text.trim_end().len());
    text
}

/// The first line.
fn what_was_asked(report: &Report) -> String {
    let Report { achieved_rate, requests, errors, .. } = report;
    let offered = match report.offered_rate {
        Some(rate) => format!("offered {rate:.1}/s, "),
        None => String::new(),
    };
    let failed = errors.total();
    let mut text = format!(
        "{offered}achieved {achieved_rate:.1}/s, {requests} requests, {failed} without a good answer"
    );
    if failed > 0 {
        let _ = write!(text, ": {errors}");
    }
    text
}

fn latencies(text: &mut String, report: &Report) {
    let shown = |ns: Option<u64>| ns.map_or_else(|| "–".into(), ms);
    let columns = [-16, 13, 13, 13, 13, 13];
    *text += &row(&columns, ["", "p50", "p90", "p99", "p99.9", "max"]);
    let rows = [
        ("latency", &report.latency_ns),
        ("uncorrected", &report.uncorrected_ns),
        ("schedule lag", &report.schedule_lag_ns),
    ];
    for (at, (name, of)) in rows.into_iter().enumerate() {
        let cells = [of.p50, of.p90, of.p99, of.p999, of.max].map(shown);
        *text += &row(&columns, iter::once(name.to_owned()).chain(cells));
        let Intervals { p50, p90, p99, p999, .. } = report.latency_ci95_ns;
        if at == 0 && [p50, p90, p99, p999].iter().any(Option::is_some) {
            let cells = [p50, p90, p99, p999].map(either_way);
            *text += &row(&columns, iter::once("  95 % sure".to_owned()).chain(cells));
        }
    }
}

/// Half of an interval, as people write it.
fn either_way(interval: Option<[u64; 2]>) -> String {
    interval.map_or_else(
        || "unsure".to_owned(),
        |[low, high]| format!("±{:.3} ms", high.abs_diff(low) as f64 / 2e6),
    )
}

/// What the percentiles are made of.
fn parts(text: &mut String, report: &Report) {
    let Splits { p50, p90, p99, p999, .. } = report.split_ns;
    let of = [p50, p90, p99, p999];
    if of.iter().all(Option::is_none) {
        return;
    }
    let _ = writeln!(text, "\nof which");
    let names = ["  schedule lag", "  client send", "  wire to wire", "  client wake-up"];
    // Without stamps of the kernel the last is part of the one before.
    let separate = of.iter().flatten().any(|parts| parts.client_wake_up > 0);
    let shown = if separate { &names[..] } else { &names[..3] };
    for (at, name) in shown.iter().enumerate() {
        let part =
            |of: Parts| [of.schedule_lag, of.client_send, of.wire_to_wire, of.client_wake_up][at];
        let shown = |parts: Option<Parts>| parts.map_or_else(|| "–".into(), |of| ms(part(of)));
        let [p50, p90, p99, p999] = of.map(shown);
        let _ = writeln!(text, "{name:<16}{p50:>13}{p90:>13}{p99:>13}{p999:>13}");
    }
}

/// What each agent sent, and how far apart they may have started.
fn agents(text: &mut String, report: &Report) {
    let Some(skew_ns) = report.start_skew_ns else { return };
    let shown = |ns: Option<u64>| ns.map_or_else(|| "–".into(), ms);
    let [requests, errors, p50, p99, lag] = ["requests", "errors", "p50", "p99", "lag p99"];
    let agents = &report.agents;
    let wide = agents.iter().map(|of| of.agent.len()).max().unwrap_or(0).max(16);
    let _ =
        writeln!(text, "\n{:<wide$}{requests:>10}{errors:>8}{p50:>13}{p99:>13}{lag:>13}", "agents");
    for of in agents {
        let (name, requests, errors) = (&of.agent, of.requests, of.errors.total());
        let times = [of.latency_ns.p50, of.latency_ns.p99, of.schedule_lag_ns.p99];
        let [p50, p99, lag] = times.map(shown);
        let verdict = if of.valid { "valid" } else { "not valid" };
        let _ = writeln!(
            text,
            "{name:<wide$}{requests:>10}{errors:>8}{p50:>13}{p99:>13}{lag:>13}  {verdict}"
        );
    }
    if agents.len() > 1 {
        let _ = writeln!(text, "they started within {:.0} µs of each other", skew_ns as f64 / 1e3);
    }
}

/// How far the kernel's stamps can be relied on.
fn stamped(stamps: &Stamps) -> String {
    let Stamps { sent_coverage, received_coverage, cost_ns, clock_steps, .. } = stamps;
    let [sent, received] = [sent_coverage, received_coverage].map(|share| share * 100.0);
    if let Some(PastStack { device, in_driver, .. }) = &stamps.past_stack {
        let place = if *in_driver { "in its driver" } else { "behind its driver" };
        return format!(
            "past the network stack, on {device} {place}: {sent:.1} % of the requests, {received:.1} % of \
             the answers"
        );
    }
    let mut text = format!(
        "stamps of the kernel: {sent:.1} % of the requests, {received:.1} % of the answers; they cost \
         {:.1} µs per packet",
        *cost_ns as f64 / 1e3
    );
    if *clock_steps > 0 {
        let _ =
            write!(text, "; the clock was set {clock_steps} times, and stamps of before dropped");
    }
    match &stamps.hardware_clocks[..] {
        [] => text + "; no network device here stamps packets itself",
        devices => text + &format!("; {} could, and is not asked to", devices.join(", ")),
    }
}

/// When requests failed, and whether the server came back.
pub(super) fn when(failures: &Failures) -> String {
    let seconds = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
    let Failures { first, first_at_ns, last_at_ns, last_good_at_ns, since_last_good } = failures;
    let mut text = format!("first failure after {}: {first}", seconds(*first_at_ns));
    match last_good_at_ns {
        Some(good) if *since_last_good > 3 && good < last_at_ns => {
            let _ = write!(text, "; the last good answer came after {}", seconds(*good));
            let _ = write!(text, ", and {since_last_good} requests have failed since");
        }
        _ if last_at_ns > first_at_ns => {
            let _ = write!(text, "; last one after {}", seconds(*last_at_ns));
        }
        _ => {}
    }
    text
}

/// What the server did that is no failure, and that who measures it should know.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let Report { sent_again, unasked, .. } = report;
    let again = format!(
        "sent again: {sent_again} times a request went over another connection, for the server closed this one \
         before it looked at it, or just then; it counts once, from its intended time"
    );
    let unasked_for = format!(
        "unasked: {unasked} connections were closed because the server sent bytes behind its answer"
    );
    let remarks = [(*sent_again, again), (*unasked, unasked_for)];
    remarks.into_iter().filter(|(count, _)| *count > 0).map(|(_, remark)| remark).collect()
}

/// Why there is a dash where a percentile should be, if there is any latency at all.
fn missing(report: &Report) -> Option<String> {
    missing_of(&report.latency_ns, report.withheld.is_some())
}

/// The 99.9th percentile has a line of its own where it is withheld.
fn missing_of(latency: &Summary, withheld: bool) -> Option<String> {
    latency.max?;
    let per_mille =
        [("p50", latency.p50, 500), ("p99", latency.p99, 10), ("p99.9", latency.p999, 1)];
    let lacks = |above: u32| !(above == 1 && withheld);
    let missing = per_mille.iter().filter(|(_, value, above)| value.is_none() && lacks(*above));
    let needs = missing.map(|(name, _, above)| {
        format!("{name} takes {} good answers", SAMPLES_ABOVE_MIN * 1_000 / u64::from(*above))
    });
    let needs: Vec<String> = needs.collect();
    let rule =
        format!("with fewer than {SAMPLES_ABOVE_MIN} samples above it a percentile is chance");
    (!needs.is_empty()).then(|| format!("{rule}; {}", needs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p99: Option<u64>, p999: Option<u64>, max: Option<u64>) -> Summary {
        Summary { p50: Some(1), p99, p999, max, ..Summary::default() }
    }

    #[test]
    fn a_dash_has_its_reason() {
        assert_eq!(missing_of(&latency(Some(1), Some(1), Some(1)), false), None);
        assert_eq!(
            missing_of(&latency(None, None, None), false),
            None,
            "nothing was measured at all"
        );
        let rule = "with fewer than 10 samples above it a percentile is chance; ";
        let of = |p99| missing_of(&latency(p99, None, Some(1)), false).expect("p99.9 is missing");
        assert_eq!(of(Some(1)), format!("{rule}p99.9 takes 10000 good answers"));
        let both = "p99 takes 1000 good answers, p99.9 takes 10000 good answers";
        assert_eq!(of(None), format!("{rule}{both}"));
        // Which has a reason of its own, on a line of its own.
        assert_eq!(missing_of(&latency(Some(1), None, Some(1)), true), None);
    }
}
