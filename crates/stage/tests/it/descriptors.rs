//! Tests stages whose process has no free file descriptors.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use curtail_stage::config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;

/// Marks the process that runs a test alone.
const ALONE: &str = "CURTAIL_TEST_ALONE";

/// Opens files until the process has no free descriptors.
fn exhaust() -> Vec<File> {
    let limit = Rlimit { current: Some(200), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[tokio::test]
async fn without_descriptors_clients_are_refused_immediately() {
    // The other tests need descriptors, so this one has a process of its own.
    if std::env::var_os(ALONE).is_none() {
        let name = "descriptors::without_descriptors_clients_are_refused_immediately";
        let mut test = Command::new(std::env::current_exe().unwrap());
        let status = test.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status();
        return assert!(status.unwrap().success());
    }
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!(
        "[[stage]]\nname = \"a\"\nkind = \"tcp\"\nlisten = \"127.0.0.1:0\"\nserver = \"{}\"\n\
         [[stage]]\nname = \"b\"\nkind = \"get\"\nlisten = \"127.0.0.1:0\"\npurge = \"127.0.0.1:0\"\n",
        server.local_addr().unwrap()
    );
    let running = curtail_stage::start(config::parse("f", &text).unwrap(), 1).await.unwrap();
    let addresses: Vec<_> = running.addresses.iter().flat_map(|(_, all)| all.clone()).collect();
    let mut clients = Vec::new();
    let mut sockets: Vec<_> = (0..30).map(|_| TcpSocket::new_v4().unwrap()).collect();
    let mut connect = async |address| sockets.pop().unwrap().connect(address).await.unwrap();
    // All listeners are running once they have closed their first clients.
    for address in &addresses {
        let mut client = connect(*address).await;
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
    let _files = exhaust();
    for _ in 0..6 {
        for address in &addresses {
            let mut client = connect(*address).await;
            let end = timeout(Duration::from_secs(10), client.read(&mut [0])).await;
            assert!(matches!(end, Ok(Ok(0) | Err(_))), "{address}: {end:?}");
            // A client that is dropped would free a descriptor.
            clients.push(client);
        }
    }
}
