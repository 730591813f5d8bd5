//! Tests a client's connection to a scripted server over an in-memory pipe.

use std::time::Duration;

use bytes::BytesMut;
use curtail_http::h1::client::{ClientError, Connection};
use curtail_http::h1::server;
use curtail_http::h1::{
    BadResponse, BodyError, BodyLength, Limits, Persistence, Timeouts, write_request,
};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

type Client = Connection<DuplexStream>;

fn connect() -> (Client, DuplexStream) {
    let (client, server) = duplex(1 << 20);
    (Connection::new(client, Limits::default()), server)
}

/// Returns a client whose server has sent `text`. The server has also closed the connection, unless
/// `stays` is true.
async fn scripted(text: impl AsRef<[u8]>, stays: bool) -> (Client, DuplexStream) {
    let (client, mut server) = connect();
    server.write_all(text.as_ref()).await.unwrap();
    if !stays {
        server.shutdown().await.unwrap();
    }
    (client, server)
}

/// Returns the result of a request whose response is `text`, followed by a close.
async fn outcome(text: impl AsRef<[u8]>) -> Result<Vec<u8>, ClientError> {
    let (mut client, _server) = scripted(text, false).await;
    client.send(GET, false).await?;
    let body = client.body_all(1000).await;
    if body.is_err() {
        assert!(!client.reusable() && client.is_stale());
    }
    Ok(body?.to_vec())
}

#[tokio::test(start_paused = true)]
async fn reuses_a_connection() {
    let (mut client, mut server) = connect();
    assert!(client.reusable() && !client.is_stale(), "new");
    for length in [0, 3, 0] {
        let body = "x".repeat(length);
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
        let (head, ()) = tokio::join!(client.send(GET, false), async {
            let mut request = vec![0; GET.len()];
            server.read_exact(&mut request).await.unwrap();
            assert_eq!(request, GET);
            server.write_all(response.as_bytes()).await.unwrap();
        });
        assert_eq!(head.unwrap().status(), 200);
        assert_eq!(client.reusable(), length == 0, "not before the end of the body");
        assert_eq!(client.body_all(10).await.unwrap(), body);
        assert!(client.body().await.unwrap().is_none());
        assert!(client.reusable() && !client.is_stale());
    }
}

#[tokio::test(start_paused = true)]
async fn reads_bodies_of_each_form() {
    let head = "HTTP/1.1 200 OK\r\n";
    assert_eq!(outcome(OK).await.unwrap(), b"ok");
    assert_eq!(
        outcome(format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"))
            .await
            .unwrap(),
        b"abc"
    );
    assert_eq!(outcome(format!("{head}\r\nall of it")).await.unwrap(), b"all of it");
    let (mut client, _server) = scripted(format!("{head}\r\nall"), false).await;
    client.send(GET, false).await.unwrap();
    client.body_all(10).await.unwrap();
    assert!(!client.reusable(), "the close was the end of the body");
}

#[tokio::test(start_paused = true)]
async fn interim_responses_are_skipped() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    assert_eq!(outcome(format!("{early}{early}{OK}")).await.unwrap(), b"ok");
    let upgrade = outcome("HTTP/1.1 101 Switching Protocols\r\n\r\n").await;
    assert!(matches!(upgrade, Err(ClientError::Parse(BadResponse::Upgrade))));
    let endless = outcome(early.repeat(50)).await;
    assert!(matches!(endless, Err(ClientError::Parse(BadResponse::TooManyInterim(16)))));
    assert!(matches!(outcome(early).await, Err(ClientError::IncompleteMessage)));
}

