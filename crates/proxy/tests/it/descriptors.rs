//! Tests a proxy whose process has no free file descriptors.

use std::fs::File;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;

use crate::harness::{Backend, Client, HELLO, Proxy};

/// Marks the process that runs a test alone.
const ALONE: &str = "CURTAIL_TEST_ALONE";

/// Opens files until the process has no free descriptors.
fn exhaust() -> Vec<File> {
    let limit = Rlimit { current: Some(200), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty() && files.len() < 200);
    files
}

#[tokio::test]
async fn without_descriptors_clients_are_refused_and_health_checks_are_served() {
    // The other tests need descriptors, so this one has a process of its own.
    if std::env::var_os(ALONE).is_none() {
        let name =
            "descriptors::without_descriptors_clients_are_refused_and_health_checks_are_served";
        let mut test = Command::new(std::env::current_exe().expect("a path"));
        let status = test.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status();
        return assert!(status.expect("it runs").success());
    }
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    // The proxy runs.
    assert_eq!(proxy.get("/").await.text(), "hello");
    assert_eq!(proxy.asked("/health").await.text(), "ok\n");
    let mut sockets: Vec<_> = (0..60).map(|_| TcpSocket::new_v4().expect("a socket")).collect();
    let files = exhaust();
    let mut connect = async |address| Client::with(sockets.pop().expect("a socket"), address).await;
    // A client that is dropped would free a descriptor.
    let mut clients = Vec::new();
    // There are more slow admin clients than spare descriptors.
    for _ in 0..8 {
        let mut slow = connect(proxy.admin).await;
        slow.send("POST /health HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n").await;
        let mut refused = connect(proxy.http).await;
        assert_eq!(refused.response().await.status, 503);
        refused.is_closed().await;
        let mut monitor = connect(proxy.admin).await;
        assert_eq!(monitor.get("/health").await.text(), "ok\n");
        clients.extend([slow, refused, monitor]);
    }
    let metrics = connect(proxy.admin).await.get("/metrics").await.text();
    assert!(metrics.contains("curtail_rejected_total{reason=\"connections\"} 8\n"), "{metrics}");
    // The first slow client was closed in favor of others. If its time were up, it would get a 408.
    clients[0].is_closed().await;
    drop((files, clients));
    assert_eq!(proxy.get("/").await.text(), "hello");
}
