//! Poisson arrivals and exponential service: M/M/1 and M/M/k.

use crate::common::{assert_agrees, mean, percentile, run_one, sharp};
use curtail_sim::{Outcome, Parameters};

/// Returns the mean wait in the queue. Outcomes contain no interval for the wait, so the interval
/// of the mean sojourn is used, whose noise includes that of the wait.
fn wait(outcome: &Outcome) -> (f64, f64) {
    (outcome.queue.expect("a stable run").mean_wait, mean(outcome).1)
}

/// Asserts that results agree with M/M/1: for service with mean 1, the sojourn is exponential with
/// mean 1/(1 − ρ).
fn assert_mm1(outcome: &Outcome, load: f64) {
    let sojourn = 1.0 / (1.0 - load);
    assert_agrees("mean sojourn", mean(outcome), sojourn, 0.03);
    let median = sojourn * 2.0_f64.ln();
    assert_agrees("p50", percentile(outcome, 50.0), median, 0.03);
    let p99 = sojourn * 100.0_f64.ln();
    assert_agrees("p99", percentile(outcome, 99.0), p99, 0.06);
    assert_agrees("mean wait", wait(outcome), load * sojourn, 0.05);
}

#[test]
fn one_server_is_mm1() {
    for utilization in [0.3, 0.7] {
        assert_mm1(&run_one(&Parameters { utilization, ..sharp() }, "psq"), utilization);
    }
}

#[test]
fn random_over_replicas_is_as_many_mm1() {
    for replicas in [2, 6] {
        let parameters = Parameters { replicas, utilization: 0.6, ..sharp() };
        assert_mm1(&run_one(&parameters, "random"), 0.6);
    }
}

/// Erlang C: the probability of waiting with k servers and a load of k·ρ, from the recursion of
/// Erlang B, 1/B(k) = 1 + k/a · 1/B(k − 1), and C = B / (1 − ρ·(1 − B)).
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    let inverse = (1..=servers).fold(1.0, |inverse, k| 1.0 + f64::from(k) / offered * inverse);
    let blocked = 1.0 / inverse;
    blocked / (1.0 - load * (1.0 - blocked))
}

/// Asserts that results agree with M/M/k: for service with mean 1, the mean wait is C / (k·(1 −
/// ρ)).
fn assert_mmk(parameters: &Parameters, servers: u32) {
    let load = parameters.utilization;
    let outcome = run_one(parameters, "psq");
    let mean_wait = erlang_c(servers, load) / f64::from(servers) / (1.0 - load);
    assert_agrees("mean wait", wait(&outcome), mean_wait, 0.05);
    assert_agrees("mean sojourn", mean(&outcome), 1.0 + mean_wait, 0.03);
}

#[test]
fn one_queue_before_replicas_is_mmk() {
    assert!((erlang_c(1, 0.4) - 0.4).abs() < 1e-12, "one server is busy for ρ of the time");
    assert!((erlang_c(2, 0.5) - 1.0 / 3.0).abs() < 1e-12, "2ρ²/(1 + ρ)");
    for replicas in [2, 6] {
        assert_mmk(&Parameters { replicas, utilization: 0.8, ..sharp() }, replicas);
    }
}

#[test]
fn slots_serve_exactly_as_replicas_do() {
    let six = Parameters { replicas: 6, utilization: 0.7, requests: 10_000, ..sharp() };
    let slots = Parameters { replicas: 1, slots: 6, ..six.clone() };
    let (replicas, slots) = (run_one(&six, "psq"), run_one(&slots, "psq"));
    assert_eq!(replicas.histogram, slots.histogram, "the same draws in the same order");
}
