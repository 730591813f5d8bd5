//! Tests requests to many shards at a load that is so low that a query hardly ever waits for
//! another.

use crate::common::{assert_agrees, mean, percentile, run_one, sharp};
use curtail_sim::Parameters;

/// A load at which fewer than one query in a thousand has to wait.
const IDLE: f64 = 1e-4;

#[test]
fn a_request_is_as_slow_as_the_slowest_of_its_shards() {
    // P(max of N exponentials ≤ x) = (1 − e^−x)^N, so the q-quantile is −ln(1 − q^(1/N)), and the
    // mean is the harmonic number of N.
    for shards in [1, 10, 100] {
        let requests = 5_000;
        let parameters = Parameters { shards, utilization: IDLE, requests, ..sharp() };
        let outcome = run_one(&parameters, "psq");
        let quantile = |q: f64| -(1.0 - q.powf(1.0 / f64::from(shards))).ln();
        assert_agrees("p50", percentile(&outcome, 50.0), quantile(0.5), 0.02);
        assert_agrees("p99", percentile(&outcome, 99.0), quantile(0.99), 0.02);
        let harmonic: f64 = (1..=shards).map(|n| 1.0 / f64::from(n)).sum();
        assert_agrees("mean", mean(&outcome), harmonic, 0.02);
    }
}

#[test]
fn shards_and_copies_draw_independently() {
    // With naive hedging, S = P + min(J1, J2). With P = 1 and J exponential with mean 1, min(J1,
    // J2) is exponential with mean 1/2, so the p99 is 1 + ln(100)/2. For a maximum over 10 shards
    // it is 1 − ln(1 − 0.99^(1/10))/2.
    for shards in [1, 10] {
        let parameters = Parameters {
            shards,
            replicas: 2,
            utilization: IDLE,
            service: "det:1".to_owned(),
            jitter: Some("exp:1".to_owned()),
            requests: 10_000,
            ..sharp()
        };
        let outcome = run_one(&parameters, "naive");
        let quantile = |q: f64| 1.0 - (1.0 - q.powf(1.0 / f64::from(shards))).ln() / 2.0;
        assert_agrees("p50", percentile(&outcome, 50.0), quantile(0.5), 0.02);
        assert_agrees("p99", percentile(&outcome, 99.0), quantile(0.99), 0.02);
    }
}

#[test]
fn services_of_some_grains_of_time_are_not_cut_short() {
    // The clock counts whole nanoseconds, so the mean service time is 1/(2·sinh(1/20)) = 9.996 ns.
    let service = "exp:10ns".to_owned();
    let outcome = run_one(&Parameters { service, utilization: IDLE, ..sharp() }, "psq");
    assert_agrees("mean", mean(&outcome), 9.996e-6, 0.01);
}
