//! Runs side by side and added up.

use curtail_load::{Histogram, Intervals};
use roxmltree::Document;

use super::run::{Run, Told, merged};
use super::{page, table};

fn counted(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut counted = Histogram::new_with_bounds(1_000, 61_000_000_000, 3).expect("constants");
    values.into_iter().for_each(|ms| counted.record(ms * 1_000_000).expect("in range"));
    counted
}

fn run(name: &str, values: impl IntoIterator<Item = u64>) -> Run {
    let counted = counted(values);
    let told = Told {
        target: "http://127.0.0.1:1/".to_owned(),
        valid: true,
        invalid_because: Vec::new(),
        offered_rate: Some(100.0),
        achieved_rate: 99.5,
        requests: counted.len() + 2,
        errors: 2,
        withheld: false,
        intervals: Intervals::default(),
    };
    Run { name: name.to_owned(), counted, seconds: 10.0, told: Some(told) }
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
