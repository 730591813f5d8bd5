//! The report as text.

use std::fmt::Write as _;
use std::iter;

use curtail_load::{
    DeviceClock, Failures, Invalid, Note, PastStack, Report, SAMPLES_ABOVE_MIN, Stamps, Summary,
};
use curtail_report::number::{NONE, or_none};
use curtail_report::table::Table;

use crate::say;

pub(crate) fn ms(ns: u64) -> String {
    match ns {
        0 => "0 ms".to_owned(),
        ns => format!("{:.3} ms", ns as f64 / 1e6),
    }
}

/// Formats a lower bound of a latency, without decimals if it is a second or more.
fn at_least(ns: u64) -> String {
    match ns {
        0..1_000_000_000 => format!("≥{}", ms(ns)),
        // A histogram bucket can extend above the bound.
        _ => format!("≥{} ms", ns / 10_000_000 * 10),
    }
}

/// The figures of a latency, each of which may be a lower bound.
pub(crate) fn bounded(of: &Summary, bounds: &[impl AsRef<str>]) -> [Option<String>; 7] {
    let is_bound = |name: &str| bounds.iter().any(|bound| bound.as_ref() == name);
    let shown = |at: usize| {
        let show = if is_bound(Summary::<u64>::FIELDS[at]) { at_least } else { ms };
        of.each()[at].map(show)
    };
    std::array::from_fn(shown)
}

/// Explains the sign that marks a lower bound.
pub(crate) const BOUNDS: &str = "≥: a lower bound; a failed request counts as at least the \
                                 timeout, an unfinished one as at least its age at the end";

