//! Compares the simulator with closed forms: queues with one and with several servers, requests to
//! many shards, networks, speeds, and servers that clients share.

use crate::common::{assert_agrees, assert_close, mean, percentile, run_one, sharp, with};
use curtail_queueing::models::{Service, mg1, mm1, mmk};
use curtail_queueing::{ForkJoin, Prediction, fork_join};
use curtail_sim::{Outcome, Parameters, UNIT_NS, UtilizationOf};

/// A load at which fewer than one query in a thousand has to wait.
const IDLE: f64 = 1e-4;

/// Returns the mean wait in the queue. Outcomes contain no interval for the wait, so the interval
/// of the mean sojourn is used, whose noise includes that of the wait.
fn wait(outcome: &Outcome) -> (f64, f64) {
    (outcome.queue.expect("a stable run").mean_wait, mean(outcome).1)
}

/// Asserts that an outcome agrees with a model of one queue, also in its percentiles if the model
/// has them. `most` is the largest interval of the mean, relative to it.
#[track_caller]
fn assert_queue(what: &str, outcome: &Outcome, model: &Prediction, most: f64) {
    assert_agrees(what, mean(outcome), model.sojourn.mean(), most);
    assert_agrees(what, wait(outcome), model.wait.mean(), 5.0 / 3.0 * most);
    for (p, most) in [(50.0, most), (99.0, 2.0 * most)] {
        if let Ok(exact) = model.sojourn.quantile(p / 100.0) {
            assert_agrees(what, percentile(outcome, p), exact, most);
        }
    }
}

#[test]
fn one_server_is_mm1_and_random_over_replicas_is_as_many() {
    for (policy, replicas, utilization) in
        [("psq", 1, 0.3), ("psq", 1, 0.7), ("random", 2, 0.6), ("random", 6, 0.6)]
    {
        let outcome = run_one(&Parameters { replicas, utilization, ..sharp() }, policy);
        assert_queue(policy, &outcome, &mm1(utilization, 1.0).expect("stable"), 0.03);
    }
}

#[test]
fn one_queue_before_replicas_is_mmk() {
    for replicas in [2, 6] {
        let outcome = run_one(&Parameters { replicas, utilization: 0.8, ..sharp() }, "psq");
        let model = mmk(0.8 * f64::from(replicas), 1.0, replicas).expect("stable");
        assert_agrees("mean wait", wait(&outcome), model.wait.mean(), 0.05);
        assert_agrees("mean sojourn", mean(&outcome), model.sojourn.mean(), 0.03);
    }
}

#[test]
fn slots_serve_exactly_as_replicas_do() {
    let six = Parameters { replicas: 6, utilization: 0.7, requests: 10_000, ..sharp() };
    let slots = Parameters { replicas: 1, slots: 6, ..six.clone() };
    let (replicas, slots) = (run_one(&six, "psq"), run_one(&slots, "psq"));
    assert_eq!(replicas.histogram, slots.histogram, "the same draws in the same order");
}

/// Returns the mean sojourn in M/G/1 (Pollaczek and Khinchine) at a utilization of 0.6.
fn mean_sojourn(service: &str) -> f64 {
    let spec: curtail_dist::Spec = service.parse().expect("a distribution");
    let service = spec.resolve(UNIT_NS as f64).expect("a distribution");
    let (mean, scv) = (service.mean() / UNIT_NS as f64, service.scv());
    mg1(0.6 / mean, Service { mean, scv }).expect("stable").sojourn.mean()
}

#[test]
fn waits_follow_the_variability_of_service() {
    for (service, most) in [
        ("det:1", 0.02),
        ("erlang:4:2", 0.02),
        ("uniform:0:2", 0.02),
        ("gamma:1:0.5", 0.02),
        ("h2:1:2", 0.04),
        ("lognormal:3:1.5", 0.04),
        ("pareto:2.2:1:50", 0.04),
    ] {
        let of = Parameters { service: service.to_owned(), utilization: 0.6, ..sharp() };
        let outcome = run_one(&Parameters { requests: 60_000, ..of }, "psq");
        assert_agrees(service, mean(&outcome), mean_sojourn(service), most);
    }
}

#[test]
fn jitter_is_part_of_the_service() {
    // S = P + J, where P and J are independent. With `total`, the utilization includes both.
    let parameters = with(
        "shards = 1, replicas = 1, jitter = 'bimodal:0.05:5', utilization = 0.6, \
         utilization-of = 'total', requests = 60_000, replications = 20",
    );
    let outcome = run_one(&parameters, "psq");
    assert_agrees("S", mean(&outcome), mean_sojourn("exp:1+bimodal:0.05:5"), 0.04);
    assert!((outcome.utilization.with_jitter - 0.6).abs() < 1e-12);
    let of_mean = Parameters { utilization_of: UtilizationOf::Mean, ..parameters };
    let experiment = of_mean.experiment().expect("a good experiment");
    // The expected utilization is 0.6 · 1.25.
    assert!((experiment.utilization_with_jitter() - 0.75).abs() < 1e-12);
}

