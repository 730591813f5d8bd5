//! Runs side by side and added up.

use std::path::Path;
use std::time::Duration;

use curtail_dist::{LogReader, LogWriter};
use curtail_load::{Histogram, Intervals};
use proptest::prelude::*;
use roxmltree::Document;

use super::read::{counted as read_log, told};
use super::run::{Run, Told, merged};
use super::{page, table};
use crate::exit::Stop;

fn counted(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut counted = curtail_load::histogram();
    values.into_iter().for_each(|ms| counted.record(ms * 1_000_000).expect("in range"));
    counted
}

fn run(name: &str, values: impl IntoIterator<Item = u64>) -> Run {
    let counted = counted(values);
    let told = Told {
        target: "http://127.0.0.1:1/".to_owned(),
        valid: true,
        invalid_because: Vec::new(),
        closed_loop: false,
        seconds: Some(10.0),
        seed: Some(1),
        started_utc_s: None,
        offered_rate: Some(100.0),
        achieved_rate: 99.5,
        requests: counted.len() + 2,
        errors: 2,
        withheld: false,
        intervals: Intervals::default(),
    };
    Run { name: name.to_owned(), counted, seconds: 10.0, told: Some(told), apart: None }
}

#[test]
fn a_merged_load_has_all_counts_and_the_sum_of_the_rates() {
    let runs = [run("a", 1..=1_000), run("b", 501..=1_500)];
    let sum = merged(&runs).expect("of one kind");
    assert_eq!(sum.counted, counted((1..=1_000).chain(501..=1_500)));
    let figures = sum.figures(None);
    assert_eq!((figures.offered_rate, figures.achieved_rate), (Some(200.0), Some(199.0)));
    assert_eq!(
        (figures.requests, figures.errors, figures.valid),
        (Some(2_004), Some(4), Some(true))
    );
}

#[test]
fn one_run_that_is_not_valid_or_not_known_makes_the_sum_so() {
    let mut bad = run("b", 1..=100);
    let told = bad.told.as_mut().expect("a run of ours");
    (told.valid, told.withheld) = (false, true);
    told.invalid_because.push("fell behind".to_owned());
    let sum = merged(&[run("a", 1..=30_000), bad]).expect("of one kind").figures(None);
    assert_eq!(
        (sum.valid, &sum.invalid_because[..]),
        (Some(false), &["b: fell behind".to_owned()][..])
    );
    assert_eq!((sum.latency_ns.p99.is_some(), sum.latency_ns.p999), (true, None));
    let bare = Run { told: None, ..run("c", 1..=100) };
    let sum = merged(&[run("a", 1..=100), bare]).expect("of one kind").figures(None);
    assert_eq!((sum.valid, sum.offered_rate, sum.requests), (None, None, None));
    assert!(sum.achieved_rate.is_some_and(|rate| (rate - 109.5).abs() < 1e-9));
}

/// A run, changed so.
fn changed(name: &str, change: impl Fn(&mut Told)) -> Run {
    let mut run = run(name, 1..=1_000);
    change(run.told.as_mut().expect("a run of ours"));
    run
}

fn closed(name: &str) -> Run {
    changed(name, |told| (told.closed_loop, told.offered_rate) = (true, None))
}

#[test]
fn runs_of_an_open_and_of_a_closed_loop_are_not_added_up() {
    let Err(Stop::BadInput(why)) = merged(&[run("a", 1..=1_000), closed("b")]) else {
        panic!("refused");
    };
    assert!(why.contains("--merge: b is of a closed loop, and a of an open one"), "{why}");
    // What two machines get is what both get.
    let sum = merged(&[closed("a"), closed("b")]).expect("of one kind").figures(None);
    assert_eq!((sum.closed_loop, sum.offered_rate), (Some(true), None));
}

#[test]
fn a_run_of_a_closed_loop_is_marked() {
    let runs = [run("a", 1..=1_000), closed("b")];
    let text = table::text(None, &runs);
    assert!(text.contains("\nb: http://127.0.0.1:1/, closed loop, achieved 99.5/s"), "{text}");
    assert_eq!(text.matches("the latencies leave out what others would wait").count(), 1, "{text}");
    let page = page::render(None, &runs);
    assert!(page.contains("b is of a closed loop.") && !page.contains("a is of"), "{page}");
    assert!(page.contains("<td>closed loop</td>"), "{page}");
}

