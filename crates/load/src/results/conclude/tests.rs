use curtail_machine::Taken;
use serde_json::{Value, json, to_value};

use super::*;
use crate::engine::stamp::PastStack;
use crate::plan::Plan;
use crate::plan::schedule::{Extent, Schedule, Slot};
use crate::results::arrival_test::Sends;
use crate::results::errors::Errors;
use crate::results::facts::{End, Sender};
use crate::results::limit::Limit;
use crate::results::outcome::Outcome;
use crate::results::verdict::Withheld;
use crate::session::fault::{Fault, Left, Wait};

const MS: u64 = 1_000_000;
const TIMEOUT: u64 = 10_000 * MS;

fn slot(at_ns: u64) -> Slot {
    Slot { index: 0, at_ns, query: 0, warmup: false }
}

/// Creates a request that ended with this result, 4 ms after a connection took it.
fn ended(at_ns: u64, lag_ns: u64, result: Result<u16, Fault>) -> Outcome {
    ended_after(4 * MS, at_ns, lag_ns, result)
}

fn ended_after(took_ns: u64, at_ns: u64, lag_ns: u64, result: Result<u16, Fault>) -> Outcome {
    let taken_ns = at_ns + lag_ns;
    Outcome::ended(slot(at_ns), taken_ns, taken_ns + took_ns, result)
}

/// Records one request every 2 ms, each of which gets a response after 4 ms.
fn steady(requests: u64, lag_ns: impl Fn(u64) -> u64) -> Record {
    steadily(requests, |i| ended(i * 2 * MS, lag_ns(i), Ok(200)))
}

fn steadily(requests: u64, outcome: impl Fn(u64) -> Outcome) -> Record {
    let mut record = Record::new();
    (0..requests).for_each(|i| record.add(&outcome(i), 0, TIMEOUT));
    record
}

/// Records a run with `good` good responses and the given failures.
fn with(good: u64, failures: impl IntoIterator<Item = Result<u16, Fault>>) -> Report {
    let mut record = steady(good, |_| 0);
    failures
        .into_iter()
        .for_each(|failure| record.add(&ended_after(900 * MS, 0, 0, failure), 0, TIMEOUT));
    conclude(record, &facts(good))
}

fn facts(requests: u64) -> Facts<'static> {
    planned(requests, |_| {})
}

/// Returns the facts about a run of a plan with equal gaps, 500 requests per second and this change.
fn planned(requests: u64, change: impl FnOnce(&mut Plan)) -> Facts<'static> {
    let mut plan = Plan::new("http://h".parse().unwrap(), 500.0);
    (plan.pace, plan.backlog) = (Pace::constant(500.0), 100);
    plan.extent = Extent::Duration { ns: requests * 2 * MS };
    change(&mut plan);
    let end = End::default();
    Facts::of(Box::leak(Box::new(plan)), end, None)
}

fn poisson(requests: u64) -> Facts<'static> {
    planned(requests, |plan| plan.pace = Pace::poisson(500.0))
}

fn near(value: Option<u64>, expected: u64) {
    let value = value.expect("there are enough samples");
    assert!(value.abs_diff(expected) <= expected / 500, "{value} is not about {expected}");
}

#[test]
fn a_steady_run_is_valid_and_has_the_documented_shape() {
    let report = conclude(steady(1_000, |_| 0), &facts(1_000));
    near(report.latency_ns.p99, 4 * MS);
    assert!((report.achieved_rate - 500.0).abs() < 1.0, "{}", report.achieved_rate);
    let json = to_value(&report).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let fields = "achieved_rate connections_opened errors latency_ci95_ns latency_ns measured_ns offered_rate \
                  planned_rate requests schedule_lag_ns sent split_ns uncorrected_ns valid";
    assert_eq!(keys(&json).join(" "), fields);
    for name in ["latency_ns", "uncorrected_ns", "schedule_lag_ns"] {
        assert_eq!(keys(&json[name]).join(" "), "max mean p50 p90 p95 p99 p999");
    }
    assert_eq!(json["valid"], json!(true));
    assert_eq!(json["offered_rate"], json!(500.0));
    assert_eq!(json["requests"], json!(1_000));
    assert!(json["latency_ns"]["p99"].is_u64());
    let none = json!({"connect": 0, "tls": 0, "timeout": 0, "reset": 0, "malformed": 0,
        "status_5xx": 0, "status_other": 0, "refused": 0, "dropped": 0,
        "in_flight": 0, "overdue": 0, "unreported": 0});
    assert_eq!(json["errors"], none);
}

