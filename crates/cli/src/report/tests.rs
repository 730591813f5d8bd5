//! Tests comparisons of runs.

use curtail_load::{Histogram, Intervals};
use proptest::prelude::*;

use super::page;
use super::run::{Document, Figures, Plan, Reported, Run, parsed as result};
use crate::page_check::look_at;

fn counted(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut counted = curtail_load::histogram();
    values.into_iter().for_each(|ms| counted.record(ms * 1_000_000).expect("in range"));
    counted
}

fn run(name: &str, values: impl IntoIterator<Item = u64>) -> Run {
    let counted = counted(values);
    let report = Reported {
        valid: true,
        invalid_because: Vec::new(),
        closed_loop: false,
        offered_rate: Some(100.0),
        achieved_rate: 99.5,
        requests: counted.len() + 2,
        errors: 2,
        withheld: None,
        latency_ci95_ns: Intervals::default(),
    };
    let result = Document { plan: Plan { target: "http://127.0.0.1:1/".to_owned() }, report };
    let none = curtail_load::histogram();
    Run::new(name.to_owned(), counted, &none, 10.0, Some(result))
}

fn text(runs: &[Run]) -> String {
    super::text(&Figures::of(runs))
}

fn page(runs: &[Run]) -> String {
    page::render(runs, &Figures::of(runs))
}

/// A run whose report `change` has modified.
fn changed(name: &str, change: impl Fn(&mut Reported)) -> Run {
    let mut run = run(name, 1..=2_000);
    change(&mut run.result.as_mut().expect("a run of ours").report);
    run
}

#[test]
fn an_invalid_run_has_its_reasons() {
    let bad = changed("b", |result| {
        (result.valid, result.withheld) = (false, Some(serde::de::IgnoredAny));
        let typed = serde_json::json!({ "kind": "fell_short", "text": "fell short" });
        result.invalid_because = vec![typed, "from an earlier version".into()];
    });
    let bare = Run { result: None, ..run("c", 1..=100) };
    let runs = [run("a", 1..=2_000), bad, bare];
    let figures = Figures::of(&runs);
    assert_eq!((figures[1].valid, figures[2].valid), (Some(false), None));
    assert!(figures[2].achieved_rate.is_some_and(|rate| (rate - 10.0).abs() < 1e-9));
    assert_eq!((figures[1].latency_ns.p99.is_some(), figures[1].latency_ns.p999), (true, None));
    let text = text(&runs);
    assert!(
        text.contains("\n  invalid: fell short\n  invalid: from an earlier version\n"),
        "{text}"
    );
    assert!(page(&runs).contains("<strong>b is not valid.</strong> fell short."));
}

#[test]
fn a_run_of_a_closed_loop_is_marked() {
    let closed = |result: &mut Reported| (result.closed_loop, result.offered_rate) = (true, None);
    let runs = [run("a", 1..=1_000), changed("b", closed)];
    let text = text(&runs);
    assert!(text.contains("\nb: http://127.0.0.1:1/, closed loop, achieved 99.5/s"), "{text}");
    assert_eq!(text.matches("the latencies exclude the wait of requests").count(), 1, "{text}");
    let page = page(&runs);
    assert!(page.contains("b is a closed loop.") && !page.contains("a is a closed loop"), "{page}");
    assert!(page.contains("<td>closed loop</td>"), "{page}");
}

#[test]
fn ratios_to_the_first_run_are_printed() {
    let text = text(&[run("before", 1..=2_000), run("after", (1..=2_000).map(|ms| 2 * ms))]);
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
fn confidence_intervals_are_below_the_ratios() {
    let sure = |name: &str, p99| {
        changed(name, |result| {
            result.latency_ci95_ns = Intervals { p99: Some(p99), ..Intervals::default() };
        })
    };
    let ms = 1_000_000;
    let all = [sure("before", [1_980 * ms, 1_980 * ms]), sure("after", [990 * ms, 3_960 * ms])];
    let text = text(&all);
    let line = text.lines().find(|line| line.contains("95 % CI")).expect("a line of intervals");
    let words: Vec<_> = line.split_whitespace().skip(3).collect();
    assert_eq!(words, ["–", "–", "×0.50–2.00", "–"], "{text}");
}

#[test]
fn the_page_is_well_formed_whatever_runs_are_called() {
    let runs = [run("<b>&\"", 1..=2_000), run("psq", 1..=15)];
    look_at(&page(&runs), |document| {
        let keys = document.descendants().filter(|node| node.has_tag_name("li"));
        let keys: Vec<_> = keys.filter_map(|node| node.last_child()?.text()).collect();
        assert!(keys.contains(&"<b>&\"") && keys.contains(&"psq"), "{keys:?}");
    });
}

/// A `result.json`, without the fields that the report does not read.
const RESULT: &str = r#"{"format": 1, "plan": {"target": "http://h/"}, "report": {"valid": false,
    "invalid_because": ["fell behind"], "offered_rate": 500.0, "achieved_rate": 499.5, "requests": 100,
    "errors": {"connect": 3, "reset": 18446744073709551615}, "withheld": null}}"#;

proptest! {
    #[test]
    fn any_text_is_a_result_or_an_error(at in 0..1_000_usize, length in 0..12_usize, with in "[0-9\\-e\"\\[},nul\u{1b}]{0,4}") {
        let from = at % RESULT.len();
        let mut text = RESULT.to_owned();
        text.replace_range(from..(from + length).min(RESULT.len()), &with);
        match result(&text) {
            Ok(result) => {
                prop_assert!(result.report.errors <= result.report.requests);
                // Any result that parses can be shown.
                let other = Run { result: Some(result), ..run("a\u{1b}[31m", 1..=20) };
                prop_assert!(!self::text(&[other.clone(), other]).is_empty());
            }
            Err(why) => prop_assert!(!why.is_empty()),
        }
    }
}
