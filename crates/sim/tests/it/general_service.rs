//! Poisson arrivals at one server with general service: Pollaczek and Khinchine.

use crate::common::{assert_agrees, mean, run_one, sharp, with};
use curtail_dist::Spec;
use curtail_sim::{Parameters, UNIT_NS};

/// Returns the mean sojourn x̄·(1 + ρ/(1 − ρ)·(1 + c²)/2), where c² is the squared coefficient of
/// variation of the service.
fn mean_sojourn(service: &str, load: f64) -> f64 {
    let spec: Spec = service.parse().expect("a distribution");
    let service = spec.resolve(UNIT_NS as f64).expect("a distribution");
    let mean = service.mean() / UNIT_NS as f64;
    mean * (1.0 + load / (1.0 - load) * (1.0 + service.scv()) / 2.0)
}

fn assert_pollaczek_khinchine(service: &str, most: f64) {
    let utilization = 0.6;
    let parameters =
        Parameters { service: service.to_owned(), utilization, requests: 60_000, ..sharp() };
    let outcome = run_one(&parameters, "psq");
    assert_agrees(service, mean(&outcome), mean_sojourn(service, utilization), most);
}

#[test]
fn constant_service_is_md1() {
    // The expected mean sojourn is 1 + 0.6/(2·0.4).
    assert!((mean_sojourn("det:1", 0.6) - 1.75).abs() < 1e-12);
    assert_pollaczek_khinchine("det:1", 0.02);
}

#[test]
fn waits_follow_the_variability_of_service() {
    for service in ["erlang:4:2", "uniform:0:2", "gamma:1:0.5"] {
        assert_pollaczek_khinchine(service, 0.02);
    }
    for service in ["h2:1:2", "lognormal:3:1.5", "pareto:2.2:1:50"] {
        assert_pollaczek_khinchine(service, 0.04);
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
    assert_agrees("S", mean(&outcome), mean_sojourn("exp:1+bimodal:0.05:5", 0.6), 0.04);
    assert!((outcome.utilization.with_jitter - 0.6).abs() < 1e-12);
    let of_mean = Parameters { utilization_of: curtail_sim::UtilizationOf::Mean, ..parameters };
    let experiment = of_mean.experiment().expect("a good experiment");
    // The expected utilization is 0.6 · 1.25.
    assert!((experiment.utilization_with_jitter() - 0.75).abs() < 1e-12);
}

#[test]
fn the_relaxation_time_matches_theory() {
    let relaxation = |service: &str, replicas, utilization| {
        let service = service.to_owned();
        let parameters = Parameters { service, replicas, utilization, ..Parameters::default() };
        parameters.experiment().expect("a good experiment").relaxation_ns()
            / curtail_sim::UNIT_NS as f64
    };
    // The expected time is 1 / (1 − √0.25)² mean service times, divided by the number of servers.
    // With constant service times, the relaxation time is half as long.
    for (service, replicas, expected) in [("exp:1", 1, 4.0), ("exp:2", 4, 2.0), ("det:1", 1, 2.0)] {
        let computed = relaxation(service, replicas, 0.25);
        assert!((computed - expected).abs() < 1e-6, "{service} × {replicas}: {computed}");
    }
    assert!(relaxation("exp:1", 1, 0.99) > 39_000.0);
}