#[test]
fn a_percentile_with_fewer_than_ten_samples_above_it_is_null() {
    let of = |requests| Summary::of(&steady(requests, |_| 0).latency);
    assert_eq!(of(0), Summary::default());
    assert_eq!((of(19).p50, of(20).p50.is_some()), (None, true));
    assert_eq!((of(99).p90, of(100).p90.is_some()), (None, true));
    assert_eq!((of(999).p99, of(1_000).p99.is_some()), (None, true));
    assert_eq!((of(9_999).p999, of(10_000).p999.is_some()), (None, true));
    near(of(1).max, 4 * MS);
    near(of(1).mean, 4 * MS);
    let json = to_value(of(19)).unwrap();
    assert_eq!(json["p50"], Value::Null);
}

/// Records a run in which `late` requests lag by `lag_ns`.
fn lagging(late: u64, lag_ns: u64, requests: u64) -> Report {
    conclude(steady(requests, |i| if i < late { lag_ns } else { 0 }), &facts(requests))
}

#[test]
fn a_run_that_falls_behind_reports_the_lag() {
    let report = lagging(11, 2 * MS, 1_000);
    assert!(!report.valid);
    assert!(matches!(report.invalid_because[..], [Invalid::FellBehind { late: 11, .. }]));
    let warning = report.warning().unwrap();
    assert!(warning.contains("fell behind: 11 of 1000 requests"), "{warning}");
    assert!(warning.contains("less busy machine"), "{warning}");
    let json = to_value(&report).unwrap();
    let reason = &json["invalid_because"][0];
    let text = report.invalid_because[0].to_string();
    assert_eq!((&reason["kind"], &reason["text"]), (&json!("fell_behind"), &json!(text)));
    assert_eq!((&reason["late"], &reason["limit_ns"]), (&json!(11), &json!(MS)));
    let late = lagging(1_000, 6 * MS, 1_000);
    near(late.schedule_lag_ns.p50, 6 * MS);
    near(late.uncorrected_ns.p50, 4 * MS);
    near(late.latency_ns.p50, 10 * MS);
}

#[test]
fn each_reported_percentile_has_its_own_limit() {
    // Responses take 4 ms. Five percent of this is less than the always acceptable lag.
    let limit = |late: u64, lag_ns: u64, requests| match lagging(late, lag_ns, requests)
        .invalid_because[..]
    {
        [] => None,
        [Invalid::FellBehind { limit_ns, .. }] => Some(limit_ns),
        ref others => panic!("{others:?}"),
    };
    for (late, lag_ns, requests, found, why) in [
        (1_000, MS / 5, 1_000, None, "the wake-up latency is fine"),
        (501, MS / 2, 1_000, Some(MS / 4), "p50"),
        (101, MS / 2, 1_000, Some(MS / 4), "p90"),
        (51, MS / 2, 1_000, Some(MS / 4), "p95"),
        (50, MS / 2, 1_000, None, "p99 may lag by 1 ms"),
        (11, 2 * MS, 1_000, Some(MS), "p99"),
        (10, 2 * MS, 1_000, None, "one percent"),
        (10, 2 * MS, 199, None, "too few for a p95 or p99 that could be wrong"),
        (20, 2 * MS, 199, Some(MS / 4), "p90 of few"),
        (6, 2 * MS, 10, Some(MS / 4), "the median is always judged"),
    ] {
        assert_eq!(limit(late, lag_ns, requests), found, "{why}");
    }
}

