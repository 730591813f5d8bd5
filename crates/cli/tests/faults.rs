//! Leaves that are killed, or turn into black holes, under load: no request of a shard that still
//! has a replica fails, and a leaf that returns is used again.

mod harness;

use std::time::Duration;

use curtail_load::{Extent, Plan, Report};
use harness::{Service, until};
use rustix::process::Signal;

/// 30 % of what two leaves with a mean of 3 ms can do.
const RATE: f64 = 200.0;

/// Sends requests for two and a half seconds, while something happens.
async fn under_load(service: &mut Service, happen: impl AsyncFnOnce(&mut Service)) -> Report {
    let target = format!("http://{}/search", service.proxy.address).parse().expect("a target");
    let plan = Plan {
        extent: Extent::Requests(500),
        queries: service.targets.clone(),
        connections: 256,
        seed: 7,
        ..Plan::new(target, RATE)
    };
    let load = curtail_load::run(&plan, std::future::pending(), |_| {}, |_| {});
    let (report, ()) = tokio::join!(load, happen(service));
    let report = report.expect("the load runs");
    assert_eq!(report.requests, 500);
    report
}

async fn ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: real time
}

async fn kill_one(policy: &str) {
    let mut service = Service::start(policy, "");
    let report = under_load(&mut service, async |service| {
        ms(500).await;
        service.kill(0);
        ms(700).await;
        service.revive(0);
    })
    .await;
    assert_eq!(report.errors.total(), 0, "{policy}: {:?}", report.first_error);
    service.comes_to_rest();
    let used = service.served(0);
    assert!(used > 0, "{policy}: the leaf is used again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_nine_under_per_shard_queuing() {
    kill_one("psq").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_nine_under_laedge() {
    kill_one("laedge").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_nine_under_least_outstanding() {
    kill_one("least-outstanding").await;
}

async fn black_hole(policy: &str) {
    let mut service = Service::start(policy, "");
    let report = under_load(&mut service, async |service| {
        ms(500).await;
        // A stopped process still accepts connections, and never answers.
        service.leaves[0].as_ref().expect("alive").signal(Signal::STOP);
        ms(1_200).await;
        service.leaves[0].as_ref().expect("alive").signal(Signal::CONT);
    })
    .await;
    assert_eq!(report.errors.total(), 0, "{policy}: {:?}", report.first_error);
    service.comes_to_rest();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_under_per_shard_queuing() {
    black_hole("psq").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_under_laedge() {
    black_hole("laedge").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_under_a_push_policy_is_ejected_after_three_failures() {
    black_hole("least-outstanding").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_replica_requests_fail_fast() {
    let mut service = Service::start("psq", "");
    service.kill(0);
    service.kill(1);
    until("both are found dead", || service.servers().iter().all(|s| s["up"] == false));
    let target = format!("http://{}/search?q=common", service.proxy.address).parse().unwrap();
    let plan = Plan { extent: Extent::Requests(20), ..Plan::new(target, 100.0) };
    let load = curtail_load::run(&plan, std::future::pending(), |_| {}, |_| {});
    let report = load.await.expect("the load runs");
    assert_eq!(report.errors.status_5xx, 20);
}
