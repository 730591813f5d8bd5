//! Checks that with valid but extreme parameters nothing overflows or hangs, and that excessive
//! experiments end early. The tests run with overflow checks.

use crate::common::{assert_close, run, run_one, with};
use curtail_sim::Parameters;

fn small() -> Parameters {
    with("shards = 2, requests = 2000, replications = 2")
}

fn service(service: &str) -> Parameters {
    Parameters { service: service.to_owned(), ..small() }
}

const ALL: [&str; 8] =
    ["psq", "random", "naive", "bounded:4", "delayed:1:cc", "laedge", "laedge:cc+pc", "idealized"];

#[test]
fn the_shortest_and_the_longest_services_run() {
    for text in
        ["exp:1ns", "exp:100h", "det:1ns", "pareto:1.01:1ns", "exp:1ms+pareto:1.1:1h:2000000h"]
    {
        let jitter = Some("bimodal:0.1:1ns".to_owned());
        for parameters in [service(text), Parameters { jitter, ..service(text) }] {
            for outcome in run(&parameters, &ALL) {
                assert!(outcome.queries_simulated > 0, "{text}");
            }
        }
    }
}

#[test]
fn latencies_of_weeks_are_exact_to_three_digits() {
    let parameters = Parameters { replicas: 8, utilization: 0.5, ..service("det:400h") };
    let request = run_one(&parameters, "psq").request.expect("a stable run");
    assert_close("p50", request.percentile(50.0).expect("enough samples"), 1.44e9, 2e-3);
}

#[test]
fn copies_that_never_end_are_an_unstable_run_at_most() {
    // A draw may be as long as the range of the clock, which is 292 years.
    let parameters = Parameters {
        jitter: Some("bimodal:0.01:2500000h".to_owned()),
        utilization: 1.0,
        ..service("det:1h")
    };
    assert_eq!(run(&parameters, &ALL).len(), ALL.len());
}

#[test]
fn hardly_any_load_runs() {
    let outcome = run_one(&Parameters { utilization: 1e-9, ..service("exp:1us") }, "psq");
    assert!(outcome.stable);
}

#[test]
fn far_too_much_load_ends_soon() {
    for utilization in [1_000.0, 1e6] {
        for requests in [100, 1_000_000_000_000] {
            let parameters = Parameters { utilization, requests, ..small() };
            for outcome in run(&parameters, &["psq", "random", "laedge:cc"]) {
                assert!(requests == 100 || !outcome.stable, "{utilization} of {}", outcome.policy);
            }
        }
    }
}

#[test]
fn far_too_much_load_on_many_servers_ends_soon_and_in_bounded_memory() {
    // This many servers could hold more copies than fit into memory.
    let parameters = with(
        "shards = 40, replicas = 100, utilization = 1e3, requests = 1_000_000_000, queue = 5000, \
         replications = 2",
    );
    assert!(!run_one(&parameters, "random").stable);
}

#[test]
fn many_slots_replicas_and_shards_run() {
    let wide = Parameters { shards: 1, requests: 200, ..small() };
    let slots = Parameters { slots: 1_024, replicas: 4, ..wide.clone() };
    let replicas = Parameters { replicas: 1_024, ..wide.clone() };
    let shards = Parameters { shards: 2_000, replications: 1, ..wide.clone() };
    let policies = ["psq", "naive", "laedge"];
    for (parameters, policies) in
        [(slots, &policies[..]), (replicas, &policies), (shards, &["laedge"])]
    {
        for outcome in run(&parameters, policies) {
            assert!(outcome.stable);
            let measured = 180 * u64::from(parameters.replications);
            assert_eq!(outcome.histogram.len(), measured);
        }
    }
}

#[test]
fn frequent_disturbances_run() {
    let parameters = with(
        "shards = 2, requests = 2000, replications = 2, slowdown = 'det:0.001/det:0.001/0.5', \
         outage = 'det:100/det:0.01', arrivals = 'on-off:0.5:0.001'",
    );
    for outcome in run(&parameters, &["psq", "laedge"]) {
        let busy = outcome.utilization.busy.expect("it took time");
        assert!(busy > 0.3, "at three quarters of the speed: {busy}");
    }
}

#[test]
fn the_longest_cancellation_and_network_run() {
    let parameters = Parameters {
        cancel_cost: Some("2000000h".to_owned()),
        network: Some("exp:100h".to_owned()),
        utilization: 0.01,
        ..service("exp:1h")
    };
    assert_eq!(run(&parameters, &ALL).len(), ALL.len());
}