#[tokio::test(start_paused = true)]
async fn the_error_depends_on_where_the_connection_ends() {
    assert!(matches!(outcome("").await, Err(ClientError::Closed)));
    for end in 1..OK.len() {
        let half = outcome(&OK[..end]).await;
        assert!(matches!(half, Err(ClientError::IncompleteMessage)), "{end}: {half:?}");
    }
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    for end in 1..chunked.len() {
        let half = outcome(&chunked[..end]).await;
        assert!(matches!(half, Err(ClientError::IncompleteMessage)), "{end}: {half:?}");
    }
    let (mut client, server) = connect();
    drop(server);
    assert!(matches!(client.send(GET, false).await, Err(ClientError::Unsent)), "no reader at all");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_response_is_an_error_at_once() {
    for text in ["nonsense", "HTTP/1.1 x00 OK\r\n\r\n", "HTTP/1.1 200 OK\n"] {
        let (mut client, _server) = scripted(text, true).await;
        let noise = client.send(GET, false).await;
        assert!(matches!(noise, Err(ClientError::Parse(_))), "{text:?}");
        assert!(!client.reusable());
    }
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz";
    let (mut client, _server) = scripted(chunks, true).await;
    client.send(GET, false).await.unwrap();
    let noise = client.body().await;
    assert!(matches!(noise, Err(ClientError::Parse(BadResponse::Body(BodyError::Size)))));
    assert!(!client.reusable());
    assert!(client.body().await.is_err(), "and stays so");
}

#[tokio::test(start_paused = true)]
async fn extraneous_data_after_a_response_ends_reuse() {
    for (text, is_head) in [
        (format!("{OK}{OK}"), false),
        (format!("{OK}x"), false),
        ("HTTP/1.1 204 No Content\r\n\r\nx".to_owned(), false),
        (OK.to_owned(), true),
    ] {
        let (mut client, _server) = scripted(&text, true).await;
        client.send(GET, is_head).await.unwrap();
        client.body_all(10).await.unwrap();
        assert!(!client.reusable() && client.is_stale(), "{text:?}");
        assert!(matches!(client.send(GET, false).await, Err(ClientError::NotReusable)));
    }
}

#[tokio::test(start_paused = true)]
async fn late_bytes_and_closes_are_detected_before_reuse() {
    let done = async || {
        let (mut client, server) = scripted(OK, true).await;
        client.send(GET, false).await.unwrap();
        client.body_all(10).await.unwrap();
        assert!(client.reusable() && !client.is_stale());
        (client, server)
    };
    let (mut client, mut server) = done().await;
    server.write_all(b"HTTP").await.unwrap();
    assert!(client.reusable() && client.is_stale() && !client.reusable());
    let (mut client, server) = done().await;
    drop(server);
    assert!(client.reusable() && client.is_stale() && !client.reusable());
}

#[tokio::test(start_paused = true)]
async fn a_response_to_head_has_no_body() {
    let (mut client, _server) =
        scripted("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", true).await;
    let head = client.send(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", true).await.unwrap();
    assert_eq!(head.header("content-length"), Some(&b"99"[..]));
    assert!(client.body().await.unwrap().is_none() && client.reusable());
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_close_is_not_reused() {
    let (mut client, _server) =
        scripted("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", true).await;
    client.send(GET, false).await.unwrap();
    assert!(!client.reusable());
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_of_the_caller_is_an_error() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
            + &"6\r\nhello \r\n".repeat(2)
            + "0\r\n\r\n",
    ] {
        let (mut client, _server) = scripted(&text, true).await;
        client.send(GET, false).await.unwrap();
        let verdict = client.body_all(10).await;
        assert!(matches!(verdict, Err(ClientError::TooLarge(10))));
        assert!(!client.reusable());
    }
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(20_000));
    assert!(matches!(
        outcome(long).await,
        Err(ClientError::Parse(BadResponse::HeadTooLarge(16384)))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_response_may_come_before_the_request_is_sent() {
    let (client, mut server) = duplex(64);
    let mut client = Connection::new(client, Limits::default());
    let mut request = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9000\r\n\r\n".to_vec();
    request.resize(request.len() + 9000, b'x');
    // The server sends its whole response before it reads, through a pipe that is smaller than the
    // request and the response. The client must therefore write and read at the same time.
    let (body, received) = tokio::join!(
        async {
            client.send(&request, false).await.unwrap();
            client.body_all(5000).await.unwrap()
        },
        async {
            server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n").await.unwrap();
            server.write_all(&[b'y'; 4999]).await.unwrap();
            let mut received = vec![0; request.len()];
            server.read_exact(&mut received).await.unwrap();
            server.write_all(b"y").await.unwrap();
            received
        }
    );
    assert_eq!(body.len(), 5000);
    assert!(received == request && client.reusable());
}

#[tokio::test(start_paused = true)]
async fn a_response_that_refuses_the_body_is_read() {
    let (client, mut server) = duplex(64);
    let mut client = Connection::new(client, Limits::default());
    let request = vec![b'x'; 1000];
    let (head, ()) = tokio::join!(client.send(&request, false), async {
        let refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
        server.write_all(refusal).await.unwrap();
        drop(server);
    });
    assert_eq!(head.unwrap().status(), 413);
    assert!(!client.reusable(), "the request was not sent to its end");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_exchange_ends_reuse() {
    let (mut client, _server) = connect();
    assert!(timeout(Duration::from_secs(1), client.send(GET, false)).await.is_err());
    assert!(!client.reusable() && client.is_stale());
    assert!(matches!(client.send(GET, false).await, Err(ClientError::NotReusable)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The client and the server of this crate can talk to each other through a pipe of any size.
    #[test]
    fn client_and_server_roundtrip(
        bodies in prop::collection::vec((0..9000usize, any::<bool>(), any::<bool>()), 1..5),
        pipe_bytes in 1..6000usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(roundtrip(&bodies, pipe_bytes));
    }
}

/// Echoes bodies of the given lengths. For each body, two flags say whether the request and the
/// response are chunked.
async fn roundtrip(bodies: &[(usize, bool, bool)], pipe_bytes: usize) {
    let (client, server) = duplex(pipe_bytes);
    let mut client = Connection::new(client, Limits::default());
    let mut server = server::Connection::new(server, Limits::default(), Timeouts::default());
    let asking = async {
        for &(length, chunked, _) in bodies {
            let body: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let mut request = BytesMut::new();
            let framing =
                if chunked { BodyLength::Chunked } else { BodyLength::Known(length as u64) };
            let headers = [("host", "a")];
            let keep = Persistence::Default;
            write_request(&mut request, "POST", "/echo", headers, framing, keep).unwrap();
            if chunked {
                body.chunks(700).for_each(|part| curtail_http::h1::write_chunk(&mut request, part));
                request.extend_from_slice(curtail_http::h1::LAST_CHUNK);
            } else {
                request.extend_from_slice(&body);
            }
            client.send(&request, false).await.unwrap();
            assert!(client.body_all(10_000).await.unwrap() == body);
            assert!(client.reusable());
        }
        drop(client);
    };
    let serving = async {
        for &(_, _, chunked) in bodies {
            let request = server.next_request().await.unwrap().unwrap();
            if chunked {
                server
                    .start_response(200, curtail_http::h1::NO_HEADERS, BodyLength::Chunked)
                    .unwrap();
                for part in request.body.chunks(5000) {
                    server.write_body(part).await.unwrap();
                }
                server.finish_body().await.unwrap();
            } else {
                server.respond(200, curtail_http::h1::NO_HEADERS, &request.body).await.unwrap();
            }
        }
        assert!(server.next_request().await.unwrap().is_none());
    };
    tokio::join!(asking, serving);
}
