//! Tests changes during a run: their effect on later requests, and the report by window.

use crate::common::{assert_close, assert_same, percentile, run, run_one, with};
use curtail_sim::{Outcome, Parameters, Unstable, Window};

fn world() -> Parameters {
    with("shards = 4, jitter = 'bimodal:0.02:10', requests = 20_000, replications = 3")
}

fn changed(change: &[&str], parameters: &Parameters) -> Parameters {
    let change = change.iter().map(ToString::to_string).collect();
    Parameters { change, ..parameters.clone() }
}

fn windows(outcome: &Outcome) -> &[Window] {
    outcome.windows.as_deref().expect("the experiment has windows")
}

#[track_caller]
fn p(window: &Window, percentile: f64) -> f64 {
    let found = window.percentiles.iter().find(|(p, _)| *p == percentile);
    found.and_then(|&(_, figure)| figure).expect("enough samples")
}

const POLICIES: [&str; 3] = ["psq", "laedge:cc", "delayed:2"];

#[test]
fn a_change_after_the_end_has_no_effect() {
    let before = run(&world(), &POLICIES);
    for at in [20_000, u64::MAX] {
        let late = Parameters { change_at: Some(at), window: Some(100), ..world() };
        let late = changed(&["service=exp:50", "jitter=none", "speeds=1,0.1"], &late);
        for (outcome, before) in run(&late, &POLICIES).iter().zip(&before) {
            assert_same(outcome, before);
            assert_eq!(windows(outcome), []);
        }
    }
}

#[test]
fn a_change_to_equal_values_has_no_effect() {
    // Draws of a distribution with a single term do not depend on where blocks of arrivals end.
    let same = ["service=exp:1", "jitter=bimodal:0.02:10", "speeds=1,1"];
    let before = run(&world(), &POLICIES);
    for change_at in [Some(0), Some(5), None, Some(12_345)] {
        let same = changed(&same, &Parameters { change_at, ..world() });
        for (outcome, before) in run(&same, &POLICIES).iter().zip(&before) {
            assert_eq!(outcome.histogram, before.histogram, "{change_at:?}");
            assert!(outcome.windows.is_none());
        }
    }
}

#[test]
fn a_change_at_the_first_request_equals_another_world() {
    let at_once = Parameters { change_at: Some(0), ..world() };
    let changes = ["service=det:2", "jitter=exp:0.5"];
    let outcomes = run(&changed(&changes, &at_once), &POLICIES);
    let (service, jitter) = ("det:2".to_owned(), Some("exp:0.5".to_owned()));
    let others = run(&Parameters { service, jitter, ..world() }, &POLICIES);
    for (outcome, other) in outcomes.iter().zip(&others) {
        assert_same(outcome, other);
    }
    let slow = run_one(&changed(&["speeds=0.5,0.5"], &at_once), "psq");
    let speeds = vec![0.5; 2];
    let other = run_one(&Parameters { speeds, utilization: 0.6, ..world() }, "psq");
    assert_eq!(slow.histogram, other.histogram, "arrivals are those of the speeds before");
}

#[test]
fn after_hiccups_end_windows_equal_those_without_hiccups() {
    let windowed = Parameters { window: Some(6_000), ..world() };
    let outcomes = run(&changed(&["jitter=none"], &windowed), &POLICIES);
    let never = run(&Parameters { jitter: None, ..windowed }, &POLICIES);
    for (outcome, never) in outcomes.iter().zip(&never) {
        assert_eq!(windows(outcome).len(), 3);
        // The queries that were waiting when the hiccups ended are soon served. From then on, the
        // same draws result in the same latencies.
        for (late, never) in windows(outcome)[1..].iter().zip(&windows(never)[1..]) {
            assert_eq!(late, never, "{}", outcome.policy);
        }
    }
}

#[test]
fn tripled_service_times_triple_latencies_at_equal_load() {
    let windowed = Parameters { jitter: None, window: Some(6_000), ..world() };
    for policy in ["psq", "naive"] {
        let outcome = run_one(&changed(&["service=exp:3"], &windowed), policy);
        let before = run_one(&windowed, policy);
        for (late, before) in windows(&outcome)[1..].iter().zip(&windows(&before)[1..]) {
            for percentile in [50.0, 95.0, 99.0] {
                // The draws are the same, but times are rounded to nanoseconds and to the buckets
                // of a histogram.
                assert_close(policy, p(late, percentile), 3.0 * p(before, percentile), 4e-3);
            }
        }
        let offered = outcome.utilization;
        assert_close(
            "busy",
            offered.busy.expect("it worked"),
            before.utilization.busy.expect("too"),
            0.02,
        );
    }
}

