//! HTTP/2, with and without TLS, against a server of the crate `h2`.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{MS, Server, echo};
use crate::secure::Secure;
use curtail_load::{Errors, Pace, Plan, Report, Trust, run, run_observed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn server(streams: u32) -> Server {
    Server::start(move |stream| crate::h2_server::serve(stream, streams)).await
}

fn plan(server: &Server, requests: u64, paths: &[&str]) -> Plan {
    let mut plan = server.plan(500.0, requests);
    plan.protocol.http2 = true;
    plan.connections = 1;
    plan.queries = paths.iter().map(|path| (*path).to_owned()).collect();
    plan.timeout_ns = 2_000 * MS;
    plan
}

async fn run_it(plan: &Plan) -> Report {
    run(plan, pending(), |_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_come_over_one_connection_with_bodies_both_ways() {
    let server = server(100).await;
    let big = format!(r#"{{"path": "/echo", "body": "{}"}}"#, "b".repeat(200_000));
    let mut plan = plan(&server, 60, &["/a", r#"{"path": "/echo", "body": "twelve bytes"}"#, &big]);
    plan.headers = vec![("X-Some".to_owned(), "thing".to_owned())];
    let mut sizes = Vec::new();
    let on_answer = |answer: &curtail_load::Answer| {
        assert_eq!((answer.status, answer.good), (200, true));
        sizes.push(answer.body_bytes);
    };
    let report = run_observed(&plan, pending(), |_| {}, on_answer).await.unwrap();
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 60), "{report:?}");
    sizes.sort_unstable();
    assert_eq!(sizes, [[0; 20], [12; 20], [200_000; 20]].concat());
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_is_counted_as_what_it_is_and_the_connection_is_kept() {
    let server = server(100).await;
    let paths = ["/ok", "/busy", "/gone", "/reset", "/half", "/refused", "/big", "/silent"];
    let mut plan = plan(&server, 80, &paths);
    plan.body_bytes_max = 1 << 20;
    let report = run_it(&plan).await;
    let errors = Errors {
        status_5xx: 10,
        status_other: 10,
        reset: 30,
        malformed: 10,
        timeout: 10,
        ..Errors::default()
    };
    assert_eq!(report.errors, errors, "{report:?}");
    // Time-outs, resets and answers that are too long end a request, not the connection.
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_says_anything_is_connected_to_anew() {
    let server = Server::start(async |mut stream: TcpStream| {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let mut plan = plan(&server, 3, &[]);
    (plan.pace, plan.timeout_ns) = (Pace::constant(10.0), 50 * MS);
    let report = run_it(&plan).await;
    assert_eq!((report.errors.timeout, server.accepted()), (3, 3), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_requests_are_under_way_than_the_server_or_the_plan_allows() {
    for (allowed, streams) in [(3, 100), (100, 3)] {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, seen) = (Arc::clone(&now), Arc::clone(&most));
        let server = Server::start(move |stream: TcpStream| {
            let (now, most) = (Arc::clone(&counted), Arc::clone(&seen));
            async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(allowed);
                let mut connection = builder.handshake::<_, bytes::Bytes>(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let now = Arc::clone(&now);
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: real time
                        now.fetch_sub(1, Ordering::SeqCst);
                        let _ = respond.send_response(http::Response::new(()), true);
                    });
                }
            }
        })
        .await;
        let mut plan = plan(&server, 60, &[]);
        plan.protocol.streams = streams;
        let report = run_it(&plan).await;
        assert_eq!(report.errors.total(), 0, "{report:?}");
        assert_eq!(most.load(Ordering::SeqCst), 3);
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_finishes_what_it_has_and_is_connected_to_again() {
    let server = server(100).await;
    let mut plan = plan(&server, 40, &["/a", "/a", "/a", "/away"]);
    plan.pace = Pace::constant(100.0);
    let report = run_it(&plan).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 40), "{:?}", report.errors);
    assert!(server.accepted() >= 5, "{}", server.accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_is_a_reset() {
    let server = server(100).await;
    let mut plan = plan(&server, 40, &["/a", "/dies", "/a", "/abrupt"]);
    plan.pace = Pace::constant(100.0);
    let report = run_it(&plan).await;
    assert_eq!(report.errors.total(), report.errors.reset, "{report:?}");
    assert!((20..=30).contains(&report.errors.reset), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_is_agreed_on_over_tls() {
    let secure = Secure::new("127.0.0.1", &["h2", "http/1.1"]);
    let acceptor = secure.acceptor.clone();
    let server = Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            crate::h2_server::serve(stream, 100).await;
        }
    })
    .await;
    let mut plan = plan(&server, 60, &["/a", r#"{"path": "/b", "body": "text"}"#, "/big"]);
    plan.target = format!("https://{}/", server.address).parse().unwrap();
    plan.protocol.trust = Trust::File(secure.authority.clone());
    let report = run_it(&plan).await;
    assert_eq!((report.errors.total(), server.accepted()), (0, 1), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_agree_to_http2_is_told() {
    for protocols in [&["http/1.1"][..], &[]] {
        let secure = Secure::new("127.0.0.1", protocols);
        let acceptor = secure.acceptor.clone();
        let server = Server::start(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _ = stream.read_u8().await;
                }
            }
        })
        .await;
        let mut plan = plan(&server, 3, &[]);
        plan.target = format!("https://{}/", server.address).parse().unwrap();
        plan.protocol.trust = Trust::File(secure.authority.clone());
        let report = run_it(&plan).await;
        let first = report.failures.unwrap().first;
        assert_eq!(report.errors.tls, 3, "{first}");
        assert!(first.contains("leave out --http2"), "{first}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_the_other_version_is_told() {
    let first_error = async |server: &Server, http2: bool| {
        let mut plan = plan(server, 3, &[]);
        plan.protocol.http2 = http2;
        let report = run_it(&plan).await;
        assert_eq!(report.errors.malformed, 3, "{report:?}");
        report.failures.unwrap().first
    };
    let old = Server::start(echo).await;
    let said = first_error(&old, true).await;
    assert_eq!(said, "the server answered HTTP/1 to HTTP/2; leave out --http2");
    let new = Server::start(async |mut stream: TcpStream| {
        // SETTINGS, whatever the client says.
        let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let said = first_error(&new, false).await;
    assert_eq!(said, "the server answered HTTP/2 to HTTP/1; add --http2");
    let other = Server::start(async |mut stream: TcpStream| {
        let _ = stream.write_all(b"SSH-2.0-Server\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let said = first_error(&other, true).await;
    assert_eq!(said, "the server does not speak HTTP/2; is it the right port?");
}
