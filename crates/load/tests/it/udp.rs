//! Datagrams, some of which are lost, late, or sent twice.

use crate::common::{MS, measure, plan_of, udp_echo, unused};
use curtail_load::{Errors, Pace};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_come_back_and_duplicates_are_ignored() {
    let address = udp_echo(|number| 1 + usize::from(number % 3 == 0)).await;
    let mut plan = plan_of("udp", address, 2_000.0, 500);
    plan.connections = 2;
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 500), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_datagrams_time_out_and_nothing_waits_for_them() {
    let address = udp_echo(|number| usize::from(number % 10 != 0)).await;
    let mut plan = plan_of("udp", address, 1_000.0, 300);
    (plan.connections, plan.protocol.datagram_bytes, plan.timeout_ns) = (1, 1000, 500 * MS);
    let report = measure(&plan).await;
    let errors = Errors { timeout: 30, ..Errors::default() };
    assert_eq!(report.errors, errors, "{report:?}");
    // Responses did not wait behind the lost ones.
    assert!(report.latency_ns.max.unwrap() < 400 * MS, "{report:?}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_reported() {
    let report = measure(&plan_of("udp", unused().await, 500.0, 20)).await;
    assert_eq!(report.errors.connect, 20, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_of_datagrams_has_one_under_way() {
    let mut plan = plan_of("udp", udp_echo(|_| 1).await, 1.0, 2_000);
    (plan.pace, plan.connections) = (Pace::Closed, 1);
    let report = measure(&plan).await;
    assert_eq!((report.requests, report.errors.total()), (2_000, 0), "none overran the server");
}