#[test]
fn the_lag_is_judged_by_the_latency_at_the_same_percentile() {
    // Responses take 10 ms, but two in a hundred take 100 ms. A lag of 5 ms is therefore acceptable
    // at the 99th percentile, and a lag of half a millisecond at the 50th percentile.
    let lagging = |late: u64, lag_ns: u64| {
        let outcome = |i| {
            let took_ns = if i % 50 == 0 { 100 * MS } else { 10 * MS };
            ended_after(took_ns, i * 2 * MS, if i < late { lag_ns } else { 0 }, Ok(200))
        };
        conclude(steadily(1_000, outcome), &facts(1_000)).invalid_because
    };
    assert_eq!(lagging(50, 4 * MS), []);
    assert_eq!(lagging(1_000, 4 * MS / 10), []);
    for (lagged, lag_ns, expected) in [(11, 6 * MS, 5 * MS), (501, 6 * MS / 10, MS / 2)] {
        let found = lagging(lagged, lag_ns);
        assert!(matches!(found[..], [Invalid::FellBehind { late, limit_ns, .. }]
            if late == lagged && limit_ns.abs_diff(expected) < expected / 50));
    }
}

#[test]
fn a_lag_that_spoils_the_99_9th_percentile_alone_withholds_it_alone() {
    let report = lagging(10, 3 * MS, 10_000);
    assert_eq!((report.withheld, report.warning()), (None, None), "one in a thousand");
    near(report.latency_ns.p999, 4 * MS);
    assert!(to_value(&report).unwrap().get("withheld").is_none());

    let report = lagging(11, 3 * MS, 10_000);
    let withheld = Withheld { late: 11, requests: 10_000, limit_ns: MS };
    assert_eq!((report.valid, report.withheld), (true, Some(withheld)));
    let Summary { p99, p999, max, .. } = report.latency_ns;
    assert_eq!((p999, report.uncorrected_ns.p999.is_some()), (None, true));
    near(p99, 4 * MS);
    near(max, 7 * MS);
    near(report.schedule_lag_ns.p999, 3 * MS);
    let text = "p99.9 is withheld: 11 of 10000 requests were sent more than 1ms after their \
                intended times, so too much of it would be lag";
    let json = to_value(&report).unwrap();
    let typed = json!({
        "kind": "withheld", "late": 11, "requests": 10_000, "limit_ns": MS, "text": text,
    });
    assert_eq!((&json["withheld"], &json["latency_ns"]["p999"]), (&typed, &Value::Null));
    let nested =
        Invalid::Agent { agent: "a:1".to_owned(), reason: Invalid::Withheld(withheld).into() };
    let nested = to_value(nested).unwrap();
    assert_eq!((&nested["kind"], &nested["reason"]["late"]), (&json!("agent"), &json!(11)));
    assert_eq!(nested["reason"]["kind"], json!("withheld"));
    assert_eq!(report.warning().unwrap(), format!("{text}."));

    assert_eq!(lagging(30, 3 * MS, 9_999).withheld, None, "no percentile to withhold");
}

#[test]
fn the_planned_rate_is_reported_beside_the_offered_rate() {
    // A Poisson plan with a mean of 500 requests drew 463 requests.
    let report = conclude(steady(463, |_| 0), &facts(500));
    assert_eq!((report.requests, report.sent, report.valid), (463, 463, true));
    assert!((report.planned_rate.unwrap() - 463.0).abs() < 1e-9, "{report:?}");
    assert_eq!(report.offered_rate, Some(500.0));
}