pub(in crate::load) fn table(report: &Report) -> String {
    let mut text = String::new();
    for note in report.notes.iter().filter(|note| is_busy(note)) {
        let _ = writeln!(text, "{} {note}\n", say::verdict("note:", None));
    }
    text += &format!("{}\n\n", requested_load(report));
    text += &(latencies(report) + &agents(report));
    if let Some(stamps) = &report.stamps {
        let _ = writeln!(text, "\n{}", stamped(stamps));
    }
    if let Some(why) = missing(&report.latency_ns, report.withheld.is_some()) {
        let _ = writeln!(text, "\n{NONE}: {why}");
    }
    if !report.latency_at_least.is_empty() {
        let _ = writeln!(text, "\n{BOUNDS}");
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
        let _ = writeln!(
            text,
            "\nclosed loop: the latencies exclude the wait of requests that would arrive while \
             connections are busy"
        );
    }
    for note in report.notes.iter().filter(|note| !is_busy(note)) {
        let _ = writeln!(text, "\nnote: {note}");
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

/// Whether a note must be read before any figure.
fn is_busy(note: &Note) -> bool {
    matches!(note, Note::BusyMachine { .. })
}

/// The requested load, and the schedule that was drawn for it. A schedule has a random number of
/// requests.
fn requested_load(report: &Report) -> String {
    let Report { achieved_rate, requests, errors, sent, .. } = report;
    let offered =
        report.offered_rate.map_or(String::new(), |rate| format!("offered {rate:.1}/s, "));
    let sent = match sent == requests {
        true => "all sent".to_owned(),
        false => format!("{sent} of {requests} sent"),
    };
    let planned = |rate: f64| format!("planned {rate:.1}/s ({sent}), ");
    let planned = report.planned_rate.map_or(String::new(), planned);
    let failed = errors.total();
    let mut text = format!(
        "{offered}{planned}achieved {achieved_rate:.1}/s, {requests} requests, {failed} without a \
         good response"
    );
    if failed > 0 {
        let _ = write!(text, ": {errors}");
    }
    text
}

/// The width of a column of times.
const TIME: usize = 13;

/// A table of the times that fit into a line: p50, p90, p99, p99.9, and the maximum.
pub(crate) fn times(name: &str) -> Table {
    let names = Summary::<u64>::NAMES;
    Table::new([name, names[0], names[1], names[3], names[4], names[5]]).at_least(TIME)
}

/// Adds a row to a table of times.
pub(crate) fn line(table: &mut Table, name: &str, cells: &[Option<String>]) {
    let shown = [0, 1, 3, 4, 5].into_iter().filter_map(|at| cells.get(at)).cloned();
    table.row(iter::once(name.to_owned()).chain(shown.map(|cell| or_none(cell, |cell| cell))));
}

fn latencies(report: &Report) -> String {
    let mut table = times("");
    let mut line = |name: &str, cells: &[Option<String>]| line(&mut table, name, cells);
    line("latency", &bounded(&report.latency_ns, &report.latency_at_least));
    if report.latency_ci95_ns.any() {
        let half = |[low, high]: [u64; 2]| format!("±{:.3} ms", high.abs_diff(low) as f64 / 2e6);
        let sure = |of: Option<[u64; 2]>| Some(of.map_or_else(|| "unknown".to_owned(), half));
        line("  95 % interval", &report.latency_ci95_ns.each().map(sure));
    }
    line("uncorrected", &report.uncorrected_ns.each().map(|ns| ns.map(ms)));
    line("schedule lag", &report.schedule_lag_ns.each().map(|ns| ns.map(ms)));
    // The parts of which each percentile consists.
    if report.split_ns.any() {
        table.group("of which");
        let each = report.split_ns.each();
        for (at, name) in report.split_ns.names().iter().enumerate() {
            let cells = each.map(|of| Some(ms(of?.each()[at])));
            self::line(&mut table, &format!("  {name}"), &cells);
        }
    }
    table.bare()
}

/// The share of each agent, and the maximum difference between their start times.
fn agents(report: &Report) -> String {
    let Some(skew_ns) = report.start_skew_ns else { return String::new() };
    let head = ["agents", "requests", "errors", "p50", "p99", "lag p99", ""];
    let mut table = Table::new(head).at_least(TIME).with_notes();
    for of in &report.agents {
        let times = [of.latency_ns.p50, of.latency_ns.p99, of.schedule_lag_ns.p99];
        let [p50, p99, lag] = times.map(|ns| or_none(ns, ms));
        let (requests, errors) = (of.requests.to_string(), of.errors.total().to_string());
        let verdict = if of.valid { "valid" } else { "not valid" };
        table.row([&of.agent, &requests, &errors, &p50, &p99, &lag, verdict]);
    }
    let mut text = String::from("\n") + &table.bare();
    if report.agents.len() > 1 {
        text +=
            &format!("the agents started within {:.0} µs of each other\n", skew_ns as f64 / 1e3);
    }
    text
}

/// The quality of the timestamps that the kernel or a device took.
fn stamped(stamps: &Stamps) -> String {
    let Stamps { sent_coverage, received_coverage, cost_ns, clock_steps, .. } = stamps;
    let [sent, received] = [sent_coverage, received_coverage].map(|share| share * 100.0);
    if let Some(PastStack { device, in_driver, .. }) = &stamps.past_stack {
        let place = if *in_driver { "in its driver" } else { "after its driver" };
        return format!(
            "bypassed the network stack, on {device} {place}: {sent:.1} % of the requests, \
             {received:.1} % of the responses"
        );
    }
    let clocks: Vec<String> = stamps.hardware.iter().map(clock).collect();
    let of = if clocks.is_empty() { "the kernel".to_owned() } else { clocks.join(", ") };
    let mut text = format!(
        "timestamps from {of}: {sent:.1} % of the requests, {received:.1} % of the responses"
    );
    if clocks.is_empty() {
        let _ = write!(text, "; they cost {:.1} µs per packet", *cost_ns as f64 / 1e3);
    }
    if *clock_steps > 0 {
        let _ = write!(
            text,
            "; the clock was set {clock_steps} times, and earlier timestamps were dropped"
        );
    }
    if !clocks.is_empty() {
        return text;
    }
    match &stamps.hardware_clocks[..] {
        [] => text + "; no network device here has hardware timestamps",
        devices => {
            text + &format!(
                "; hardware timestamps are available on {} (--stamps hardware)",
                devices.join(", ")
            )
        }
    }
}

/// The clock of a device, and its difference from the system clock.
fn clock(of: &DeviceClock) -> String {
    let DeviceClock { device, clock, ahead_ns, within_ns } = of;
    let direction = if *ahead_ns < 0 { "behind" } else { "ahead of" };
    let apart = ahead_ns.unsigned_abs() as f64 / 1e9;
    let within_us = *within_ns as f64 / 1e3;
    format!("{device} ({clock}, {apart:.6} s {direction} the system clock, ±{within_us:.1} µs)")
}

/// When requests failed, and whether the server came back.
pub(super) fn when(failures: &Failures) -> String {
    let seconds = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
    let Failures { first, first_at_ns, last_at_ns, last_good_at_ns, since_last_good } = failures;
    let mut text = format!("first failure after {}: {first}", seconds(*first_at_ns));
    match last_good_at_ns {
        Some(good) if *since_last_good > 3 && good < last_at_ns => {
            let _ = write!(text, "; the last good response came after {}", seconds(*good));
            let _ = write!(text, ", and {since_last_good} requests have failed since");
        }
        _ if last_at_ns > first_at_ns => {
            let _ = write!(text, "; last failure after {}", seconds(*last_at_ns));
        }
        _ => {}
    }
    text
}

/// Behavior of the server that is not a failure, but that the user should know about.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let Report { sent_again, unasked, .. } = report;
    let again = format!(
        "sent again: {sent_again} times, a request was repeated on another connection because the \
         server had closed the first; each request counts once, from the time when it was due"
    );
    let unasked_for = format!(
        "extraneous data: {unasked} connections were closed because the server sent bytes after \
         its response"
    );
    let remarks = [(*sent_again, again), (*unasked, unasked_for)];
    remarks.into_iter().filter(|(count, _)| *count > 0).map(|(_, remark)| remark).collect()
}

/// Explains the dashes that stand for missing percentiles. Returns `None` if there are no
/// latencies, or if no percentile is missing. A withheld 99.9th percentile has its own line.
fn missing(latency: &Summary, withheld: bool) -> Option<String> {
    latency.max?;
    let of = [("p50", latency.p50, 500), ("p99", latency.p99, 10), ("p99.9", latency.p999, 1)];
    let missing =
        of.into_iter().filter(|(_, value, above)| value.is_none() && !(*above == 1 && withheld));
    let needs: Vec<String> = missing
        .map(|(name, _, above)| {
            format!("{name} needs {} good responses", SAMPLES_ABOVE_MIN * 1_000 / above)
        })
        .collect();
    let rule = format!("a percentile needs at least {SAMPLES_ABOVE_MIN} samples above it");
    (!needs.is_empty()).then(|| format!("{rule}; {}", needs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p99: Option<u64>, p999: Option<u64>, max: Option<u64>) -> Summary {
        Summary { p50: Some(1), p99, p999, max, ..Summary::default() }
    }

    #[test]
    fn a_clock_of_a_device_is_named_with_its_offset() {
        let at = |ahead_ns| {
            let [device, path] = ["eth7", "/dev/ptp0"].map(str::to_owned);
            clock(&DeviceClock { device, clock: path, ahead_ns, within_ns: 1_250 })
        };
        let expected = "eth7 (/dev/ptp0, 37.000002 s ahead of the system clock, ±1.2 µs)";
        assert_eq!(at(37_000_002_000), expected);
        assert!(at(-3_000).contains("0.000003 s behind the system clock"), "{}", at(-3_000));
    }

    #[test]
    fn a_lower_bound_is_marked_and_fits_its_column() {
        let of = Summary { p50: Some(0), p99: Some(10_003_415_039), ..latency(None, None, None) };
        let cells = bounded(&of, &["p99", "max"]);
        assert_eq!((cells[0].as_deref(), cells[3].as_deref()), (Some("0 ms"), Some("≥10000 ms")));
        let short = bounded(&latency(None, None, Some(999_400_000)), &["max"]);
        assert_eq!(short[5].as_deref(), Some("≥999.400 ms"));
        assert!(short.iter().flatten().all(|cell| cell.chars().count() < 13));
    }

    #[test]
    fn a_dash_has_its_reason() {
        assert_eq!(missing(&latency(Some(1), Some(1), Some(1)), false), None);
        assert_eq!(missing(&latency(None, None, None), false), None, "nothing was measured at all");
        let rule = "a percentile needs at least 10 samples above it; ";
        let of = |p99| missing(&latency(p99, None, Some(1)), false).expect("p99.9 is missing");
        assert_eq!(of(Some(1)), format!("{rule}p99.9 needs 10000 good responses"));
        let both = "p99 needs 1000 good responses, p99.9 needs 10000 good responses";
        assert_eq!(of(None), format!("{rule}{both}"));
        // A withheld p99.9 is explained on its own line.
        assert_eq!(missing(&latency(Some(1), None, Some(1)), true), None);
    }

    #[test]
    fn a_server_that_died_is_distinguished_from_one_that_came_back() {
        let failures = |since_last_good| Failures {
            first: "no response".to_owned(),
            first_at_ns: 300_000_000,
            last_at_ns: 900_000_000,
            last_good_at_ns: Some(310_000_000),
            since_last_good,
        };
        let first = "first failure after 0.30 s: no response; ";
        let died = "the last good response came after 0.31 s, and 38 requests have failed since";
        assert_eq!(when(&failures(38)), format!("{first}{died}"));
        assert_eq!(when(&failures(3)), format!("{first}last failure after 0.90 s"));
    }
}
