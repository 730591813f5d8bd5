//! Connections that are served by several threads.

use curtail_proxy::Workers;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::harness::{Client, HELLO, Proxy, config, service, within};

/// A server that serves its connections one after the other would not answer on a second one while
/// the first is idle.
#[tokio::test]
async fn a_worker_reuses_the_idle_connection_of_another_worker() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            while matches!(stream.read(&mut [0; 4096]).await, Ok(1..)) {
                stream.write_all(HELLO.as_bytes()).await.unwrap();
            }
        }
    });
    let workers = Workers::start(2).unwrap();
    let proxy = Proxy::start_on(workers, &config("", &service("", &[address]))).await;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..4 {
        clients.push(proxy.client().await);
    }
    for _ in 0..3 {
        for client in &mut clients {
            let response = within("a response", client.get("/")).await;
            assert_eq!((response.status, response.text()), (200, "hello".into()));
        }
    }
    assert_eq!(proxy.count("curtail_copies_started_total", &[]).await, 12);
}