#[test]
fn late_responses_do_not_count_as_achieved() {
    // The server responds to 400 of the 500 requests per second, so its queue grows.
    let record = steadily(1_000, |i| ended_after(i * MS / 2 + MS, i * 2 * MS, 0, Ok(200)));
    let report = conclude(record, &facts(1_000));
    assert!((report.achieved_rate - 400.0).abs() < 4.0, "{}", report.achieved_rate);
    use Invalid::{FellShort, NotStationary};
    assert!(matches!(report.invalid_because[..], [FellShort { .. }, NotStationary { .. }]));
    let text = report.invalid_because[0].to_string();
    assert!(text.contains("with a late response; the server does not sustain this rate"), "{text}");
    assert!(!text.contains(", 0 "), "{text}");
}

#[test]
fn one_slow_last_response_does_not_spoil_the_rate() {
    let mut record = steady(999, |_| 0);
    record.add(&ended_after(5_000 * MS, 1_998 * MS, 0, Ok(200)), 0, TIMEOUT);
    assert!(conclude(record, &facts(1_000)).valid);
}

#[test]
fn failures_count_as_at_least_the_timeout() {
    let report = with(1_000, [Ok(503), Ok(404), Ok(304), Err(Fault::Timeout(Wait::Response))]);
    let errors = Errors { status_5xx: 1, status_other: 2, timeout: 1, ..Errors::default() };
    assert_eq!((report.errors, report.errors.total()), (errors, 4));
    assert_eq!((report.requests, report.histogram.len()), (1_004, 1_000));
    // These failures occurred within 0.9 s of the intended times.
    near(report.latency_ns.max, TIMEOUT);
    near(report.latency_ns.p99, 4 * MS);
    assert_eq!(report.latency_at_least, ["max", "mean"]);
    assert_eq!(report.failures.map(|failures| failures.first).as_deref(), Some("status 503"));
    // Shedding the slowest 2 % does not improve the server's 99th percentile.
    let report = with(9_800, (0..200).map(|_| Ok(503)));
    near(report.latency_ns.p95, 4 * MS);
    near(report.latency_ns.p99, TIMEOUT);
    near(report.uncorrected_ns.p99, 4 * MS);
    assert_eq!(report.latency_at_least, ["p99", "p999", "max", "mean"]);
    let [.., p95, p99, _] = report.latency_ci95_ns.each();
    assert!(p95.is_some() && p99.is_none(), "a lower bound has no interval");
    assert_eq!((report.split_ns.p95.is_some(), report.split_ns.p99), (true, None));
}

/// Records one request every 2 ms. The server stalls in the last second before the run ends early.
fn stalled() -> (Record, Facts<'static>) {
    let cut_ns = 3_000 * MS;
    let mut record = Record::new();
    for at_ns in (0..cut_ns).step_by(2 * MS as usize) {
        let in_flight = Err(Fault::Unfinished(Left::InFlight));
        let outcome = match at_ns {
            0..2_000_000_000 => ended(at_ns, 0, Ok(200)),
            // These requests occupy all connections. The others wait.
            2_000_000_000..2_128_000_000 => ended_after(cut_ns - at_ns, at_ns, 0, in_flight),
            _ => Outcome::overdue(slot(at_ns), cut_ns),
        };
        record.add(&outcome, 0, TIMEOUT);
    }
    (record, Facts { cut_ns: Some(cut_ns), ..facts(1_500) })
}

#[test]
fn requests_that_are_unfinished_when_a_run_is_cut_count_as_their_age() {
    let (record, facts) = stalled();
    let report = conclude(record, &facts);
    let errors = Errors { in_flight: 64, overdue: 436, ..Errors::default() };
    assert_eq!((report.requests, report.errors, report.sent), (1_500, errors, 1_064));
    // A third of the requests are up to a second old.
    near(report.latency_ns.p90, 700 * MS);
    near(report.latency_ns.p99, 970 * MS);
    near(report.latency_ns.max, 1_000 * MS);
    assert_eq!(report.latency_at_least, ["p90", "p95", "p99", "max", "mean"]);
    near(report.uncorrected_ns.p90, 4 * MS);
    near(report.schedule_lag_ns.p90, 572 * MS);
    assert_eq!(report.invalid_because[0], Invalid::Interrupted { requests: 1_500 });
    assert_eq!(
        report.invalid_because[1].to_string(),
        "unfinished: when the run ended, 64 requests were in flight, 436 requests were due but \
         not sent, the oldest for 1s; each counts as at least its age"
    );
    // The server does not fall short if a run is cut short while some requests are in flight.
    let short =
        |reason: &Invalid| matches!(reason, Invalid::FellShort { .. } | Invalid::Failed { .. });
    assert!(!report.invalid_because.iter().any(short), "{:?}", report.invalid_because);
    assert_eq!(report.failures, None);
}

