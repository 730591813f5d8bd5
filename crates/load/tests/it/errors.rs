//! Tests that failures are counted by kind and excluded from the latencies.

use std::future::pending;

use crate::common::{
    MS, Server, answer, measure, next_head, observe, plan_for, say, target, unused,
};
use curtail_load::Errors;
use tokio::net::TcpStream;

/// Fails in the way that the request target specifies.
async fn misbehave(mut stream: TcpStream) {
    while let Some(head) = next_head(&mut stream).await {
        match target(&head) {
            "/ok" => answer(&mut stream, 200, "fine").await,
            "/created" => answer(&mut stream, 201, "").await,
            "/busy" => answer(&mut stream, 503, "").await,
            "/gone" => answer(&mut stream, 404, "no").await,
            "/moved" => answer(&mut stream, 302, "").await,
            "/closed" => return,
            "/reset" => {
                let _ = stream.set_zero_linger();
                return;
            }
            "/half" => {
                return say(&mut stream, "HTTP/1.1 200 \r\ncontent-length: 9\r\n\r\nhal").await;
            }
            "/garbage" => return say(&mut stream, "SSH-2.0-Server\r\n").await,
            "/lengths" => {
                let lengths = "content-length: 0\r\ncontent-length: 1\r\n";
                return say(&mut stream, &format!("HTTP/1.1 200 \r\n{lengths}\r\n")).await;
            }
            _ => pending().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_is_counted_by_kind() {
    let server = Server::start(misbehave).await;
    let mut plan = server.plan(200.0, 44);
    let queries = [
        "/ok", "/created", "/busy", "/gone", "/moved", "/closed", "/reset", "/half", "/garbage",
        "/lengths", "/silent",
    ];
    plan.queries = queries.map(str::to_owned).to_vec();
    plan.timeout_ns = 1_000 * MS;
    let mut statuses = Vec::new();
    let report = observe(&plan, |answer| {
        assert!(answer.query < 5, "{answer:?}");
        statuses.push(answer.status);
    })
    .await;
    let errors = Errors {
        connect: 0,
        timeout: 4,
        reset: 12,
        malformed: 8,
        status_5xx: 4,
        status_other: 8,
        ..Errors::default()
    };
    assert_eq!(report.errors, errors, "{report:?}");
    assert_eq!((report.requests, report.histogram.len()), (44, 8));
    // Even requests that failed immediately count as at least the timeout.
    assert_eq!(report.at_least_histogram.count_between(1_000 * MS, u64::MAX), 36);
    assert!(report.uncorrected_ns.max.unwrap() < 1_000 * MS);
    assert!(!report.valid);
    assert!(report.failures.is_some());
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 4], [201; 4], [302; 4], [404; 4], [503; 4]].concat());
}

#[tokio::test]
async fn failures_to_connect_are_counted() {
    let report = measure(&plan_for(unused().await, 500.0, 10)).await;
    assert_eq!(report.errors, Errors { connect: 10, ..Errors::default() });
    assert_eq!((report.at_least_histogram.len(), report.valid), (10, false));
    assert_eq!(report.uncorrected_ns.max, None);
    assert_eq!(report.connections_opened, 0, "it was only tried");
    assert!(report.failures.unwrap().first.contains("cannot connect"));
}

/// Responds to one request, and closes the connection when the next request arrives. The request
/// and the close cross on the wire.
async fn one_each(mut stream: TcpStream) {
    if next_head(&mut stream).await.is_some() {
        answer(&mut stream, 200, "fine").await;
        next_head(&mut stream).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_crosses_the_close_of_its_connection_is_cut_off() {
    let server = Server::start(one_each).await;
    let mut plan = server.plan(200.0, 20);
    plan.connections = 1;
    let report = measure(&plan).await;
    assert_eq!((report.errors.total(), report.errors.reset, report.sent_again), (10, 10, 0));
}
