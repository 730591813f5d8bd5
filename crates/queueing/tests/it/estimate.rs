//! Estimates from the logs of simulated stations.

use curtail_queueing::estimate::{Estimate, EstimateError, Interval, Record, estimate};
use curtail_queueing::models::{ggk, mm1};

use crate::{assert_close, assert_near, station};

fn without_starts(log: &[Record]) -> Vec<Record> {
    log.iter().map(|record| Record { start: None, ..*record }).collect()
}

fn holds(interval: Interval, truth: f64) -> bool {
    (interval.ci95[0]..=interval.ci95[1]).contains(&truth)
}

#[test]
fn a_log_by_hand() {
    // The arrivals are at 0, 2, 4, … 18, and service times alternate between 1 and 2, so λ = 1/2,
    // E[S] = 1.5, and ρ = 0.75.
    let arrivals = (0..10).map(|i| f64::from(2 * i));
    let records: Vec<Record> = arrivals
        .enumerate()
        .map(|(i, t)| Record { arrival: t, start: Some(t), end: t + 1.0 + (i % 2) as f64 })
        .collect();
    let found = estimate(&records, 1).expect("a log");
    assert_eq!(found.requests, 10);
    assert_near(found.arrival_rate.value, 0.5, 1e-12, "λ");
    assert_near(found.mean_service.value, 1.5, 1e-12, "E[S]");
    assert_near(found.utilization.value, 0.75, 1e-12, "ρ");
    assert_close(found.arrival_scv, 0.0, 1e-12, "a clock");
    assert_close(found.mean_wait, 0.0, 1e-12, "waits");
    // The variance is 10/4/9, and t with 9 degrees of freedom is 2.26, so the relative error is
    // 2.26·√(0.2778/10)/1.5 = 0.251.
    assert_near(found.mean_service.ci95[1], 1.5 * 0.251_f64.exp(), 2e-3, "interval");
    assert_near(found.mean_service.ci95[0], 1.5 / 0.251_f64.exp(), 2e-3, "interval");
    assert_near(found.service_rate.ci95[1], 1.0 / found.mean_service.ci95[0], 1e-12, "μ");
}

#[test]
fn missing_starts_are_inferred() {
    for (rate, servers) in [(0.8, 1), (2.5, 3), (5.0, 20)] {
        let logged = station(rate, "lognormal:1:1.5", servers, 5000, 41);
        let mut unlogged = without_starts(&logged);
        // The order of the log does not matter; it may be the order in which requests end.
        unlogged.sort_by(|a, b| a.end.total_cmp(&b.end));
        let servers = servers as u32;
        let (with, without) = (estimate(&logged, servers), estimate(&unlogged, servers));
        let (with, without) = (with.expect("a log"), without.expect("a log"));
        assert_near(without.mean_service.value, with.mean_service.value, 1e-9, "E[S]");
        assert_near(without.service_scv, with.service_scv, 1e-9, "scv");
        assert_close(without.mean_wait, with.mean_wait, 1e-9 * with.mean_sojourn, "wait");
    }
}

#[test]
fn intervals_contain_the_truth_at_their_level() {
    let runs = 400;
    let count = |is: &dyn Fn(&Estimate) -> bool| {
        let held = (0..runs).filter(|run| {
            is(&estimate(&station(0.6, "exp:1", 1, 60, 1000 + 2 * run), 1).expect("a log"))
        });
        held.count() as f64 / f64::from(runs as u32)
    };
    // The bound is 95 % minus four standard errors of 1.1 %. The true coverage is slightly below 95
    // %, because the times in these small logs are skewed.
    for share in [
        count(&|found| holds(found.arrival_rate, 0.6)),
        count(&|found| holds(found.mean_service, 1.0)),
        count(&|found| holds(found.service_rate, 1.0)),
        count(&|found| holds(found.utilization, 0.6)),
    ] {
        assert!((0.90..=0.99).contains(&share), "{share}");
    }
}

#[test]
fn estimates_feed_the_models() {
    let found = estimate(&station(0.7, "exp:1", 1, 100_000, 7), 1).expect("a log");
    let predicted = ggk(found.arrivals(), found.service(), 1).expect("stable");
    assert_near(predicted.sojourn.mean(), found.mean_sojourn, 0.1, "predicted from the log");
    let truth = mm1(0.7, 1.0).expect("stable").sojourn.mean();
    assert_near(found.mean_sojourn, truth, 0.1, "measured");
}

#[test]
fn impossible_logs_are_refused() {
    let good = station(0.5, "exp:1", 1, 20, 3);
    let refused = |records: &[Record], servers| {
        estimate(records, servers).expect_err("no estimate").to_string()
    };
    assert!(refused(&good[..9], 1).contains("9 requests"));
    assert!(refused(&good, 0).contains("from 1"));
    let change = |change: fn(&mut Record)| {
        let mut records = good.clone();
        change(&mut records[4]);
        records
    };
    assert!(refused(&change(|r| r.start = None), 1).contains("request 4"));
    assert!(
        refused(&change(|r| r.end = f64::NAN), 1)
            .contains("request 4 has a time that is not finite")
    );
    assert!(refused(&change(|r| r.end = r.arrival - 1.0), 1).contains("correct the clocks"));
    assert!(refused(&change(|r| r.start = Some(r.arrival - 1.0)), 1).contains("before it arrives"));
    // This log with two servers cannot be mistaken for one with a single server.
    let pair = without_starts(&station(1.8, "exp:1", 2, 100, 3));
    assert!(matches!(estimate(&pair, 1), Err(EstimateError::Overtaken { servers: 1, .. })));
    assert!(refused(&pair, 1).contains("log the starts"));
    let at_once = [Record { arrival: 1.0, start: Some(1.0), end: 2.0 }; 12];
    assert!(refused(&at_once, 12).contains("gap between arrivals is zero"));
    // The result is the same if the log contains starts. A request may start when another one ends.
    let pair = station(1.8, "exp:1", 2, 100, 3);
    assert!(matches!(estimate(&pair, 1), Err(EstimateError::Overlap { servers: 1, .. })));
    assert!(refused(&pair, 1).contains("there must be more servers"));
    assert!(estimate(&pair, 2).is_ok());
    let instant: Vec<Record> =
        good.iter().map(|r| Record { start: Some(r.arrival), end: r.arrival, ..*r }).collect();
    assert!(refused(&instant, 1).contains("service time is zero"));
}
