//! Tests the content and the structure of a run's page.

use curtail_load::{
    Errors, Extent, Histogram, Intervals, Invalid, Note, Parts, Plan, Report, Splits, Summary,
};
use curtail_machine::Taken;

use super::document::{Document, Started};
use super::figures::{Figures, Series};
use super::page::{headline, render};
use crate::load::table::table;
use crate::page_check::look_at;

fn counted(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut counted = curtail_load::histogram();
    values.into_iter().for_each(|us| counted.record(us * 1_000).expect("in range"));
    counted
}

fn plan() -> Plan {
    let mut plan = Plan::new("http://127.0.0.1:1/a?b=<c>".parse().expect("a target"), 500.0);
    plan.headers = vec![("x-key".to_owned(), "secret".to_owned())];
    plan.extent = Extent::Requests(2_000);
    plan
}

/// A run of `requests` requests with latencies of 1 to 20 ms.
fn report(requests: u64) -> Report {
    let histogram = counted((1..=requests).map(|i| 1_000 + i * 19_000 / requests));
    let latency_ns = Summary::of(&histogram);
    let parts = Parts {
        schedule_lag: 1_000,
        client_send: 9_000,
        wire_to_wire: 9_990_000,
        client_wake_up: 0,
    };
    Report {
        stamps: None,
        valid: true,
        invalid_because: Vec::new(),
        partial: false,
        closed_loop: false,
        measured_ns: 4_000_000_000,
        offered_rate: Some(500.0),
        achieved_rate: 499.0,
        requests,
        errors: Errors::default(),
        sent: requests,
        planned_rate: Some(500.0),
        latency_ns,
        latency_at_least: Vec::new(),
        latency_ci95_ns: Intervals { p50: Some([9_000_000, 11_000_000]), ..Intervals::default() },
        split_ns: Splits { p50: latency_ns.p50.map(|_| parts), ..Splits::default() },
        withheld: None,
        uncorrected_ns: latency_ns,
        schedule_lag_ns: Summary::default(),
        arrival_test: None,
        notes: Vec::new(),
        sender: None,
        machine: None,
        sent_again: 0,
        unasked: 0,
        connections_opened: 3,
        failures: None,
        agents: Vec::new(),
        start_skew_ns: None,
        unobserved: 0,
        uncorrected_histogram: histogram.clone(),
        at_least_histogram: curtail_load::histogram(),
        histogram,
    }
}

fn page(report: &Report) -> String {
    let plan = plan();
    let mut series = Series::default();
    for at in 0..4_u64 {
        series.add(at * 500_000_000..(at + 1) * 500_000_000, &report.histogram);
    }
    let started = Started::now();
    let document = Document::new(&plan, report, &started);
    render(&document, &Figures { plan: &plan, report, series: &series })
}

#[test]
fn the_page_is_self_contained_and_has_all_figures_if_there_is_enough_data() {
    let mut lacking = report(0);
    lacking.unobserved = 3;
    for (report, is_enough) in [(report(2_000), true), (report(5), false), (lacking, false)] {
        let page = page(&report);
        assert!(!page.contains("secret"), "headers may contain secrets");
        let too_few = "Too few good responses for a distribution.";
        assert_eq!(page.contains(too_few), !is_enough);
        look_at(&page, |document| {
            for id in ["ccdf", "cdf", "parts", "over-time", "rate"].iter().filter(|_| is_enough) {
                for end in ["", "-narrow"] {
                    let title = format!("{id}{end}-title");
                    let mut ids = document.descendants().filter_map(|node| node.attribute("id"));
                    assert!(ids.any(|id| id == title), "{title}");
                }
            }
        });
    }
}

#[test]
fn the_headline_is_the_verdict() {
    let mut report = report(2_000);
    let (text, but) = headline(&report);
    assert_eq!(
        text,
        "Valid: 499 of 500 requests per second succeeded: half within 10.5 ms, 99 % within 19.8 ms."
    );
    assert!(but.is_empty());
    report.invalid_because =
        vec![Invalid::Interrupted { requests: 2_000 }, Invalid::NothingMeasured { requests: 0 }];
    let (text, but) = headline(&report);
    assert!(text.starts_with("Not valid: interrupted"), "{text}");
    assert!(but[0].starts_with("Also: ") && but[1].starts_with("499 of 500 requests"), "{but:?}");
}

#[test]
fn the_table_begins_with_a_busy_machine_and_reports_the_plan() {
    let taken = Taken { others: 0.83, stolen: 0.0, stalled: None };
    let busy = Note::BusyMachine { agent: None, taken };
    let other = Note::SenderSpent { idle: 0.0 };
    let report = Report { notes: vec![other, busy.clone()], ..report(2_000) };
    let text = table(&report);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(&format!("note: {busy}")[..]), "{text}");
    let plan = "offered 500.0/s, planned 500.0/s (all sent), achieved 499.0/s, 2000 requests, 0 \
                without a good response";
    assert_eq!(lines.nth(1), Some(plan), "{text}");
    assert!(text.contains("\nnote: a sending thread was idle for only 0 % of the time"), "{text}");
    let late = Report { sent: 1_990, ..self::report(2_000) };
    assert!(table(&late).starts_with("offered 500.0/s, planned 500.0/s (1990 of 2000 sent), "));
    // The page contains all notes.
    assert!(page(&report).contains("Note: these figures describe this machine"));
}

#[test]
fn a_figure_that_failures_raise_is_a_lower_bound() {
    let mut report = report(2_000);
    report.at_least_histogram.record_n(10_000_000_000, 40).expect("in range");
    report.latency_ns = Summary::of(&report.all());
    report.latency_at_least = report.latency_ns.lower_bounds(&report.histogram, &report.all());
    assert_eq!(report.latency_at_least, ["p99", "max", "mean"]);
    let text = table(&report);
    let line = text.lines().find(|line| line.starts_with("latency")).expect("the latencies");
    assert_eq!(line.matches("≥10").count(), 2, "{line}");
    assert!(
        text.contains("≥: a lower bound; a failed request counts as at least the timeout"),
        "{text}"
    );
    let (headline, _) = headline(&report);
    assert!(headline.contains("half within") && !headline.contains("99 %"), "{headline}");
}
