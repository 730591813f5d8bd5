//! A proxy runs each connection in a task of its own, so all futures must be `Send`; and what one
//! side received is what the other sends on.

use bytes::BytesMut;
use curtail_http1::{BodyLength, Limits, Persistence, Timeouts, client, server, write_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// A proxy of one request: everything is awaited inside of a spawned task.
async fn proxy(downstream: DuplexStream, upstream: DuplexStream) {
    let mut down = server::Connection::new(downstream, Limits::default(), Timeouts::default());
    let mut up = client::Connection::new(upstream, Limits::default());
    let request = down.next_request().await.unwrap().unwrap();
    let mut bytes = BytesMut::new();
    let (method, target) = (request.head.method(), request.head.path_and_query());
    let length = BodyLength::Known(request.body.len() as u64);
    let fields = request.head.end_to_end();
    write_request(&mut bytes, method, target, fields, length, Persistence::Default).unwrap();
    bytes.extend_from_slice(&request.body);
    let head = tokio::select! {
        head = up.send(&bytes, request.head.is_head()) => head.unwrap(),
        () = down.departed() => return,
    };
    down.start_response(head.status(), head.end_to_end(), BodyLength::Chunked).unwrap();
    while let Some(data) = up.body().await.unwrap() {
        down.write_body(&data).await.unwrap();
    }
    down.finish_body().await.unwrap();
    assert!(up.reusable());
    let kept = down.next_request().await.unwrap().unwrap();
    down.respond(200, kept.head.end_to_end(), &up.body_all(1).await.unwrap()).await.unwrap();
    down.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_passes_through_a_spawned_proxy() {
    let (mut client, downstream) = duplex(1 << 16);
    let (upstream, mut replica) = duplex(1 << 16);
    let task = tokio::spawn(proxy(downstream, upstream));
    client
        .write_all(
            b"POST http://a/p?q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
              Connection: X-Mine\r\nX-Mine: 1\r\nX-Passed: 2\r\n\r\n2\r\nab\r\n0\r\n\r\n\
              GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .await
        .unwrap();
    replica
        .write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\nServer: s\r\n\r\nxyz")
        .await
        .unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    task.await.unwrap();
    let mut passed = String::new();
    replica.read_to_string(&mut passed).await.unwrap();
    assert_eq!(
        passed,
        "POST /p?q HTTP/1.1\r\nHost: a\r\nX-Passed: 2\r\ncontent-length: 2\r\n\r\nab"
    );
    assert_eq!(
        answers,
        "HTTP/1.1 201 Created\r\nServer: s\r\ntransfer-encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n\
         HTTP/1.1 200 OK\r\nHost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
}