#[test]
fn a_percentile_is_a_lower_bound_only_if_unfinished_requests_may_raise_it() {
    // The ages of recent requests are below the median. If these requests took forever, the median
    // would be higher.
    let of = |young: u64| {
        let mut record =
            steadily(1_000, |i| ended_after(MS + i * MS / 100, i * 2 * MS, 0, Ok(200)));
        for _ in 0..young {
            let in_flight = Err(Fault::Unfinished(Left::InFlight));
            record.add(&ended_after(10, 1_999 * MS, 0, in_flight), 0, TIMEOUT);
        }
        conclude(record, &facts(1_000)).latency_at_least
    };
    assert_eq!(of(0), [""; 0]);
    assert_eq!(of(40), ["p50", "p90", "p95", "p99", "max", "mean"]);
    // If all latencies are equal, an unfinished request can raise only the maximum and the mean.
    let mut record = steady(1_000, |_| 0);
    record.add(&ended_after(10, 1_999 * MS, 0, Err(Fault::Unfinished(Left::InFlight))), 0, TIMEOUT);
    assert_eq!(conclude(record, &facts(1_000)).latency_at_least, ["max", "mean"]);
}

#[test]
fn too_many_failures_make_a_run_invalid() {
    let report = with(1_000, (0..40).map(|_| Ok(500)));
    let [
        Invalid::FellShort { answered, requests: 1_040, errors, limited_by: None },
        Invalid::Failed { .. },
    ] = report.invalid_because[..]
    else {
        panic!("{:?}", report.invalid_because);
    };
    assert_eq!((errors.status_5xx, errors.total()), (40, 40));
    let text = report.invalid_because[0].to_string();
    assert!(text.contains(&format!("{answered} of 1040")), "{text}");
    assert!(text.contains("40 with a bad status (5xx)"), "{text}");
    assert!(!text.contains("sustain"), "a bad status does not depend on the rate: {text}");
}

#[test]
fn more_than_one_failure_in_a_thousand_makes_a_run_invalid() {
    let failing = |good: u64, failed: u64| with(good, (0..failed).map(|_| Ok(503)));
    assert!(failing(99, 1).valid, "one is chance");
    assert!(failing(1_998, 2).valid, "one in a thousand");
    let report = failing(1_997, 3);
    let errors = Errors { status_5xx: 3, ..Errors::default() };
    let failed = Invalid::Failed { requests: 2_000, errors, timeout_ns: TIMEOUT };
    assert_eq!(report.invalid_because, [failed]);
    assert_eq!(
        report.invalid_because[0].to_string(),
        "failed: 3 of 2000 requests have no good response, 3 with a bad status (5xx); each counts \
         as at least 10s"
    );
    assert_eq!((report.histogram.len(), report.at_least_histogram.len()), (1_997, 3));
    // The server sheds the slowest 2 %. This share is too small for it to fall short of the rate.
    let report = failing(980, 20);
    assert!(matches!(report.invalid_because[..], [Invalid::Failed { requests: 1_000, .. }]));
}

#[test]
fn limits_are_reported_in_three_digits() {
    let limit = |limit_ns| {
        let (late, requests, waited, connections) = (20, 100, 0, 64);
        let limited_by = Limit::Machine;
        Invalid::FellBehind { late, requests, limit_ns, waited, connections, limited_by }
            .to_string()
    };
    for (ns, text) in [(35_205_939, "35.2ms"), (MS, "1ms"), (999_900, "1ms"), (999, "999ns")] {
        let reason = limit(ns);
        assert!(reason.contains(&format!("more than {text} after")), "{reason}");
    }
}

