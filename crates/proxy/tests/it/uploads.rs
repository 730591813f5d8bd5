//! Request bodies that are relayed while they arrive.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::http2::{Backend2, H2, Http2Client, request};
use crate::harness::{Backend, Client, HELLO, Proxy, config, eventually, service, within};

/// A service whose bodies may be long.
const LONG: &str =
    "max_request_body = \"100MB\"\nroute = [{ path_prefix = \"/\", idempotent = true }]";
const MIB: usize = 1 << 20;

/// A proxy, and the first connection of its replica.
async fn replica(lines: &str) -> (Proxy, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (Proxy::serving(lines, &[&address]).await, listener)
}

async fn until(stream: &mut TcpStream, text: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    let found = |read: &[u8]| read.windows(text.len()).any(|at| at == text);
    within("bytes", async {
        while !found(&read) {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0, "{read:?}");
        }
    })
    .await;
    read
}

#[tokio::test]
async fn a_long_body_reaches_the_replica_before_its_end() {
    let (proxy, listener) = replica(LONG).await;
    let mut client = proxy.client().await;
    let head = format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {MIB}\r\n\r\nbegin");
    client.send(head).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    let read = until(&mut stream, b"begin").await;
    assert!(String::from_utf8_lossy(&read).contains(&format!("content-length: {MIB}\r\n")));
    client.send(vec![b'x'; MIB - 5 - 3]).await;
    client.send("end").await;
    until(&mut stream, b"xend").await;
    stream.write_all(HELLO.as_bytes()).await.unwrap();
    assert_eq!(client.response().await.text(), "hello");
    // Both connections can be used again.
    client.ask("/").await;
    until(&mut stream, b"GET / HTTP/1.1").await;
    stream.write_all(HELLO.as_bytes()).await.unwrap();
    assert_eq!(client.response().await.text(), "hello");
    proxy.idle().await;
}

#[tokio::test]
async fn a_body_of_unknown_length_stays_chunked_if_it_is_long() {
    let (proxy, listener) = replica(LONG).await;
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let piece = "y".repeat(10_000);
    for _ in 0..20 {
        client.send(format!("{:x}\r\n{piece}\r\n", piece.len())).await;
    }
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut read = until(&mut stream, b"transfer-encoding: chunked\r\n").await;
    client.send("0\r\n\r\n").await;
    read.extend(until(&mut stream, b"\r\n0\r\n\r\n").await);
    assert_eq!(read.iter().filter(|&&byte| byte == b'y').count(), 200_000);
    stream.write_all(HELLO.as_bytes()).await.unwrap();
    assert_eq!(client.response().await.text(), "hello");
}

#[tokio::test]
async fn long_bodies_pass_between_the_versions() {
    let body = vec![b'z'; MIB];
    let newer = Backend2::responding("hello").await;
    let proxy = Proxy::serving(&format!("{H2}\n{LONG}"), &[&newer]).await;
    let mut client = proxy.client().await;
    client.send(format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {MIB}\r\n\r\n")).await;
    client.send(&body).await;
    assert_eq!(client.response().await.text(), "hello");
    assert_eq!(newer.seen()[0].body, body);
    let older = Backend::responding(HELLO).await;
    let proxy = Proxy::serving(LONG, &[&older]).await;
    let client = Http2Client::connect(proxy.http).await;
    let length = [None, Some(MIB)];
    for (at, length) in length.into_iter().enumerate() {
        let mut put = request("PUT", "/");
        if let Some(length) = length {
            put.headers_mut().insert("content-length", length.into());
        }
        let reply = client.send(put, if at == 0 { b"short" } else { &body }).await.unwrap();
        assert_eq!(reply.text(), "hello");
    }
    let lengths: Vec<_> = older.seen().iter().map(|seen| seen.body.len()).collect();
    assert_eq!(lengths, [5, MIB]);
}

/// The policy would send a second copy immediately.
#[tokio::test]
async fn a_long_body_is_sent_once() {
    let backends = [Backend::gated(HELLO).await, Backend::gated(HELLO).await];
    let proxy =
        Proxy::serving(&format!("policy = \"laedge\"\n{LONG}"), &[&backends[0], &backends[1]])
            .await;
    let mut client = proxy.client().await;
    let copies = async || backends[0].seen().len() + backends[1].seen().len();
    let body = "b".repeat(MIB);
    client.send(format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {MIB}\r\n\r\n{body}")).await;
    eventually("the copy", async || copies().await == 1).await;
    assert_eq!(proxy.count("curtail_copies_started_total", &[]).await, 1);
    backends.iter().for_each(|backend| backend.open(1));
    assert_eq!(client.response().await.text(), "hello");
    client.ask("/").await;
    eventually("the copies of a request without a body", async || copies().await == 3).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_its_body_frees_the_slot() {
    let (proxy, listener) = replica(LONG).await;
    let mut client = proxy.client().await;
    client.send(format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {MIB}\r\n\r\nbegin")).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    until(&mut stream, b"begin").await;
    proxy.load(1, 0, 1).await;
    drop(client);
    // The replica must not take the part for the whole.
    within("a reset", async { while matches!(stream.read(&mut [0; 99]).await, Ok(1..)) {} }).await;
    proxy.idle().await;
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "abandoned")]).await, 1);
}

