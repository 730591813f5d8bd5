//! Tests a server's connection over an in-memory pipe, with the clock paused.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use curtail_http::h1::server::{Connection, Request, ServerError};
use curtail_http::h1::{BodyLength, Limits, NO_HEADERS, Reject, Timeouts, WriteError};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep, timeout};

type Server = Connection<DuplexStream>;

fn connect_with(limits: Limits, timeouts: Timeouts, pipe_bytes: usize) -> (DuplexStream, Server) {
    let (client, server) = duplex(pipe_bytes);
    (client, Connection::new(server, limits, timeouts))
}

fn connect() -> (DuplexStream, Server) {
    connect_with(Limits::default(), Timeouts::default(), 1 << 20)
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Returns a server whose client has sent `text`.
async fn asked(text: impl AsRef<[u8]>) -> (DuplexStream, Server) {
    let (mut client, server) = connect();
    client.write_all(text.as_ref()).await.unwrap();
    (client, server)
}

async fn next(server: &mut Server) -> Request {
    server.next_request().await.expect("no error").expect("a request")
}

async fn refused(server: &mut Server) -> Reject {
    match server.next_request().await {
        Err(ServerError::Reject(reject)) => reject,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Closes the server and returns everything that it sent to the client.
async fn sent(server: Server, mut client: DuplexStream) -> String {
    client.shutdown().await.unwrap();
    let mut text = String::new();
    let (_, read) = tokio::join!(server.close(), client.read_to_string(&mut text));
    read.unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn serves_pipelined_requests_in_order() {
    let (mut client, mut server) = connect();
    let requests = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
        POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n\
        \r\nGET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /4 HTTP/1.1\r\n\r\n";
    client.write_all(requests).await.unwrap();
    for (target, body) in [("/1", "abc"), ("/2", "def"), ("/3", "")] {
        let request = next(&mut server).await;
        assert_eq!((request.head.target(), &request.body[..]), (target, body.as_bytes()));
        server.respond(200, [("x", target)], target.as_bytes()).await.unwrap();
    }
    assert!(server.next_request().await.unwrap().is_none(), "the third was the last");
    assert_eq!(
        sent(server, client).await,
        "HTTP/1.1 200 OK\r\nx: /1\r\ncontent-length: 2\r\n\r\n/1\
         HTTP/1.1 200 OK\r\nx: /2\r\ncontent-length: 2\r\n\r\n/2\
         HTTP/1.1 200 OK\r\nx: /3\r\ncontent-length: 2\r\nconnection: close\r\n\r\n/3"
    );
}

#[tokio::test(start_paused = true)]
async fn a_close_between_requests_is_clean_and_one_inside_is_not() {
    let (client, mut server) = connect();
    drop(client);
    assert!(server.next_request().await.unwrap().is_none());
    for part in ["GET /", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab"] {
        let (client, mut server) = asked(part).await;
        drop(client);
        assert!(matches!(server.next_request().await, Err(ServerError::IncompleteMessage)));
        assert!(server.next_request().await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_or_body_is_cut_off_in_total_however_it_drips() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n";
    for (begun, waits, expected, seconds) in [
        // The limit is ten seconds from the first byte.
        ("", 30, Reject::HeadTimeout(10_000), 40..=43),
        (head, 0, Reject::BodyTimeout(30_000), 30..=30),
    ] {
        let (mut client, mut server) = asked(begun).await;
        let start = Instant::now();
        let drip = async {
            sleep(Duration::from_secs(waits)).await;
            for byte in b"\r\nGET / HTTP/1.1\r\nHost: abcdefghijklm" {
                client.write_all(&[*byte]).await.unwrap();
                sleep(Duration::from_secs(1)).await;
            }
        };
        let cut = async {
            let reject = refused(&mut server).await;
            let waited = start.elapsed().as_secs();
            assert!(seconds.contains(&waited), "{waited}");
            reject
        };
        let (reject, ()) = tokio::join!(cut, drip);
        assert_eq!((reject, reject.status()), (expected, 408));
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_quietly() {
    let (mut client, mut server) = connect();
    let start = Instant::now();
    client.write_all(b"\r\n").await.unwrap();
    assert!(server.next_request().await.unwrap().is_none());
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn waiting_can_be_cancelled_anywhere() {
    let (mut client, mut server) = connect();
    let whole =
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody";
    for (index, byte) in whole.iter().enumerate() {
        let wait = timeout(Duration::from_millis(1), server.next_request()).await;
        assert!(wait.is_err(), "not complete at {index}");
        assert_eq!(server.is_idle(), index == 0);
        client.write_all(&[*byte]).await.unwrap();
    }
    assert_eq!(next(&mut server).await.body, "body");
    let mut text = [0; 25];
    client.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.respond(204, NO_HEADERS, b"").await.unwrap();
    assert!(server.is_idle());
    assert_eq!(sent(server, client).await, "HTTP/1.1 204 No Content\r\n\r\n", "only one 100");
}

#[tokio::test(start_paused = true)]
async fn continue_is_sent_only_to_a_client_that_waits_for_it() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    let (client, mut server) = asked(format!("{head}x")).await;
    next(&mut server).await;
    server.respond(204, NO_HEADERS, b"").await.unwrap();
    assert!(sent(server, client).await.starts_with("HTTP/1.1 204"), "the body was already here");

    let large = head.replace(": 1\r", ": 9999999\r");
    let (client, mut server) = asked(large).await;
    let reject = refused(&mut server).await;
    server.reject(&reject).await.unwrap();
    assert!(sent(server, client).await.starts_with("HTTP/1.1 413"), "refused without 100 Continue");
}

#[tokio::test(start_paused = true)]
async fn oversize_requests_get_their_status() {
    let limits = Limits { head_bytes: 100, headers: 3, body_bytes: 10, ..Limits::default() };
    let long = "x".repeat(200);
    let chunks = "5\r\nhello\r\n5\r\nworld\r\n1\r\n!\r\n0\r\n\r\n";
    for (text, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        ("GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC:\r\nD:\r\n\r\n".to_owned(), 431),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(), 413),
        (format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"), 413),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz".to_owned(), 400),
    ] {
        let (mut client, mut server) = connect_with(limits, Timeouts::default(), 1 << 20);
        client.write_all(text.as_bytes()).await.unwrap();
        let reject = refused(&mut server).await;
        assert_eq!(reject.status(), status, "{text:?}");
        server.reject(&reject).await.unwrap();
        assert!(server.is_closing());
        assert!(server.next_request().await.unwrap().is_none());
        let response = sent(server, client).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response:?}");
        assert!(response.contains("connection: close\r\n"));
        assert!(response.ends_with(&format!(": {reject}\n")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_is_too_long_is_refused_by_its_size() {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (chunks, fits) in [
        ("b\r\n", false),
        ("ffffffffffffffff\r\n", false),
        ("5\r\nhello\r\n6\r\n", false),
        ("b\r\nhe", false),
        ("5\r\nhello\r\n5\r\n", true),
        ("a\r\n", true),
    ] {
        let (mut client, mut server) = connect_with(limits, Timeouts::default(), 1 << 20);
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(chunks.as_bytes()).await.unwrap();
        let start = Instant::now();
        let verdict = refused(&mut server).await;
        if fits {
            assert_eq!(verdict, Reject::BodyTimeout(30_000), "{chunks:?}");
        } else {
            assert_eq!(verdict, Reject::BodyTooLarge(10), "{chunks:?}");
            assert!(start.elapsed().is_zero(), "it does not wait");
        }
    }
}

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
const PATIENT: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn the_caller_bounds_a_body_once_its_head_is_known() {
    for (text, limit) in [(CHUNKED, 5), (CHUNKED, 0), (PATIENT, 5)] {
        let (client, mut server) = asked(text).await;
        assert!(server.next_head().await.unwrap().is_some());
        let refused = server.read_body(limit).await;
        let Err(ServerError::Reject(reject)) = refused else { panic!("{refused:?}") };
        assert_eq!(reject, Reject::BodyTooLarge(limit));
        server.reject(&reject).await.unwrap();
        assert!(server.next_head().await.unwrap().is_none());
        assert!(
            sent(server, client).await.starts_with("HTTP/1.1 413 "),
            "refused without 100 Continue"
        );
    }
    let (mut client, mut server) = asked(format!("{CHUNKED}{PATIENT}")).await;
    assert!(server.next_head().await.unwrap().is_some());
    assert_eq!(server.read_body(6).await.unwrap(), "hello!");
    assert_eq!(server.read_body(6).await.unwrap(), "", "it was read");
    server.respond(204, NO_HEADERS, b"").await.unwrap();
    // Reading the body can be cancelled and resumed. Only one `100 Continue` is sent.
    assert!(server.next_head().await.unwrap().is_some());
    for part in ["he", "llo!"] {
        assert!(timeout(Duration::from_millis(1), server.read_body(6)).await.is_err());
        client.write_all(part.as_bytes()).await.unwrap();
    }
    assert_eq!(server.read_body(6).await.unwrap(), "hello!");
    server.respond(204, NO_HEADERS, b"").await.unwrap();
    assert!(!server.is_closing());
    let empty = "HTTP/1.1 204 No Content\r\n\r\n";
    let expected = format!("{empty}HTTP/1.1 100 Continue\r\n\r\n{empty}");
    assert_eq!(sent(server, client).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_response_before_the_body_was_read_is_the_last() {
    for (text, last) in [(GET, false), (CHUNKED, true), (PATIENT, true)] {
        let (client, mut server) = asked(format!("{text}{GET}")).await;
        assert!(server.next_head().await.unwrap().is_some());
        assert!(matches!(server.next_head().await, Err(ServerError::OutOfOrder(_))));
        assert!(!server.is_idle());
        server.respond(404, NO_HEADERS, b"").await.unwrap();
        assert_eq!(server.is_closing(), last, "{text:?}");
        assert_eq!(server.next_head().await.unwrap().is_none(), last, "a body is not a request");
        assert_eq!(sent(server, client).await.contains("connection: close"), last, "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lingering_is_bounded_in_bytes_and_in_time() {
    let limits = Limits { linger_bytes: 1000, ..Limits::default() };
    let (mut client, mut server) = connect_with(limits, Timeouts::default(), 256);
    client.write_all(b"\0").await.unwrap();
    let reject = refused(&mut server).await;
    server.reject(&reject).await.unwrap();
    let flood = async {
        let mut total = 0;
        while client.write_all(&[0; 100]).await.is_ok() {
            total += 100;
        }
        total
    };
    let (total, ()) = tokio::join!(flood, server.close());
    assert!((1000..=1400).contains(&total), "{total}");

    let (_client, server) = connect();
    let start = Instant::now();
    server.close().await;
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_close_is_detected_while_a_response_is_prepared() {
    let (mut client, mut server) = asked(GET).await;
    next(&mut server).await;
    assert!(timeout(Duration::from_secs(5), server.peer_closed()).await.is_err(), "still there");
    client.write_all(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(timeout(Duration::from_secs(5), server.peer_closed()).await.is_err(), "pipelining");
    drop(client);
    server.peer_closed().await;
    server.peer_closed().await;
}

#[tokio::test(start_paused = true)]
async fn bytes_that_arrive_early_are_kept_and_bounded() {
    let limits =
        Limits { head_bytes: 64, chunk_line_bytes: 64, trailer_bytes: 0, ..Limits::default() };
    let (mut client, mut server) = connect_with(limits, Timeouts::default(), 1 << 10);
    for part in ["GET /1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"] {
        client.write_all(part.as_bytes()).await.unwrap();
    }
    next(&mut server).await;
    client.write_all(&[b'x'; 1000]).await.unwrap();
    drop(client);
    let gone = timeout(Duration::from_secs(5), server.peer_closed()).await;
    assert!(gone.is_err(), "the end is behind more bytes than the buffer holds");
    // The request is still current, but the pipe no longer has a reader, so the response cannot be
    // sent.
    assert!(matches!(server.respond(200, NO_HEADERS, b"").await, Err(ServerError::Io(_))));
}

#[tokio::test(start_paused = true)]
async fn a_half_closed_client_still_gets_its_response() {
    let (mut client, mut server) = asked(b"GET /1 HTTP/1.0\r\n\r\n").await;
    client.shutdown().await.unwrap();
    next(&mut server).await;
    server.peer_closed().await;
    server.respond(200, NO_HEADERS, b"here").await.unwrap();
    server.close().await;
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("connection: close\r\n\r\nhere"));
}

#[tokio::test(start_paused = true)]
async fn head_and_bodiless_statuses_get_no_body() {
    let (mut client, mut server) = connect();
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(format!("{head}{head}{GET}{GET}{GET}").as_bytes()).await.unwrap();
    next(&mut server).await;
    server.respond(200, NO_HEADERS, b"body").await.unwrap();
    next(&mut server).await;
    server.start_response(200, NO_HEADERS, BodyLength::Chunked).unwrap();
    server.write_body(&b"body"[..]).await.unwrap();
    server.finish_body().await.unwrap();
    next(&mut server).await;
    server.respond(204, NO_HEADERS, b"body").await.unwrap();
    next(&mut server).await;
    server.respond(304, NO_HEADERS, b"").await.unwrap();
    next(&mut server).await;
    server.start_response(200, NO_HEADERS, BodyLength::None).unwrap();
    server.finish_body().await.unwrap();
    assert_eq!(
        sent(server, client).await,
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\
         HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
         HTTP/1.1 204 No Content\r\n\r\n\
         HTTP/1.1 304 Not Modified\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn streams_in_each_form() {
    let (mut client, mut server) = connect();
    client.write_all(format!("{GET}{GET}{GET}").as_bytes()).await.unwrap();
    let large = vec![b'z'; 5000];
    for length in [BodyLength::Known(5005), BodyLength::Chunked, BodyLength::UntilClose] {
        next(&mut server).await;
        server.start_response(200, NO_HEADERS, length).unwrap();
        for part in [&b"hello"[..], b"", &large] {
            server.write_body(part).await.unwrap();
        }
        server.finish_body().await.unwrap();
    }
    assert!(server.is_closing());
    let large = "z".repeat(5000);
    assert_eq!(
        sent(server, client).await,
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 5005\r\n\r\nhello{large}\
             HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
             5\r\nhello\r\n1388\r\n{large}\r\n0\r\n\r\n\
             HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello{large}"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn http10_gets_no_chunks_and_an_explicit_keep_alive() {
    let (mut client, mut server) = connect();
    let kept = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    client.write_all(format!("{kept}{kept}").as_bytes()).await.unwrap();
    next(&mut server).await;
    server.respond(200, NO_HEADERS, b"one").await.unwrap();
    next(&mut server).await;
    server.start_response(200, NO_HEADERS, BodyLength::Chunked).unwrap();
    server.write_body(&b"two"[..]).await.unwrap();
    server.finish_body().await.unwrap();
    assert!(server.next_request().await.unwrap().is_none());
    assert_eq!(
        sent(server, client).await,
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\none\
         HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ntwo"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_given_up() {
    let (mut client, mut server) = connect_with(Limits::default(), Timeouts::default(), 128);
    client.write_all(GET.as_bytes()).await.unwrap();
    next(&mut server).await;
    let start = Instant::now();
    let failure = server.respond(200, NO_HEADERS, &[0; 1000]).await;
    assert!(matches!(failure, Err(ServerError::WriteTimeout(30_000))));
    assert_eq!(start.elapsed().as_secs(), 30);
    assert!(server.is_closing());
    server.close().await;
    assert_eq!(start.elapsed().as_secs(), 30, "it does not wait again");
}

#[tokio::test(start_paused = true)]
async fn a_head_is_sent_before_its_body_on_demand() {
    let (mut client, mut server) = asked(GET).await;
    next(&mut server).await;
    server.start_response(200, NO_HEADERS, BodyLength::Known(1)).unwrap();
    server.flush().await.unwrap();
    let mut text = [0; 100];
    let read = client.read(&mut text).await.unwrap();
    assert_eq!(&text[..read], b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n");
}

#[tokio::test(start_paused = true)]
async fn small_responses_leave_in_one_write() {
    let stream = tokio::io::join(GET.as_bytes(), Counting::default());
    let mut server = Connection::new(stream, Limits::default(), Timeouts::default());
    server.next_request().await.unwrap().unwrap();
    server.respond(200, NO_HEADERS, &[b'x'; 4096]).await.unwrap();
    assert_eq!(server.stream().writer().0, 1);
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_the_caller_are_errors() {
    let (mut client, mut server) = connect();
    let early = server.respond(200, NO_HEADERS, b"").await;
    assert!(matches!(early, Err(ServerError::OutOfOrder(_))));
    assert!(matches!(server.write_body(&b"x"[..]).await, Err(ServerError::OutOfOrder(_))));
    client.write_all(GET.as_bytes()).await.unwrap();
    next(&mut server).await;
    assert!(matches!(server.next_request().await, Err(ServerError::OutOfOrder(_))));
    let split = server.respond(200, [("x", "y\r\nz: a")], b"").await;
    assert!(matches!(split, Err(ServerError::Write(WriteError::FieldValue))));
    let interim = server.respond(101, NO_HEADERS, b"").await;
    assert!(matches!(interim, Err(ServerError::Write(WriteError::Status(101)))));
    server.start_response(200, NO_HEADERS, BodyLength::Known(3)).unwrap();
    let again = server.start_response(200, NO_HEADERS, BodyLength::Known(3));
    assert!(matches!(again, Err(ServerError::OutOfOrder(_))));
    assert!(matches!(server.write_body(&b"four"[..]).await, Err(ServerError::BodyLength)));
    server.write_body(&b"tw"[..]).await.unwrap();
    assert!(matches!(server.finish_body().await, Err(ServerError::BodyLength)));
    let text = sent(server, client).await;
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntw", "detectably cut short");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_announces_the_close() {
    let (mut client, mut server) = connect();
    server.close_after_response();
    client.write_all(GET.as_bytes()).await.unwrap();
    next(&mut server).await;
    server.respond(200, NO_HEADERS, b"").await.unwrap();
    assert!(server.next_request().await.unwrap().is_none());
    assert!(sent(server, client).await.contains("connection: close"));
}

/// A sink that counts the writes and drops the bytes.
#[derive(Default)]
struct Counting(usize);

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0 += 1;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
