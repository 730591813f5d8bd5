//! Tests of HTTP/2 servers that go away: requests that they have not processed are sent again.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{MS, Server, measure};
use curtail_load::{Errors, Plan, run_sampled};
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const END: u8 = 1 | 4;
/// `:status: 200` from the static table (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn goaway(last: u32, reason: u8) -> Vec<u8> {
    frame(7, 0, 0, &[&last.to_be_bytes()[..], &[0, 0, 0, reason]].concat())
}

fn answer(stream: u32) -> Vec<u8> {
    frame(HEADERS, END, stream, &[STATUS_200])
}

/// Sends the settings, and reads until `count` requests have arrived.
async fn requests(stream: &mut TcpStream, mut count: usize) -> Option<()> {
    stream.write_all(&frame(4, 0, 0, &[])).await.ok()?;
    stream.read_exact(&mut [0; PREFACE_BYTES]).await.ok()?;
    while count > 0 {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.ok()?;
        count -= usize::from(head[3] == HEADERS);
    }
    Some(())
}

fn plan(server: &Server, requests: u64) -> Plan {
    let mut plan = server.plan(1_000.0, requests);
    (plan.protocol.http2, plan.connections, plan.timeout_ns) = (true, 1, 5_000 * MS);
    plan
}

/// Starts a server that handles its first connection with `first`, and serves the others normally.
/// `first` is notified when another connection arrives.
async fn first_goes<F: Future<Output = ()> + Send + 'static>(
    first: impl Fn(TcpStream, Arc<Notify>) -> F + Send + 'static,
) -> Server {
    let (connections, others) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    Server::start(move |stream| {
        let is_first = connections.fetch_add(1, Ordering::Relaxed) == 0;
        if !is_first {
            others.notify_one();
        }
        if is_first {
            first(stream, Arc::clone(&others)).boxed()
        } else {
            crate::common::serve_http2(stream).boxed()
        }
    })
    .await
}

/// Sends the last frames, and waits for the client to close the connection. Without this wait, a
/// reset might discard the frames.
async fn finish(mut stream: TcpStream, frames: &[Vec<u8>]) {
    let _ = stream.write_all(&frames.concat()).await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// Starts a server whose first connection receives five requests, processes two of them, and goes
/// away.
async fn leaving(reason: u8) -> Server {
    first_goes(move |mut stream, _| async move {
        requests(&mut stream, 5).await.unwrap();
        // A user would also have to wait during this delay.
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: real time
        finish(stream, &[answer(1), goaway(3, reason), answer(3)]).await;
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_a_server_hands_back_is_sent_again_and_counts_once() {
    let server = leaving(0).await;
    let (mut slow, mut samples) = (0, 0);
    let report = run_sampled(
        &plan(&server, 200),
        pending(),
        |_| {},
        |sample| {
            samples += 1;
            slow += u32::from(sample.good() && sample.latency_ns() > 40 * MS);
            // The time after the first attempt does not count as schedule lag.
            assert!(sample.taken_ns <= sample.sent_ns.unwrap());
        },
    )
    .await
    .unwrap();
    assert_eq!(
        (report.requests, samples, report.histogram.len()),
        (200, 200, 200),
        "{:?}",
        report.failures
    );
    assert_eq!((report.errors.total(), server.accepted()), (0, 2));
    assert!(report.sent_again >= 3, "{}", report.sent_again);
    assert!(slow >= 5, "their latency runs from the intended time: {slow}");
    assert_eq!(report.connections_opened, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_a_server_may_have_processed_is_not_sent_again() {
    // An error ends the connection, so the response to the second request no longer counts.
    let server = leaving(2).await;
    let report = measure(&plan(&server, 100)).await;
    assert_eq!((report.requests, report.errors.total()), (100, report.errors.reset));
    assert!(report.errors.reset <= 1, "{:?}", report.errors);
    assert!(report.sent_again >= 3, "{}", report.sent_again);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_do_not_wait_for_a_connection_that_is_going_away() {
    let server = first_goes(|mut stream, others| async move {
        requests(&mut stream, 2).await.unwrap();
        let _ = stream.write_all(&[answer(1), goaway(3, 0)].concat()).await;
        // If requests waited for this connection, no other connection would be opened.
        others.notified().await;
        finish(stream, &[answer(3)]).await;
    })
    .await;
    let report = measure(&plan(&server, 200)).await;
    assert_eq!((report.errors.total(), report.requests), (0, 200), "{:?}", report.failures);
    assert_eq!((report.connections_opened, server.accepted()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_going_away_is_replaced_when_its_last_request_expires() {
    // Each connection responds to one request, ignores another, and stays open until the client
    // closes it.
    let server = Server::start(|mut stream| async move {
        if requests(&mut stream, 2).await.is_some() {
            finish(stream, &[answer(1), goaway(3, 0)]).await;
        }
    })
    .await;
    let mut plan = server.plan(40.0, 20);
    (plan.protocol.http2, plan.connections, plan.timeout_ns) = (true, 1, 200 * MS);
    let report = measure(&plan).await;
    assert!(report.histogram.len() >= 6, "{}: {:?}", report.histogram.len(), report.failures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_that_a_server_gives_for_a_close_is_reported() {
    let server = Server::start(|mut stream| async move {
        if requests(&mut stream, 1).await.is_some() {
            // The server may have processed the first request.
            let _ = stream.write_all(&goaway(1, 11)).await;
            let _ = stream.shutdown().await;
            finish(stream, &[]).await;
        }
    })
    .await;
    let report = measure(&plan(&server, 1)).await;
    let message = report.failures.expect("there is no response").first;
    assert!(message.contains("GOAWAY, ENHANCE_YOUR_CALM"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_not_retried_forever() {
    let server = Server::start(async |mut stream: TcpStream| {
        if requests(&mut stream, 1).await.is_some() {
            finish(stream, &[goaway(0, 0)]).await;
        }
    })
    .await;
    let report = measure(&plan(&server, 5)).await;
    assert_eq!(report.errors, Errors { reset: 5, ..Errors::default() });
    assert!(report.failures.unwrap().first.contains("repeatedly refused to process the request"));
    // There is one attempt, followed by three more.
    assert_eq!(report.sent_again, 15);
    assert!(!report.valid);
}