#[tokio::test]
async fn a_body_that_turns_out_to_be_too_long_gets_413() {
    let lines = "max_request_body = \"200kB\"";
    let (proxy, _listener) = replica(lines).await;
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let chunk = format!("186a0\r\n{}\r\n", "c".repeat(100_000));
    client.send(&chunk).await;
    client.send(&chunk).await;
    client.send("1\r\n").await;
    assert_eq!(client.response().await.status, 413);
    proxy.idle().await;
}

#[tokio::test]
async fn a_replica_that_does_not_read_stops_its_client() {
    let (proxy, listener) = replica(LONG).await;
    let mut client = TcpStream::connect(proxy.http).await.unwrap();
    let all = 90 * MIB;
    let head = format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {all}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let _stream = listener.accept().await.unwrap();
    let (mut sent, block) = (0, vec![b'd'; MIB]);
    // The buffers of the system are not ours, but they are bounded, too.
    while let Ok(written) =
        tokio::time::timeout(std::time::Duration::from_secs(1), client.write(&block)).await
    // tidy: real time
    {
        sent += written.unwrap();
        assert!(sent < 40 * MIB, "{sent} bytes");
    }
}

async fn buffered(proxy: &Proxy) -> u64 {
    proxy.count("curtail_buffered_bytes", &[]).await
}

#[tokio::test]
async fn bodies_beyond_the_budget_are_relayed_without_being_held() {
    let backend = Backend::gated(HELLO).await;
    let listen = "max_buffered = \"1MiB\"";
    let lines = "policy = \"least-outstanding\"\nslots = 64\nidempotent_methods = [\"POST\"]";
    let proxy = Proxy::listening(listen, lines, &[&backend]).await;
    let body = "x".repeat(60 << 10);
    let mut clients = Vec::new();
    for number in 1..=40 {
        let mut client = proxy.client().await;
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        client.send(head + &body).await;
        clients.push(client);
        backend.has_seen(number).await;
    }
    assert!(backend.seen().iter().all(|seen| seen.body.len() == body.len()));
    let held = buffered(&proxy).await;
    assert!((900_000..=1_048_576).contains(&held), "{held}");
    backend.open(40);
    for mut client in clients {
        assert_eq!(client.response().await.text(), "hello");
    }
    eventually("empty buffers", async || buffered(&proxy).await == 0).await;
}

#[tokio::test]
async fn a_request_with_a_body_waits_while_the_budget_is_spent() {
    // It accepts connections, and reads nothing.
    let deaf = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let good = Backend::responding(HELLO).await;
    let listen = "max_buffered = \"1MiB\"\nbody_timeout = \"300ms\"";
    let lines = "name = \"deaf\"\nroute = { path_prefix = \"/deaf\" }\nslots = 64\n\
        max_request_body = \"100MB\"\ntimeout = \"2s\"\nattempt_timeout = \"2s\"\n\
        cancel_timeout = \"2s\"";
    let deaf = service(lines, &[&deaf.local_addr().expect("an address")]);
    let other = service("route = { path_prefix = \"/\" }", &[&good]);
    let proxy = Proxy::start(&config(listen, &format!("{deaf}{other}"))).await;
    let mut stuck = Vec::new();
    let mut spent = false;
    while !spent {
        let address = proxy.http;
        stuck.push(tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            let head = "POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: 90000000\r\n\r\n";
            client.send(head).await;
            client.send(vec![b'x'; 16 << 20]).await;
        }));
        tokio::task::yield_now().await;
        spent = buffered(&proxy).await >= 1_048_576;
        assert!(stuck.len() < 10_000, "{}", buffered(&proxy).await);
    }
    let mut client = proxy.client().await;
    let refused = client.post("/a", "hello").await;
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("listen.max_buffered"), "{}", refused.text());
    // A request without a body needs no buffer.
    assert_eq!(proxy.client().await.get("/a").await.text(), "hello");
    // A client that leaves is not noticed before its bytes are read, but the timeout ends the request.
    for client in stuck {
        client.abort();
    }
    eventually("empty buffers", async || buffered(&proxy).await == 0).await;
    assert_eq!(proxy.client().await.post("/a", "hello").await.text(), "hello");
}
