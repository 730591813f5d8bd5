//! Tests connections that clients make through a Unix socket, and connections that several threads
//! serve.

use curtail_proxy::Workers;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

use crate::harness::{Backend, Client, HELLO, Proxy, config, service, within};

#[tokio::test]
async fn clients_on_this_machine_may_use_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http.sock");
    // A process that was killed left it behind.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let backend = Backend::responding(HELLO).await;
    let lines = format!("unix = {path:?}");
    let proxy = Proxy::listening(&lines, "", &[&backend]).await;
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
    let proxy = Proxy::start_on(workers, &config("", &service("", &[&address]))).await;
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