#[test]
fn a_speed_change_affects_copies_that_begin_later() {
    // At the 500th request, the speed falls to a fifth.
    let clockwork =
        Parameters { change_at: Some(500), window: Some(250), ..crate::common::clockwork() };
    let outcome = run_one(&changed(&["speeds=0.2"], &clockwork), "psq");
    let of = |length: f64| outcome.histogram.count_at((length * 1e6) as u64);
    assert_eq!((of(1.0), of(5.0)), (500, 500));
    // No query waits before the change, and the change does not slow down the copy that is
    // executing at that time.
    let full = Parameters { utilization: 0.999, ..clockwork.clone() };
    let last = Parameters { change_at: Some(999), ..full };
    let outcome = run_one(&changed(&["speeds=0.2"], &last), "psq");
    assert_eq!((outcome.unstable_because, outcome.stable), (Some(Unstable::Overload), false));
    let slow = outcome.histogram.len() - outcome.histogram.count_between(0, 1_100_000);
    assert_eq!(slow, 1, "the last one alone");
    // The speed in a slow interval is relative to the new speed, so it is always half of 0.2.
    let slowdown = Some("det:1e-3/det:1e6/0.5".to_owned());
    let outcome = run_one(&changed(&["speeds=0.2"], &Parameters { slowdown, ..clockwork }), "psq");
    for window in windows(&outcome) {
        assert_close("slow", p(window, 50.0), 10.0, 3e-3);
    }
}

#[test]
fn windows_count_each_request_of_all_replications_once() {
    let windowed = Parameters { window: Some(700), change_at: Some(1_000), ..world() };
    let outcome = run_one(&windowed, "psq");
    let reported = windows(&outcome);
    assert_eq!(reported.len(), 28);
    assert_eq!((reported[1].from, reported[1].requests), (700, 3 * 700));
    let last = &reported[27];
    assert_eq!((last.from, last.requests), (27 * 700, 3 * 100), "what is left");
    assert!(last.percentiles.contains(&(99.9, None)), "too few for it");
    let whole = Parameters { window: Some(20_000), ..world() };
    let outcome = run_one(&whole, "psq");
    assert_eq!(windows(&outcome)[0].requests, outcome.histogram.len());
    assert_eq!(p(&windows(&outcome)[0], 99.0), percentile(&outcome, 99.0).0);
    let json = serde_json::to_value(&outcome).expect("data");
    let window = &json["windows"][0];
    assert_eq!((&window["from"], &window["requests"]), (&0.into(), &54_000.into()));
    assert!(window["p99"].is_f64() && window["p999"].is_f64());
}

#[test]
fn a_change_to_overload_is_unstable_and_windows_show_growth() {
    let parameters = Parameters { jitter: None, window: Some(6_000), ..world() };
    let outcome = run_one(&changed(&["speeds=0.25,0.25"], &parameters), "psq");
    assert_eq!(outcome.unstable_because, Some(Unstable::Overload));
    assert!(outcome.request.is_none());
    let [first, .., last] = windows(&outcome) else { panic!("three windows") };
    assert!(p(last, 50.0) > 2.0 * p(first, 50.0), "it becomes worse and worse");
    let full = Parameters { queue: 100, ..parameters };
    let outcome = run_one(&changed(&["speeds=0.25,0.25"], &full), "psq");
    let nothing = windows(&outcome).iter().flat_map(|window| &window.percentiles);
    assert!(nothing.into_iter().all(|(_, figure)| figure.is_none()), "the run ended there");
}

#[test]
fn training_uses_the_world_before_the_change() {
    let trained = |parameters: &Parameters| run_one(parameters, "probabilistic:auto:0.1").trained;
    let before = trained(&world());
    assert!(before.is_some());
    assert_eq!(trained(&changed(&["jitter=none"], &world())), before);
}