#[test]
fn any_dropped_request_makes_a_run_invalid() {
    let mut record = steady(1_000, |_| 0);
    record.add_dropped(slot(0), 0, TIMEOUT);
    let report = conclude(record, &facts(1_000));
    let limited_by = Limit::Connections { waited: 1, connections: 64, advised: 96 };
    let dropped = Invalid::Dropped { count: 1, backlog: 100, limited_by };
    assert_eq!(report.invalid_because, [dropped]);
    let json = to_value(&report).unwrap();
    let typed = json!({"kind": "connections", "waited": 1, "connections": 64, "advised": 96});
    assert_eq!(json["invalid_because"][0]["limited_by"], typed);
    assert_eq!((report.requests, report.errors.dropped), (1_001, 1));
}

#[test]
fn a_run_without_a_good_response_is_invalid() {
    let report = conclude(Record::new(), &facts(0));
    assert_eq!(report.invalid_because, [Invalid::NothingMeasured { requests: 0 }]);
    assert!(report.invalid_because[0].to_string().contains("no request was due"));
    assert_eq!((report.achieved_rate, report.partial), (0.0, false));
}

#[test]
fn a_run_interrupted_before_the_measurement_has_no_other_reason() {
    let report = conclude(Record::new(), &Facts { cut_ns: Some(0), ..facts(0) });
    assert_eq!((report.valid, report.partial), (false, true));
    let json = to_value(&report).unwrap();
    let text = "interrupted before anything was measured";
    let reason = json!({ "kind": "interrupted", "requests": 0, "text": text });
    assert_eq!((&json["partial"], &json["invalid_because"]), (&json!(true), &json!([reason])));
}

#[test]
fn a_run_cut_short_is_judged_by_its_own_time() {
    let report = conclude(steady(500, |_| 0), &Facts { cut_ns: Some(1_004 * MS), ..facts(502) });
    assert_eq!(report.invalid_because, [Invalid::Interrupted { requests: 500 }]);
    assert!(!report.valid, "partial figures are not valid");
    assert_eq!(report.invalid_because[0].to_string(), "interrupted: partial results");
    assert!((report.achieved_rate - 500.0).abs() < 5.0, "{}", report.achieved_rate);
}

#[test]
fn missing_stamps_make_a_run_invalid_if_requested() {
    let record = |stamped: u64| {
        let mut record = steady(1_000, |_| 0);
        (record.left_stamps, record.came_stamps) = (1_000, stamped);
        record
    };
    let stamping = Stamping { unstamped: 3, cost_ns: 900, ..Stamping::default() };
    let stamped = Facts { stamps: Some(stamping), ..facts(1_000) };
    let enough = conclude(record(990), &stamped);
    assert!(enough.valid, "{:?}", enough.invalid_because);
    assert_eq!(enough.stamps.unwrap().received_coverage, 0.99);
    let few = conclude(record(900), &stamped);
    let [Invalid::StampsMissing { missing, .. }] = &few.invalid_because[..] else {
        panic!("{:?}", few.invalid_because)
    };
    assert!((missing - 0.1).abs() < 1e-9);
    let past_stack = PastStack { device: "eth7".to_owned(), queues: 4, in_driver: true };
    let stamping = Stamping { past_stack: Some(past_stack), ..Stamping::default() };
    let past = conclude(record(900), &Facts { stamps: Some(stamping), ..facts(1_000) });
    let why = past.invalid_because[0].to_string();
    assert!(why.contains("10.0 % of the responses came through the network stack"), "{why}");
    assert!(why.contains("ethtool -L eth7 combined 1"), "{why}");
    assert!(conclude(record(0), &facts(1_000)).valid, "no timestamps requested");
}

