//! Tests the HTTP transport against raw sockets: servers that respond correctly, incorrectly,
//! partially, twice or not at all.

use std::net::SocketAddr;
use std::time::Duration;

use crate::servers::{HELLO, cell, cell_with, get, idle, read_request, say, server};
use curtail_kernel::{Limits, ServerId};
use curtail_runtime::http::{Body, Health, Settings, watch};
use curtail_runtime::{Failure, QueryError};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let (address, mut requests) = server(|stream, _| say(stream, HELLO)).await;
    let cell = cell(address, Limits::default());
    for _ in 0..3 {
        let response = cell.query(get()).await.unwrap();
        assert_eq!(response.response.head.status(), 200);
        assert_eq!(response.response.whole(100).await.unwrap(), "hello");
        assert_eq!(requests.recv().await, Some(0), "all on the first connection");
    }
}

#[tokio::test]
async fn a_connection_that_lay_idle_for_long_is_not_trusted() {
    let (address, mut requests) = server(|stream, _| say(stream, HELLO)).await;
    let settings = Settings { idle_timeout: Duration::ZERO, ..Settings::default() };
    let cell = cell_with(address, Limits::default(), settings);
    for connection in 0..3 {
        cell.query(get()).await.unwrap();
        assert_eq!(requests.recv().await, Some(connection), "a new one each time");
    }
}

#[tokio::test]
async fn an_old_connection_that_was_closed_is_replaced() {
    // Every connection serves one request and is then closed without notice.
    let (address, mut requests) = server(|stream, _| async {
        say(stream, HELLO).await;
        None
    })
    .await;
    let cell = cell(address, Limits { retries: 0, ..Limits::default() });
    for connection in 0..3 {
        cell.query(get()).await.unwrap();
        assert_eq!(requests.recv().await, Some(connection));
    }
}

