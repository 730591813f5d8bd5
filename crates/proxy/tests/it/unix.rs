//! Tests clients that connect through a Unix socket.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::harness::{Backend, HELLO, Proxy, config, service, within};

#[tokio::test]
async fn clients_on_this_machine_may_use_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    // A process that was killed left it behind.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let backend = Backend::responding(HELLO).await;
    let lines = format!("unix = {path:?}");
    let proxy = Proxy::start(&config(&lines, &service("", &[backend.address]))).await;
    let mut client = within("a connection", UnixStream::connect(&path)).await.expect("it listens");
    for _ in 0..2 {
        let request = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n";
        client.write_all(request).await.expect("it is written");
        let mut response = vec![0; 1];
        while !response.ends_with(b"hello") {
            response.push(within("a byte", client.read_u8()).await.expect("a response"));
        }
    }
    client
        .write_all(b"GET /b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .expect("sent");
    let mut rest = String::new();
    within("the end", client.read_to_string(&mut rest)).await.expect("the end");
    assert!(rest.starts_with("HTTP/1.1 200 "), "{rest}");
    // The socket has no address of the client.
    assert!(backend.seen().iter().all(|seen| seen.header("x-forwarded-for").is_empty()));
    assert_eq!(proxy.client().await.get("/c").await.text(), "hello");
}