#[test]
fn equal_gaps_are_not_poisson_arrivals() {
    let mut record = steady(1_000, |_| 0);
    record.sends = Sends::of((0..1_000).map(|i| i * 2 * MS));
    // Requests that are due at random times are sent late, with equal gaps.
    let late = Record { lag: steady(1_000, |_| MS / 10).lag, ..record.clone() };
    let report = conclude(late, &poisson(1_000));
    assert!(report.valid, "100 us are negligible compared to 4 ms: {:?}", report.invalid_because);
    let late = Record { lag: steady(1_000, |_| MS / 4).lag, ..record.clone() };
    let report = conclude(late, &poisson(1_000));
    assert!(matches!(report.invalid_because[..], [Invalid::NotPoisson { .. }]));
    assert!(report.arrival_test.unwrap().failed && report.notes.is_empty());
    assert!(conclude(record, &facts(1_000)).valid, "if the plan asks for them");
}

#[test]
fn gaps_that_are_not_poisson_are_a_remark_if_the_lag_is_negligible() {
    // At 25,000 per second and more, a thread sends due requests in bunches.
    let mut record = steady(1_000, |_| 17_000);
    record.sends = Sends::of((0..1_000).map(|i| i * 2 * MS));
    let report = conclude(record, &poisson(1_000));
    assert!(report.valid && report.arrival_test.unwrap().failed, "{:?}", report.invalid_because);
    let [Note::NotPoisson { lag_ns, .. }] = report.notes[..] else { panic!("{:?}", report.notes) };
    assert!(lag_ns.abs_diff(17_000) < 20, "{lag_ns}");
    let json = to_value(&report).unwrap();
    assert_eq!(json["notes"][0]["kind"], "not_poisson");
    assert_eq!(json["notes"][0]["text"], report.notes[0].to_string());
}

#[test]
fn a_busy_machine_is_noted_if_it_kept_a_thread_waiting() {
    let of = |taken: Taken, queued| {
        let sender = Some(Sender { idle: 0.5, ran: Some(0.2), queued: Some(queued) });
        let facts = Facts { sender, machine: Some(taken), ..facts(1_000) };
        conclude(steady(1_000, |_| 0), &facts)
    };
    let busy = Taken { others: 0.8, stolen: 0.0, stalled: Some(0.6) };
    let report = of(busy, 0.3);
    assert!(report.valid, "it is a note: {:?}", report.invalid_because);
    assert_eq!(report.notes, [Note::BusyMachine { agent: None, taken: busy }]);
    let text = "these figures describe this machine, not only the server: during the measurement, \
                other processes took 80 % of its processors";
    let json = to_value(&report).unwrap();
    let typed =
        json!({"kind": "busy_machine", "others": 0.8, "stolen": 0.0, "stalled": 0.6, "text": text});
    assert_eq!(json["notes"], json!([typed]));
    assert_eq!(json["machine"], json!({"others": 0.8, "stolen": 0.0, "stalled": 0.6}));
    assert_eq!(json["sender"], json!({"idle": 0.5, "ran": 0.2, "queued": 0.3}));
    assert_eq!(of(busy, 0.001).notes, [], "a server on this machine is not in the way");
    let stolen = Taken { others: 0.0, stolen: 0.1, stalled: Some(0.0) };
    assert_eq!(of(stolen, 0.0).notes.len(), 1, "threads do not notice");
}

#[test]
fn a_closed_loop_whose_thread_is_never_idle_is_noted() {
    let sender = Some(Sender { idle: 0.01, ran: Some(0.99), queued: Some(0.0) });
    let facts = planned(1_000, |plan| plan.pace = Pace::Closed);
    let report = conclude(steady(1_000, |_| 0), &Facts { sender, ..facts });
    assert_eq!(report.notes, [Note::SenderSpent { idle: 0.01 }]);
}