/// Responses that are broken or incomplete.
fn broken() -> Vec<String> {
    let ok = "HTTP/1.1 200 OK\r\n";
    vec![
        String::new(),
        "HTTP/1.1 2".into(),
        "HTTP/1.1 200 OK\r\ncontent-le".into(),
        format!("{ok}content-length: 9\r\n\r\nhalf"),
        "noise\r\n\r\n".into(),
        "\x00\x01\x02".into(),
        "HTTP/1.1 999 What\r\n\r\n".into(),
        "HTTP/2.0 200 OK\r\n\r\n".into(),
        format!("{ok}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{ok}content-length: 5\r\ncontent-length: 5\r\n\r\nhello"),
        format!("{ok}content-length: x\r\n\r\nhello"),
        format!("{ok}transfer-encoding: gzip\r\n\r\nhello"),
        format!("{ok}x: {}\r\n\r\n", "y".repeat(20 << 10)),
        format!("{ok}{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(101)),
        format!("{ok}x: a\nb: c\r\n\r\n"),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n".into(),
        "HTTP/1.1 100 Continue\r\n\r\n".repeat(17) + HELLO,
    ]
}

#[tokio::test]
async fn broken_responses_fail_and_free_the_slot() {
    for text in broken() {
        let sent = text.clone();
        let (address, _requests) = server(move |stream, _| {
            let sent = sent.clone();
            async move {
                say(stream, &sent).await;
                None
            }
        })
        .await;
        let cell = cell(address, Limits::default());
        let error = cell.query(get()).await.unwrap_err();
        assert!(matches!(error, QueryError::Failed { response: None, .. }), "{text:?}: {error:?}");
        idle(&cell).await;
    }
}

#[tokio::test]
async fn a_second_response_is_never_taken_for_the_next_one() {
    let twice = format!("{HELLO}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
    let (address, mut requests) = server(move |stream, _| {
        let twice = twice.clone();
        async move { say(stream, &twice).await }
    })
    .await;
    let cell = cell(address, Limits::default());
    for connection in 0..3 {
        let response = cell.query(get()).await.unwrap();
        assert_eq!(response.response.whole(100).await.unwrap(), "hello");
        assert_eq!(requests.recv().await, Some(connection), "a new connection each time");
    }
}

#[tokio::test]
async fn a_bad_status_is_handed_over_when_nothing_better_comes() {
    let text = "HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops";
    let (address, _requests) = server(move |stream, _| say(stream, text)).await;
    let cell = cell(address, Limits::default());
    let QueryError::Failed { response: Some(response), .. } = cell.query(get()).await.unwrap_err()
    else {
        panic!("the response was there")
    };
    assert_eq!(response.response.head.status(), 500);
    assert_eq!(response.response.whole(100).await.unwrap(), "oops");
}

#[tokio::test]
async fn long_responses_stream_and_hold_the_slot() {
    let (address, _requests) = server(|stream, _| async {
        let stream =
            say(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
                .await?;
        say(stream, "3\r\ntwo\r\n0\r\n\r\n").await
    })
    .await;
    let cell = cell(address, Limits::default());
    let response = cell.query(get()).await.unwrap();
    assert!(matches!(response.response.body, Body::Stream(_)));
    assert_eq!(response.response.whole(100).await.unwrap(), "onetwo");
    idle(&cell).await;
}

/// Sends the first half of a response, and nothing more.
async fn half(stream: TcpStream) -> Option<TcpStream> {
    let mut stream =
        say(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n").await?;
    // Waits until the connection is closed.
    let _ = stream.read_u8().await;
    None
}

#[tokio::test]
async fn half_a_response_is_not_taken_for_the_whole_when_its_server_goes_down() {
    let (address, _requests) = server(|stream, _| half(stream)).await;
    let cell = cell(address, Limits::default());
    let Body::Stream(mut pieces) = cell.query(get()).await.unwrap().response.body else {
        panic!("it is long")
    };
    assert_eq!(pieces.next().await.unwrap().unwrap().join(), "one");
    cell.server_down(ServerId(0));
    assert_eq!(pieces.next().await.unwrap_err(), Failure::Incomplete);
}

#[tokio::test]
async fn a_silent_server_is_reset_as_soon_as_no_client_reads_its_response() {
    let (address, _requests) = server(|stream, _| half(stream)).await;
    let cell = cell(address, Limits { cancel: true, ..Limits::default() });
    let response = cell.query(get()).await.unwrap();
    assert_eq!(cell.look(|core| core.server(ServerId(0)).outstanding), 1);
    drop(response);
    idle(&cell).await;
}

/// Sends a response that never ends.
async fn endless(stream: TcpStream) -> Option<TcpStream> {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = say(stream, head).await?;
    loop {
        stream = say(stream, "3\r\none\r\n").await?;
    }
}

#[tokio::test]
async fn an_endless_response_that_no_client_wants_is_cut_off() {
    let (address, _requests) = server(|stream, _| endless(stream)).await;
    let settings = Settings { unwanted_timeout: Duration::from_millis(20), ..Settings::default() };
    let limits = Limits { eject_after: 1, ..Limits::default() };
    let cell = cell_with(address, limits, settings);
    let response = cell.query(get()).await.unwrap();
    drop(response);
    idle(&cell).await;
    assert!(cell.look(|core| core.server(ServerId(0)).up), "it has done nothing wrong");
}

#[tokio::test]
async fn a_server_that_stops_listening_finishes_what_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        assert!(read_request(&mut stream).await);
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
        let stream = say(stream, head).await.unwrap();
        finished.await.unwrap();
        say(stream, "3\r\ntwo\r\n0\r\n\r\n").await
    });
    let cell = cell(address, Limits::default());
    let response = cell.query(get()).await.unwrap();
    let health = Health { interval: Duration::from_millis(2), ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    while cell.look(|core| core.server(ServerId(0)).up) {
        tokio::task::yield_now().await;
    }
    finish.send(()).unwrap();
    assert_eq!(response.response.whole(100).await.unwrap(), "onetwo");
    idle(&cell).await;
    watching.abort();
}

/// The result of a read from the client, after the response was sent.
type Seen = mpsc::Receiver<Result<u8, std::io::ErrorKind>>;

/// Starts a server that sends a text and then reads from its client.
async fn watchful(says: &'static str) -> (SocketAddr, mpsc::Receiver<usize>, Seen) {
    let (saw, seen) = mpsc::channel(1);
    let (address, requests) = server(move |stream, _| {
        let saw = saw.clone();
        async move {
            let mut stream = say(stream, says).await?;
            let _ = saw.send(stream.read_u8().await.map_err(|error| error.kind())).await;
            None
        }
    })
    .await;
    (address, requests, seen)
}

/// If the connection were closed without a reset, the server could continue to work on the copy,
/// although another copy already has its slot.
#[tokio::test]
async fn a_copy_that_is_cancelled_resets_its_connection() {
    for answered in ["", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"] {
        let (address, mut requests, mut seen) = watchful(answered).await;
        let cell = cell(address, Limits { cancel: true, ..Limits::default() });
        tokio::select! {
            biased;
            // The server must get the request while the query is being polled.
            _ = cell.query(get()) => panic!("the response is not complete"),
            _ = requests.recv() => {}
        }
        assert_eq!(seen.recv().await, Some(Err(std::io::ErrorKind::ConnectionReset)));
        idle(&cell).await;
    }
}

#[tokio::test]
async fn a_connection_that_carries_nothing_is_closed_and_not_reset() {
    let (address, _requests, mut seen) = watchful(HELLO).await;
    let cell = cell(address, Limits::default());
    cell.query(get()).await.unwrap();
    cell.server_draining(ServerId(0));
    assert_eq!(seen.recv().await, Some(Err(std::io::ErrorKind::UnexpectedEof)));
}
