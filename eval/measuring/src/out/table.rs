//! The tables: latencies, agreement, the order of configurations, and the figures of the thesis.

use std::fmt::Write as _;

use curtail_load::Histogram;

use crate::agreement::{self, at};
use crate::function::{Function, Subject};
use crate::method::Method;
use crate::processors::Configuration;
use crate::run::{MethodSlices, Results};
use crate::slice::Slice;
use curtail_plot::format::{NONE, three};

/// The percentiles that a table row contains.
const COLUMNS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

/// The percentiles at which configurations are ranked.
const ORDERED_AT: [f64; 3] = [50.0, 99.0, 99.9];

pub(crate) fn text(results: &Results) -> String {
    let mut text = String::new();
    let size = results.size;
    let _ = writeln!(
        text,
        "{} packets of 64 bytes per second; {} turns of {} s each; times in µs; \
         generator on processor {}, function and antagonist on {}\n",
        size.rate,
        size.repetitions,
        size.seconds,
        results.places.generator,
        results.places.function
    );
    text += &latencies(results);
    text += "\n";
    text += &agreement(results);
    text += "\n";
    text += &order(results);
    text += "\n";
    text + &thesis(results)
}

/// Formats a row. The first column is aligned left, the others right.
fn row(first: &str, others: &[String], widths: &[usize]) -> String {
    let mut line = format!("{first:<9}");
    for (cell, width) in others.iter().zip(widths) {
        let _ = write!(line, "{cell:>width$}");
    }
    line.trim_end().to_owned() + "\n"
}

fn latencies(results: &Results) -> String {
    const WIDTHS: [usize; 15] = [8, 8, 8, 8, 8, 8, 15, 17, 11, 8, 8, 8, 8, 11, 7];
    let head = [
        "min",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "p50 of turns",
        "p99 of turns",
        "taps: p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "packets/s",
        "lost",
    ];
    let mut text = row("by", &head.map(str::to_owned), &WIDTHS);
    for subject in Subject::all() {
        let _ = writeln!(text, "{subject}");
        for method in Method::ALL {
            let Some(cell) = results.cell(subject, method) else { continue };
            let (measured, tapped) = (cell.sum(|s| &s.measured), cell.sum(|s| &s.tapped));
            let mut cells = vec![micros(Some(measured.min()))];
            cells.extend(COLUMNS.map(|percent| micros(at(&measured, percent))));
            cells.push(micros(Some(measured.max())));
            cells.extend([50.0, 99.0].map(|percent| spread(cell, percent)));
            cells.extend(COLUMNS.map(|percent| micros(at(&tapped, percent))));
            cells.push(micros(Some(tapped.max())));
            cells.push(format!("{:.0}", cell.mean(|s| s.achieved)));
            cells.push(cell.total(|s| s.lost + s.unstamped).to_string());
            text += &row(&format!("  {method}"), &cells, &WIDTHS);
        }
    }
    text
}

/// Formats the lowest and the highest value of a percentile over the turns.
fn spread(cell: &MethodSlices, percent: f64) -> String {
    let of = |slice: &Slice| at(&slice.measured, percent);
    let all: Option<Vec<u64>> = cell.slices.iter().map(of).collect();
    let ends = all.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    ends.map_or_else(
        || NONE.to_owned(),
        |(low, high)| format!("{}–{}", micros(Some(low)), micros(Some(high))),
    )
}

fn micros(ns: Option<u64>) -> String {
    ns.map_or_else(|| NONE.to_owned(), |ns| three(ns as f64 / 1e3))
}

/// Formats a percentile, such as `p99.9`.
fn percentile(percent: Option<f64>) -> String {
    percent.map_or_else(|| NONE.to_owned(), |percent| format!("p{percent}"))
}

/// Returns the highest percentile at which a method agrees with the taps, the highest percentile
/// after the method's offset at the median is subtracted, and that offset in ns.
fn agreed_up_to(cell: &MethodSlices) -> (Option<f64>, Option<f64>, f64) {
    let (measured, tapped) = (cell.sum(|s| &s.measured), cell.sum(|s| &s.tapped));
    let offset_ns = agreement::offset_ns(&measured, &tapped);
    let up_to = |offset_ns| agreement::up_to(&measured, &tapped, offset_ns);
    (up_to(0.0), up_to(offset_ns), offset_ns)
}