#[test]
fn a_profile_that_ends_early_is_judged_by_its_rate_until_then() {
    let profile: crate::Profile = "100..2000".parse().unwrap();
    let schedule = Schedule::new(profile.clone(), &Arrivals::Poisson, 42)
        .with_extent(0, Extent::Duration { ns: 60_000 * MS });
    let due: Vec<u64> =
        schedule.map(|slot| slot.at_ns).take_while(|at_ns| *at_ns < 20_000 * MS).collect();
    let mut record = steadily(due.len() as u64, |i| ended(due[i as usize], 0, Ok(200)));
    record.sends = Sends::of(due.iter().copied());
    let of = |profile, end_ns| {
        let pace = Pace::Open { profile, arrivals: Arrivals::Poisson };
        Facts { end_ns, ..planned(30_000, |plan| plan.pace = pace) }
    };
    let report = conclude(record, &of(profile, 20_000 * MS));
    assert!(report.valid, "{:?}", report.invalid_because);
    // The mean rate is 100/s plus one sixth of the difference between 100/s and 2,000/s.
    let offered = report.offered_rate.unwrap();
    assert!((offered - 416.7).abs() < 0.1, "{offered}");
    let steps: crate::Profile = "100:10s,400:50s".parse().unwrap();
    for (end_ns, expected) in [(0, 100.0), (5_000, 100.0), (20_000, 250.0), (60_000, 350.0)] {
        let offered = of(steps.clone(), end_ns * MS).offered_rate();
        assert_eq!(offered, Some(expected), "{end_ns} ms");
    }
}

#[test]
fn a_run_cut_while_it_awaits_responses_took_as_long_as_planned() {
    let mut plan = Plan::new("http://h".parse().unwrap(), 500.0);
    (plan.warmup_ns, plan.extent) = (10 * MS, Extent::Duration { ns: 100 * MS });
    let end = |cut_ns| End { last_ns: 0, cut_ns, enough_ns: None };
    let end_ns = |cut_ns| Facts::of(&plan, end(cut_ns), None).end_ns;
    assert_eq!([None, Some(900 * MS)].map(end_ns), [110 * MS; 2]);
    assert_eq!(end_ns(Some(60 * MS)), 60 * MS);
}

/// Records requests at 20/s for 30 s, with exponentially distributed latencies whose mean is 2 s.
fn spread() -> Record {
    steadily(600, |i| {
        let share = (i as f64 * 0.618_033_988_75).fract();
        let latency_ns = (-(1.0 - share).ln() * 2e9) as u64;
        ended_after(latency_ns, i * 50 * MS, 0, Ok(200))
    })
}

#[test]
fn widely_spread_latencies_do_not_mean_falling_short() {
    for pace in [Pace::constant(20.0), Pace::Closed] {
        let facts = planned(15_000, |plan| plan.pace = pace);
        assert_eq!(conclude(spread(), &facts).invalid_because, []);
    }
}

#[test]
fn withholding_a_requested_percentile_makes_a_run_invalid() {
    let of = |per_mille| {
        let until = Some(Precision { relative: 0.9, per_mille: vec![per_mille] });
        let facts = planned(10_000, |plan| plan.until = until);
        let lag_ns = |i| if i < 11 { 3 * MS } else { 0 };
        conclude(steady(10_000, lag_ns), &facts).invalid_because
    };
    assert_eq!(of(990), []);
    let why = of(999);
    assert!(matches!(why[..], [Invalid::Withheld(_)]), "{why:?}");
    assert!(why[0].to_string().ends_with("lag, but the plan requires it"), "{}", why[0]);
}

#[test]
fn extraneous_data_after_responses_invalidates_a_run() {
    let of = |unasked| Record { unasked, ..steady(1_000, |_| 0) };
    assert_eq!(conclude(of(30), &facts(1_000)).invalid_because, []);
    let text = conclude(of(31), &facts(1_000)).invalid_because[0].to_string();
    assert!(text.contains("more after 31 of 1000 good responses"), "{text}");
    let few = Record { unasked: 3, ..steady(10, |_| 0) };
    assert!(conclude(few, &facts(10)).valid);
}
