//! Tests leaves that are killed, or turn into black holes, under load: no request fails while its
//! shard has a replica left, and a leaf that returns is used again.
//!
//! Each test prints a line of figures, which `cargo xtask accept main` checks. No test fails
//! because something took too long.

use std::future::pending;
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::harness::{Service, until};
use curtail_load::{Extent, Plan, Report};
use rustix::process::Signal;

/// This rate is 30 % of the capacity of two leaves with a mean service time of 3 ms.
const RATE: f64 = 200.0;

/// The number of requests in two seconds at this rate.
const REQUESTS: u64 = 400;

fn load(service: &Service, requests: u64) -> Report {
    let target = format!("http://{}/search", service.proxy.address).parse().expect("a target");
    let plan = Plan {
        extent: Extent::Requests(requests),
        queries: service.targets.clone(),
        connections: 256,
        seed: 7,
        ..Plan::new(target, RATE)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = curtail_load::run(&plan, pending(), |_| {});
    let report = runtime.expect("a runtime").block_on(run).expect("the load runs");
    assert_eq!(report.requests, requests);
    report
}

/// Sends requests while `happen` runs, but for at least two seconds. Returns their number and the
/// result of `happen`. None may fail.
fn under_load<T: Send>(service: &Service, happen: impl FnOnce() -> T + Send) -> (u64, T) {
    scope(|scope| {
        let happening = scope.spawn(happen);
        let mut requests = 0;
        while requests == 0 || !happening.is_finished() {
            let count = if requests == 0 { REQUESTS } else { 100 };
            let report = load(service, count);
            assert_eq!(report.errors.total(), 0, "{:?}", report.failures);
            requests += count;
        }
        (requests, happening.join().expect("it happens"))
    })
}

fn ms(ms: u64) {
    sleep(Duration::from_millis(ms)); // tidy: real time
}

fn kill_one(policy: &str) {
    let service = Service::start(policy, "");
    let (requests, again) = under_load(&service, || {
        ms(500);
        service.kill(0);
        ms(700);
        service.revive(0);
        service.used_again(0)
    });
    let again = again.as_millis();
    println!("figure: kill -9, {policy}: 0 of {requests} failed, used again after {again} ms");
    service.comes_to_rest();
}

/// Returns the number of copies sent into the black hole.
fn black_hole(policy: &str) -> u64 {
    let service = Service::start(policy, "");
    let (requests, (sent, again)) = under_load(&service, || {
        ms(500);
        // A stopped process still accepts connections, but never responds.
        service.signal(0, Signal::STOP);
        let before = service.counted("curtail_copies_started", 0);
        ms(1_200);
        until("the proxy has ejected it", || service.servers()[0]["up"] == false);
        let sent = service.counted("curtail_copies_started", 0) - before;
        service.signal(0, Signal::CONT);
        (sent, service.used_again(0))
    });
    let again = again.as_millis();
    println!(
        "figure: black hole, {policy}: 0 of {requests} failed, {sent} copies sent into it, used \
         again after {again} ms"
    );
    service.comes_to_rest();
    sent
}

/// All policies run at the same time, because the tests mostly wait.
const POLICIES: [&str; 3] = ["psq", "laedge", "least-outstanding"];

#[test]
fn no_request_fails_if_a_leaf_is_killed() {
    scope(|scope| {
        for policy in POLICIES {
            scope.spawn(move || kill_one(policy));
        }
    });
}

#[test]
fn a_black_hole_costs_the_copies_in_its_slot_and_is_ejected() {
    let holes = scope(|scope| {
        let holes = POLICIES.map(|policy| scope.spawn(move || black_hole(policy)));
        holes.map(|hole| hole.join().expect("no request fails"))
    });
    assert!(holes[0] <= 1 && holes[1] <= 1, "a pull policy sends no more: {holes:?}");
}

#[test]
fn without_any_replica_requests_wait_for_one() {
    let service = Service::start("psq", "");
    service.kill(0);
    service.kill(1);
    until("both are ejected", || service.servers().iter().all(|s| s["up"] == false));
    scope(|scope| {
        let waiting = scope.spawn(|| load(&service, 20));
        ms(300);
        service.revive(0);
        let report = waiting.join().expect("it ends");
        assert_eq!(report.errors.total(), 0, "{:?}", report.failures);
    });
}
