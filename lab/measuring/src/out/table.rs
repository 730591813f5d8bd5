//! The tables: latencies, agreement, the order of configurations, and the figures of the thesis.

use curtail_load::Histogram;
use curtail_report::number::{NONE, three};

use super::figures::tapped;
use crate::agreement::{agreed, at, in_order};
use crate::function::{Function, Subject};
use crate::method::Method;
use crate::run::{Cell, Results};

/// The percentiles that a table row contains.
const COLUMNS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
/// The percentiles at which configurations are ranked.
const ORDERED_AT: [f64; 3] = [50.0, 99.0, 99.9];

pub(crate) fn text(results: &Results) -> String {
    let (size, places) = (results.size, results.places);
    let head = format!(
        "{} packets of 64 bytes per second; {} turns of {} s each; times in µs; \
         generator on processor {}, function and antagonist on {}\n",
        size.rate, size.repetitions, size.seconds, places.generator, places.function
    );
    [head, latencies(results), agreement(results), order(results), thesis(results)].join("\n")
}

fn micros(ns: u64) -> String {
    three(ns as f64 / 1e3)
}

/// Formats a percentile of latencies.
fn latency(of: &Histogram<u64>, percent: f64) -> String {
    at(of, percent).map_or_else(|| NONE.to_owned(), micros)
}

fn latencies(results: &Results) -> String {
    const HEAD: [(&str, usize); 15] = [
        ("min", 8),
        ("p50", 8),
        ("p99", 8),
        ("p99.9", 8),
        ("p99.99", 8),
        ("max", 8),
        ("p50 of turns", 15),
        ("p99 of turns", 17),
        ("taps: p50", 11),
        ("p99", 8),
        ("p99.9", 8),
        ("p99.99", 8),
        ("max", 8),
        ("packets/s", 11),
        ("lost", 7),
    ];
    let row = |first: &str, cells: &[String]| {
        let cells = cells.iter().zip(HEAD).map(|(cell, (_, width))| format!("{cell:>width$}"));
        format!("{first:<9}{}\n", cells.collect::<String>())
    };
    let mut text = row("by", &HEAD.map(|(name, _)| name.to_owned()));
    for subject in Subject::all() {
        text += &format!("{subject}\n");
        for cell in results.of(subject) {
            let (measured, tapped) = (&cell.all.measured, &cell.all.tapped);
            let mut cells = vec![micros(measured.min())];
            cells.extend(COLUMNS.map(|percent| latency(measured, percent)));
            cells.push(micros(measured.max()));
            cells.extend([50.0, 99.0].map(|percent| spread(cell, percent)));
            cells.extend(COLUMNS.map(|percent| latency(tapped, percent)));
            cells.push(micros(tapped.max()));
            cells.push(format!("{:.0}", cell.all.achieved));
            cells.push(cell.all.lost().to_string());
            text += &row(&format!("  {}", cell.method), &cells);
        }
    }
    text
}

/// Formats the lowest and the highest value of a percentile over the turns.
fn spread(cell: &Cell, percent: f64) -> String {
    let turns = cell.turns.iter().map(|turn| at(&turn.measured, percent));
    let all: Option<Vec<u64>> = turns.collect();
    let ends = all.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    ends.map_or_else(|| NONE.to_owned(), |(low, high)| format!("{}–{}", micros(low), micros(high)))
}

/// Formats a percentile, such as `p99.9`.
fn percentile(percent: Option<f64>) -> String {
    percent.map_or_else(|| NONE.to_owned(), |percent| format!("p{percent}"))
}

fn agreement(results: &Results) -> String {
    let heads: String = Method::ALL.map(|method| format!("{:>26}", method.name())).concat();
    let mut text = format!(
        "Highest percentile at which a method agrees with the taps (within 1 µs or 10 %):\n\
         unchanged / after its offset at the median is subtracted (in parentheses, in µs)\n\
         {:<44}{heads}\n",
        ""
    );
    for subject in Subject::all() {
        let cells = Method::ALL.map(|method| {
            let Some(cell) = results.cell(subject, method) else { return format!("{NONE:>26}") };
            let agreed = agreed(&cell.all.measured, &cell.all.tapped);
            let (plain, less) = (percentile(agreed.up_to), percentile(agreed.less_offset_up_to));
            let cell = format!("{plain} / {less} ({})", three(agreed.offset_ns / 1e3));
            format!("{cell:>26}")
        });
        text += &format!("{:<44}{}\n", subject.to_string(), cells.concat());
    }
    text
}

/// For each method and percentile, counts pairs of configurations.
fn order(results: &Results) -> String {
    let mut text = String::from(
        "Pairs of configurations that the taps distinguish, and that the method puts in the same \
         order\n",
    );
    for method in Method::ALL {
        text += &format!("{:<9}", method.name());
        for percent in ORDERED_AT {
            let (mut right, mut pairs) = (0, 0);
            for function in [Function::Sockets, Function::Xdp] {
                for antagonist in [false, true] {
                    let of = |subject| {
                        let all = &results.cell(subject, method)?.all;
                        at(&all.measured, percent).zip(at(&all.tapped, percent))
                    };
                    let subjects = Subject::all_of(function, antagonist).into_iter();
                    let (these, those) = in_order(&subjects.filter_map(of).collect::<Vec<_>>());
                    (right, pairs) = (right + these, pairs + those);
                }
            }
            text += &format!("  {:>6} {right:>2} of {pairs:<2}", percentile(Some(percent)));
        }
        text += "\n";
    }
    text
}

/// Returns the claims of document 000, §3.3 about the hardware switch, each with our figure.
fn thesis(results: &Results) -> String {
    let switch = Subject::switch(false);
    let added = |method| {
        let Some(cell) = results.cell(switch, method) else { return NONE.to_owned() };
        let at = |percent| latency(&cell.all.added, percent);
        format!("p50 {}, p99 {}, p99.9 {}", at(50.0), at(99.0), at(99.9))
    };
    let taps = tapped(results, switch);
    let spread = if taps.is_empty() {
        NONE.to_owned()
    } else {
        let (low, high) = (micros(taps.min()), micros(taps.max()));
        format!("{low}, p50 {}, p99.9 {}, {high}", latency(&taps, 50.0), latency(&taps, 99.9))
    };
    let rows = [
        ("the switch", "thesis, µs", "ours, µs".to_owned()),
        ("switch, most precise method: min to max", "2.24 to 2.52 (Spirent)", spread),
        ("error, kernel timestamps", "0.3, < 1 up to p99.99 (NIC)", added(Method::Kernel)),
        ("error, network stack bypassed", "4 to 5; 5 to 10 (TRex)", added(Method::Xdp)),
        ("error, polled sockets", "not measured", added(Method::Software)),
        ("error, blocking sockets", "17 or more (netperf)", added(Method::Blocking)),
    ];
    let row = |(claim, published, ours): (&str, &str, String)| {
        format!("{claim:<46}{published:<30}{ours}\n")
    };
    rows.map(row).concat()
}