#[test]
fn parts_that_are_not_as_long_are_no_load() {
    let long = |seconds| changed("b", |told| told.seconds = Some(seconds));
    let runs = [run("a", 1..=1_000), long(3.0)];
    let sum = merged(&runs).expect("of one kind");
    let figures = sum.figures(None);
    assert_eq!(figures.valid, Some(false));
    let why = "not as long: b took 3.0 s, and a 10.0 s";
    assert!(figures.invalid_because[0].starts_with(why), "{:?}", figures.invalid_because);
    let text = table::text(Some(&sum), &runs);
    assert!(text.contains(&format!("\n  invalid: {why}")), "{text}");
    assert!(!text.contains("not all of its runs"), "they are: {text}");
    assert!(
        page::render(Some(&sum), &runs).contains("<strong>merged is not valid.</strong> not as")
    );
    let alike = merged(&[run("a", 1..=1_000), long(9.5)]).expect("of one kind").figures(None);
    assert_eq!(alike.valid, Some(true));
}

#[test]
fn a_run_without_latencies_fits_to_any() {
    let ours = run("a", 1..=1_000);
    let mut coarse = Histogram::new_with_bounds(1_000, 10_000_000_000, 3).expect("in range");
    coarse.record(5_000_000).expect("in range");
    let none = |name: &str| run(name, []);
    let old = Run { name: "old".to_owned(), counted: coarse, ..ours.clone() };
    for runs in [[none("n"), old.clone()], [old.clone(), none("n")]] {
        assert_eq!(merged(&runs).expect("nothing is to be added up").counted.len(), 1);
    }
    let Err(Stop::BadInput(why)) = merged(&[ours, none("n"), old]) else { panic!("refused") };
    assert!(why.contains("old keeps 3 digits from 1000 ns on, and a 3 from 1 ns on"), "{why}");
    assert_eq!(merged(&[none("n"), none("m")]).expect("of one kind").counted.len(), 0);
}

#[test]
fn a_copy_of_a_run_is_not_added_to_it() {
    let at = |name: &str, start| changed(name, |told| told.started_utc_s = Some(start));
    let Err(Stop::BadInput(why)) = merged(&[at("a", 5.0), at("b", 6.0), at("c", 5.0)]) else {
        panic!("refused");
    };
    assert!(why.contains("--merge: c is the same run as a"), "{why}");
    assert!(merged(&[at("a", 5.0), at("b", 6.0)]).is_ok());
}

