//! HTTPS: who is trusted, and what is said when it fails.

use std::future::pending;
use std::path::Path;

use crate::common::{MS, Server, echo, plan_for};
use crate::secure::Secure;
use curtail_load::{Errors, Plan, Report, Trust, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Answers every request with as many bytes as its path says, over TLS.
async fn server(secure: &Secure) -> Server {
    let acceptor = secure.acceptor.clone();
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut head = Vec::new();
            while let Ok(byte) = stream.read_u8().await {
                head.push(byte);
                if head.ends_with(b"\r\n\r\n") {
                    let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
                    let path = text.split(' ').nth(1).unwrap();
                    if path == "/dies" {
                        return;
                    }
                    let length = path[1..].parse().unwrap_or(0);
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                    stream.write_all(head.as_bytes()).await.unwrap();
                    stream.write_all(&vec![b'x'; length]).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        }
    })
    .await
}

fn plan(server: &Server, scheme: &str, authority: &Path, requests: u64) -> Plan {
    let mut plan = plan_for(server.address, 200.0, requests);
    plan.target = format!("{scheme}://{}/5", server.address).parse().unwrap();
    plan.protocol.trust = Trust::File(authority.to_owned());
    plan.connections = 2;
    plan.timeout_ns = 5_000 * MS;
    plan
}

async fn run_it(plan: &Plan) -> Report {
    run(plan, pending(), |_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_answers_and_keeps_its_connections() {
    let secure = Secure::new("127.0.0.1", &["http/1.1"]);
    let server = server(&secure).await;
    let mut plan = plan(&server, "https", &secure.authority, 60);
    plan.queries = vec!["/5".to_owned(), "/0".to_owned(), "/300000".to_owned()];
    let report = run_it(&plan).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 60), "{report:?}");
    assert!(server.accepted() <= 2);
    // The handshake is part of sending, not of the answer.
    plan.protocol.trust = Trust::Anyone;
    assert_eq!(run_it(&plan).await.errors.total(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_trusted_is_told_and_counted() {
    let secure = Secure::new("127.0.0.1", &[]);
    let other = Secure::new("127.0.0.1", &[]);
    let server = server(&secure).await;
    let report = run_it(&plan(&server, "https", &other.authority, 5)).await;
    assert_eq!(report.errors, Errors { tls: 5, ..Errors::default() }, "{report:?}");
    let first = report.failures.unwrap().first;
    assert!(first.contains("is not trusted") && first.contains("--cacert"), "{first}");
    assert!(report.errors.to_string().contains("5 without TLS"));
    // The system knows nothing of it either.
    let mut plan = plan(&server, "https", &other.authority, 5);
    plan.protocol.trust = Trust::System;
    if plan.check().is_ok() {
        assert_eq!(run_it(&plan).await.errors.tls, 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_serves_itself_is_told_what_to_do() {
    let secure = Secure::by_itself("127.0.0.1");
    let server = server(&secure).await;
    let report = run_it(&plan(&server, "https", &secure.authority, 3)).await;
    let first = report.failures.unwrap().first;
    assert!(first.contains("CA:FALSE") && !first.contains("--cacert"), "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_name_is_told() {
    let secure = Secure::new("elsewhere.example", &[]);
    let server = server(&secure).await;
    let report = run_it(&plan(&server, "https", &secure.authority, 3)).await;
    let first = report.failures.unwrap().first;
    assert_eq!(report.errors.tls, 3);
    assert!(first.contains("for another name"), "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_told() {
    let secure = Secure::new("127.0.0.1", &[]);
    // One that answers at once, and one that closes.
    let talks = Server::start(async |mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read_u8().await;
    })
    .await;
    let closes = Server::start(async |stream: TcpStream| drop(stream)).await;
    for (server, text) in [(talks, "speaks no TLS"), (closes, "closed before TLS was agreed on")] {
        let report = run_it(&plan(&server, "https", &secure.authority, 3)).await;
        let first = report.failures.unwrap().first;
        assert_eq!(report.errors.tls, 3, "{first}");
        assert!(first.contains(text) && first.contains("leave out the s"), "{first}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls_is_told_to_who_speaks_none() {
    let secure = Secure::new("127.0.0.1", &[]);
    let server = server(&secure).await;
    let mut plan = plan(&server, "http", &secure.authority, 3);
    plan.protocol.trust = Trust::System;
    let report = run_it(&plan).await;
    let first = report.failures.unwrap().first;
    assert_eq!(report.errors.malformed, 3, "{first}");
    assert!(first.contains("write https:// instead of http://"), "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_after_the_handshake_is_a_reset() {
    let secure = Secure::new("127.0.0.1", &["http/1.1"]);
    let server = server(&secure).await;
    let mut plan = plan(&server, "https", &secure.authority, 20);
    plan.queries = vec!["/5".to_owned(), "/dies".to_owned()];
    let report = run_it(&plan).await;
    assert_eq!(report.errors, Errors { reset: 10, ..Errors::default() }, "{report:?}");
}

#[tokio::test]
async fn a_file_without_authorities_is_refused() {
    let server = Server::start(echo).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("empty.pem");
    let error = |plan: &Plan| plan.check().unwrap_err().to_string();
    let missing = error(&plan(&server, "https", &file, 1));
    assert!(missing.contains("empty.pem") && missing.contains("check the path"), "{missing}");
    std::fs::write(&file, "nothing").unwrap();
    let empty = error(&plan(&server, "https", &file, 1));
    assert!(empty.contains("no certificate"), "{empty}");
}
