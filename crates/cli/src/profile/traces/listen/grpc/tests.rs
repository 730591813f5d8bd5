use proptest::prelude::*;
use tokio::net::TcpListener;

use super::super::converse;
use super::super::tests::{collector, export, gzip};
use super::*;

/// Encodes a body with one message.
fn body(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// Sends an export. Returns the status and the length of the response, and the numbers of spans and
/// traces that the collector has afterward.
async fn respond(
    path: &str,
    coding: &'static str,
    body: Vec<u8>,
) -> (String, usize, (usize, usize)) {
    let collector = collector();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("up");
    let (accepted, _) = listener.accept().await.expect("a client");
    tokio::spawn(converse(accepted, collector.clone()));
    let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut client = client.ready().await.expect("room");
    let request = Request::post(format!("http://x{path}")).header("grpc-encoding", coding);
    let (response, mut send) =
        client.send_request(request.body(()).expect("fits"), false).expect("sent");
    // A request that is rejected early is not read completely.
    let _ = send.send_data(body.into(), true);
    let mut response = response.await.expect("a response").into_parts();
    let mut bytes = 0;
    while let Some(Ok(piece)) = response.1.data().await {
        bytes += piece.len();
    }
    let trailers = response.1.trailers().await.ok().flatten().unwrap_or(response.0.headers);
    let status = trailers["grpc-status"].to_str().expect("a number").to_owned();
    let counts = collector.traces.lock().expect("no panic").counts();
    (status, bytes, counts)
}

#[tokio::test]
async fn exports_are_taken_over_grpc() {
    let ok = ("0".to_owned(), 5, (1, 1));
    assert_eq!(respond(METHOD, "identity", body(0, &export())).await, ok);
    assert_eq!(respond(METHOD, "GZIP", body(1, &gzip(&export()))).await, ok);
    // The header names a coding, and a flag marks the messages that use it.
    assert_eq!(respond(METHOD, "gzip", body(0, &export())).await, ok);
}

#[tokio::test]
async fn invalid_exports_are_rejected() {
    let refused = [
        ("/other.Service/Export", "identity", body(0, &export()), "12"),
        (METHOD, "zstd", body(1, &export()), "12"),
        (METHOD, "gzip", body(1, &export()), "3"),
        (METHOD, "identity", export(), "3"),
        (METHOD, "identity", body(0, b"{}"), "3"),
        (METHOD, "identity", Vec::new(), "3"),
        (METHOD, "identity", body(0, &vec![0; BODY_BYTES_MAX + 1]), "8"),
    ];
    for (path, coding, body, status) in refused {
        let expected = (status.to_owned(), 0, (0, 0));
        assert_eq!(respond(path, coding, body).await, expected, "{path} {coding}");
    }
}

mod parse {
    use super::*;

    proptest! {
        #[test]
        fn any_body_is_one_message_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((found, is_packed)) = message(&bytes) {
                prop_assert_eq!(body(is_packed.into(), found), bytes);
            }
        }
    }
}