#[test]
fn the_relaxation_time_matches_theory() {
    let relaxation = |service: &str, replicas, utilization| {
        let service = service.to_owned();
        let parameters = Parameters { service, replicas, utilization, ..Parameters::default() };
        parameters.experiment().expect("a good experiment").relaxation_ns() / UNIT_NS as f64
    };
    // The expected time is 1 / (1 − √0.25)² mean service times, divided by the number of servers.
    // With constant service times, the relaxation time is half as long.
    for (service, replicas, expected) in [("exp:1", 1, 4.0), ("exp:2", 4, 2.0), ("det:1", 1, 2.0)] {
        assert_close(service, relaxation(service, replicas, 0.25), expected, 1e-6);
    }
    assert!(relaxation("exp:1", 1, 0.99) > 39_000.0);
}

#[test]
fn a_request_is_as_slow_as_the_slowest_of_its_shards() {
    for shards in [1, 10, 100] {
        let parameters = Parameters { shards, utilization: IDLE, requests: 5_000, ..sharp() };
        let outcome = run_one(&parameters, "psq");
        // Its lower bound is the longest of the service times.
        let ForkJoin { lower, .. } = fork_join(IDLE, 1.0, shards).expect("stable");
        assert_agrees("mean", mean(&outcome), lower.mean(), 0.02);
        for p in [50.0, 99.0] {
            let exact = lower.quantile(p / 100.0).expect("a law");
            assert_agrees("percentile", percentile(&outcome, p), exact, 0.02);
        }
    }
}

#[test]
fn shards_and_copies_draw_independently() {
    // With naive hedging, S = P + min(J1, J2). With P = 1 and J exponential with mean 1, min(J1,
    // J2) is exponential with mean 1/2.
    for shards in [1, 10] {
        let text = format!(
            "shards = {shards}, replicas = 2, utilization = {IDLE}, service = 'det:1', \
             jitter = 'exp:1', requests = 10_000, replications = 20"
        );
        let outcome = run_one(&with(&text), "naive");
        let least = fork_join(IDLE, 2.0, shards).expect("stable").lower;
        for p in [50.0, 99.0] {
            let exact = 1.0 + least.quantile(p / 100.0).expect("a law");
            assert_agrees("percentile", percentile(&outcome, p), exact, 0.02);
        }
    }
}

#[test]
fn services_of_some_grains_of_time_are_not_cut_short() {
    // The clock counts whole nanoseconds, so the mean service time is 1/(2·sinh(1/20)) = 9.996 ns.
    let service = "exp:10ns".to_owned();
    let outcome = run_one(&Parameters { service, utilization: IDLE, ..sharp() }, "psq");
    assert_agrees("mean", mean(&outcome), 9.996e-6, 0.01);
}

#[test]
fn random_choice_makes_servers_independent() {
    // Each of two servers gets half of the arrivals, λ/2 with λ = 0.3·(1 + 3). The sojourn at speed
    // v is exponential with rate v − λ/2.
    let speeds = "shards = 1, replicas = 2, speeds = [1, 3], utilization = 0.3";
    let of_speeds = f64::midpoint(1.0 / (1.0 - 0.6), 1.0 / (3.0 - 0.6));
    // Clients share six M/M/1 queues behind a network.
    let far =
        "servers = 6, clients = 10, replicas = 2, slots = 1, utilization = 0.5, network = 'det:3'";
    for (text, exact) in [(speeds, of_speeds), (far, 2.0 + 6.0)] {
        let text = format!("{text}, requests = 40_000, replications = 20");
        assert_agrees(&text, mean(&run_one(&with(&text), "random")), exact, 0.03);
    }
}

#[test]
fn latencies_are_drawn_per_message() {
    // The latency is the sum of two exponentials, each with mean 0.5, and the service time.
    let text = "shards = 1, replicas = 3, utilization = 1e-3, service = 'det:1', \
                network = 'exp:0.5', requests = 40_000, replications = 20";
    let outcome = run_one(&with(text), "psq");
    assert_agrees("mean", mean(&outcome), 2.0, 0.01);
    // The time on the network has an Erlang distribution with two stages of rate 2: (1 + 2x)·e^−2x
    // = 0.01 at x = 3.3192.
    assert_agrees("p99", percentile(&outcome, 99.0), 4.3192, 0.02);
}