#[test]
fn how_long_a_run_was_is_read_where_it_is_told() {
    let of = |report: &str| {
        let text = RESULT.replace("18446744073709551615", "0");
        told(&text.replace("\"valid\"", &format!("{report}\"valid\""))).expect("a result").seconds
    };
    assert_eq!(of(r#""measured_ns": 2500000000, "#), Some(2.5));
    assert_eq!(of(""), None, "of an earlier version");
}

#[test]
fn percentiles_stand_over_those_of_the_first_run() {
    let text =
        table::text(None, &[run("before", 1..=2_000), run("after", (1..=2_000).map(|ms| 2 * ms))]);
    let last = text.lines().rev().nth(2).expect("a line of ratios");
    assert_eq!(
        last.split_whitespace().collect::<Vec<_>>(),
        ["×2.00", "×2.00", "×2.00", "–", "×2.00"]
    );
    assert!(
        text.contains(
            "before: http://127.0.0.1:1/, offered 100.0/s, achieved 99.5/s, 2002 requests"
        )
    );
}

#[test]
fn below_the_ratios_stands_how_sure_they_are() {
    let sure = |name: &str, p99| {
        let mut run = run(name, 1..=2_000);
        run.told.as_mut().expect("a run of ours").intervals =
            Intervals { p99: Some(p99), ..Intervals::default() };
        run
    };
    let ms = 1_000_000;
    let all = [sure("before", [1_980 * ms, 1_980 * ms]), sure("after", [990 * ms, 3_960 * ms])];
    let text = table::text(None, &all);
    let line = text.lines().find(|line| line.contains("95 % sure")).expect("a line of intervals");
    let words: Vec<_> = line.split_whitespace().skip(3).collect();
    assert_eq!(words, ["–", "–", "×0.50–2.00", "–"], "{text}");
}

#[test]
fn the_page_is_well_formed_whatever_runs_are_called() {
    let runs = [run("<b>&\"", 1..=2_000), run("psq", 1..=15)];
    let sum = merged(&runs).expect("of one kind");
    for page in [page::render(None, &runs), page::render(Some(&sum), &runs)] {
        let xml = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
        let document = Document::parse(xml).unwrap_or_else(|error| panic!("{error}"));
        assert!(!document.descendants().any(|node| node.has_tag_name("script")));
        let keys = document.descendants().filter(|node| node.has_tag_name("li"));
        let keys: Vec<_> = keys.filter_map(|node| node.last_child()?.text()).collect();
        assert!(keys.contains(&"<b>&\"") && keys.contains(&"psq"), "{keys:?}");
    }
}

/// What a run writes, but for what nobody reads.
const RESULT: &str = r#"{"format": 1, "plan": {"target": "http://h/"}, "report": {"valid": false,
    "invalid_because": ["fell behind"], "offered_rate": 500.0, "achieved_rate": 499.5, "requests": 100,
    "errors": {"connect": 3, "reset": 18446744073709551615}, "withheld": null}}"#;

/// A log with two intervals.
fn log() -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = LogWriter::new(&mut text, "of a test", Duration::ZERO).expect("memory");
    for at in 0..2 {
        let (from, length) = (Duration::from_secs(at), Duration::from_secs(1));
        writer.write(&counted([1, 5, 7_000]), from, length).expect("memory");
    }
    text
}

/// With some bytes of it replaced by others.
fn spoiled(mut bytes: Vec<u8>, (from, length): (usize, usize), with: &[u8]) -> Vec<u8> {
    let from = from % bytes.len();
    let until = (from + length).min(bytes.len());
    bytes.splice(from..until, with.iter().copied());
    bytes
}

const PIECES: &[&str] = &[
    "1",
    "-",
    "0",
    "e999",
    "18446744073709551615",
    "null",
    "\"",
    "[",
    "}",
    "\n",
    ",",
    "Tag=a,",
    "\u{1b}",
];

fn with() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(PIECES), 0..3)
            .prop_map(|texts| texts.concat().into()),
        prop::collection::vec(any::<u8>(), 0..4),
    ]
}

proptest! {
    #[test]
    fn no_result_is_too_strange(at in (0..1_000_usize, 0..12_usize), with in with()) {
        let text = String::from_utf8_lossy(&spoiled(RESULT.into(), at, &with)).into_owned();
        match told(&text) {
            Ok(told) => {
                prop_assert!(told.errors <= told.requests);
                // Whatever it claims can be added up and shown.
                let other = Run { told: Some(told), ..run("a\u{1b}[31m", 1..=20) };
                let runs = [other.clone(), other];
                let sum = merged(&runs).expect("of one kind");
                prop_assert!(!table::text(Some(&sum), &runs).is_empty());
                prop_assert!(!table::text(None, &runs).is_empty());
            }
            Err(why) => prop_assert!(!why.is_empty()),
        }
    }

    #[test]
    fn no_log_is_too_strange(at in (0..4_000_usize, 0..40_usize), with in with()) {
        let bytes = spoiled(log(), at, &with);
        if let Ok((counted, seconds)) = read_log(LogReader::over(&bytes[..], Path::new("a.hlog")), Path::new("a.hlog")) {
            prop_assert!(!counted.is_empty() && !seconds.is_nan());
            let bare = Run { name: "bare".to_owned(), counted, seconds, told: None, apart: None };
            let runs = [bare, run("ours", 1..=20)];
            prop_assert!(!table::text(None, &runs).is_empty());
            let _ = merged(&runs);
        }
    }
}
