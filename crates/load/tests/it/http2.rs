//! HTTP/2 over sockets, against a server of the crate `h2`. What servers may say is tested without them
//! (`session/tests`), TLS in `tls`.

use crate::common::{MS, Server, measure, observe};
use curtail_load::{Pace, Plan};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

fn plan(server: &Server, requests: u64, paths: &[&str]) -> Plan {
    let mut plan = server.plan(500.0, requests);
    plan.protocol.http2 = true;
    plan.connections = 1;
    plan.queries = paths.iter().map(|path| (*path).to_owned()).collect();
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_come_over_one_connection_with_bodies_both_ways() {
    let server = Server::start(crate::h2_server::serve).await;
    let big = format!(r#"{{"path": "/echo", "body": "{}"}}"#, "b".repeat(200_000));
    let mut plan = plan(&server, 60, &["/a", r#"{"path": "/echo", "body": "twelve bytes"}"#, &big]);
    plan.headers = vec![("X-Some".to_owned(), "thing".to_owned())];
    let mut sizes = Vec::new();
    let report = observe(&plan, |answer| sizes.push(answer.body_bytes)).await;
    assert_eq!((report.errors.total(), report.histogram.len()), (0, 60), "{report:?}");
    sizes.sort_unstable();
    assert_eq!(sizes, [[0; 20], [12; 20], [200_000; 20]].concat());
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
    let report = measure(&plan).await;
    assert_eq!((report.errors.timeout, server.accepted()), (3, 3), "{report:?}");
}