fn agreement(results: &Results) -> String {
    let mut text = String::from(
        "Highest percentile at which a method agrees with the taps (within 1 µs or 10 %):\n\
         unchanged / after its offset at the median is subtracted (in parentheses, in µs)\n",
    );
    let _ = write!(text, "{:<44}", "");
    for method in Method::ALL {
        let _ = write!(text, "{:>26}", method.name());
    }
    text += "\n";
    for subject in Subject::all() {
        let _ = write!(text, "{:<44}", subject.to_string());
        for method in Method::ALL {
            let cell = results.cell(subject, method).map_or_else(
                || NONE.to_owned(),
                |cell| {
                    let (plain, less, offset_ns) = agreed_up_to(cell);
                    let off = three(offset_ns / 1e3);
                    format!("{} / {} ({off})", percentile(plain), percentile(less))
                },
            );
            let _ = write!(text, "{cell:>26}");
        }
        text += "\n";
    }
    text
}

/// For each method and percentile, counts pairs of configurations: first the pairs that the method
/// ranks as the taps do, then all pairs that the taps distinguish.
pub(super) fn orders(results: &Results) -> Vec<(Method, f64, (usize, usize))> {
    let mut all = Vec::new();
    for method in Method::ALL {
        for percent in ORDERED_AT {
            let (mut right, mut pairs) = (0, 0);
            for function in [Function::Sockets, Function::Xdp] {
                for antagonist in [false, true] {
                    let of = |configuration| {
                        let configuration = Some(configuration);
                        let subject = Subject { function, configuration, antagonist };
                        let cell = results.cell(subject, method)?;
                        let at = |of: Histogram<u64>| at(&of, percent);
                        at(cell.sum(|s| &s.measured)).zip(at(cell.sum(|s| &s.tapped)))
                    };
                    let latencies: Vec<_> = Configuration::ALL.into_iter().filter_map(of).collect();
                    let (these, those) = agreement::in_order(&latencies);
                    (right, pairs) = (right + these, pairs + those);
                }
            }
            all.push((method, percent, (right, pairs)));
        }
    }
    all
}

fn order(results: &Results) -> String {
    let mut text = String::from(
        "Pairs of configurations that the taps distinguish, and that the method puts in the same \
         order\n",
    );
    let orders = orders(results);
    for method in Method::ALL {
        let _ = write!(text, "{:<9}", method.name());
        for (_, percent, (right, pairs)) in orders.iter().filter(|of| of.0 == method) {
            let _ = write!(text, "  {:>6} {right:>2} of {pairs:<2}", percentile(Some(*percent)));
        }
        text += "\n";
    }
    text
}

/// Returns the claims of document 000, §3.3 about the hardware switch, each with our figure.
fn claims(results: &Results) -> Vec<(&'static str, &'static str, String)> {
    let switch = Subject { function: Function::Switch, configuration: None, antagonist: false };
    let of = |method| results.cell(switch, method);
    let added = |method| {
        of(method).map_or_else(
            || NONE.to_owned(),
            |cell: &MethodSlices| {
                let added = cell.sum(|s| &s.added);
                let at = |percent| micros(at(&added, percent));
                format!("p50 {}, p99 {}, p99.9 {}", at(50.0), at(99.0), at(99.9))
            },
        )
    };
    let mut taps = crate::slice::nanoseconds();
    for cell in Method::ALL.into_iter().filter_map(of) {
        taps.add(cell.sum(|s| &s.tapped)).expect("they have the same bounds");
    }
    let spread = if taps.is_empty() {
        NONE.to_owned()
    } else {
        let at = |percent| micros(at(&taps, percent));
        let ends = [taps.min(), taps.max()].map(|ns| micros(Some(ns)));
        format!("{}, p50 {}, p99.9 {}, {}", ends[0], at(50.0), at(99.9), ends[1])
    };
    vec![
        ("switch, most precise method: min to max", "2.24 to 2.52 (Spirent)", spread),
        ("error, kernel timestamps", "0.3, < 1 up to p99.99 (NIC)", added(Method::Kernel)),
        ("error, network stack bypassed", "4 to 5; 5 to 10 (TRex)", added(Method::Xdp)),
        ("error, polled sockets", "not measured", added(Method::Software)),
        ("error, blocking sockets", "17 or more (netperf)", added(Method::Blocking)),
    ]
}

fn thesis(results: &Results) -> String {
    let mut text = format!("{:<46}{:<30}ours, µs\n", "the switch", "thesis, µs");
    for (claim, published, ours) in claims(results) {
        let _ = writeln!(text, "{claim:<46}{published:<30}{ours}");
    }
    text
}
