//! OTLP over gRPC: one unary method, over HTTP/2 without TLS.
//!
//! As over HTTP, a connection carries one export at a time, so that memory use has the same bound.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use curtail_probe::traces::parse::protobuf;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{BODY_BYTES_MAX, Collector};

const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// Flow-control window: the number of bytes that a client may send before they are read.
const WINDOW_BYTES: u32 = 1 << 20;
/// Length of a message's prefix: a flag and a length.
const PREFIX_BYTES: usize = 5;
/// Timeout of a whole export.
const EXPORT: Duration = Duration::from_secs(60);

// gRPC status codes.
const INVALID_ARGUMENT: u16 = 3;
const DEADLINE_EXCEEDED: u16 = 4;
const RESOURCE_EXHAUSTED: u16 = 8;
const UNIMPLEMENTED: u16 = 12;

/// A status and its reason.
type Refused = (u16, String);

/// Serves the requests of one exporter.
pub(super) async fn converse(stream: TcpStream, collector: &Collector) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(1).max_header_list_size(HEAD_BYTES_MAX);
    builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    // Polling `accept` also drives the exports that were accepted before.
    while let Some(Ok((request, respond))) = connection.accept().await {
        let collector = collector.clone();
        tokio::spawn(async move {
            let done = timeout(EXPORT, export(request, &collector)).await;
            let late = (DEADLINE_EXCEEDED, "the export took too long".to_owned());
            let done = done.unwrap_or(Err(late));
            if done.is_err() {
                collector.refused();
            }
            // An error means that the client has left.
            let _ = conclude(respond, done);
        });
    }
}

async fn export(request: Request<RecvStream>, collector: &Collector) -> Result<(), Refused> {
    let (head, mut body) = request.into_parts();
    if head.uri.path() != METHOD {
        return Err((UNIMPLEMENTED, format!("the only method is {METHOD}")));
    }
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|error| (INVALID_ARGUMENT, error.to_string()))?;
        if bytes.len() + piece.len() > BODY_BYTES_MAX + PREFIX_BYTES {
            return Err((RESOURCE_EXHAUSTED, format!("it has more than {BODY_BYTES_MAX} bytes")));
        }
        bytes.extend_from_slice(&piece);
        // Ignore errors: they mean that the client has left, and the next read reports that.
        let _ = body.flow_control().release_capacity(piece.len());
    }
    let (message, is_packed) = message(&bytes)?;
    let coding = head.headers.get("grpc-encoding").filter(|_| is_packed);
    let done = collector.add(message, coding.map(HeaderValue::as_bytes), protobuf);
    done.map_err(|(status, why)| match status {
        415 => (UNIMPLEMENTED, why),
        _ => (INVALID_ARGUMENT, why),
    })
}

/// Returns the only message in a body, and whether it is compressed.
fn message(body: &[u8]) -> Result<(&[u8], bool), Refused> {
    match body {
        [flag @ (0 | 1), a, b, c, d, message @ ..]
            if u32::from_be_bytes([*a, *b, *c, *d]) as usize == message.len() =>
        {
            Ok((message, *flag == 1))
        }
        _ => Err((INVALID_ARGUMENT, "it must be one message with a length prefix".to_owned())),
    }
}

fn conclude(mut respond: SendResponse<Bytes>, done: Result<(), Refused>) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let Err((status, why)) = done else {
        let mut send = respond.send_response(response, false)?;
        // A response without fields has no bytes.
        send.send_data(Bytes::from_static(&[0; PREFIX_BYTES]), false)?;
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        return send.send_trailers(trailers);
    };
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(status));
    let why = utf8_percent_encode(&why, NON_ALPHANUMERIC).to_string();
    headers.extend(
        HeaderValue::try_from(why).map(|why| (http::HeaderName::from_static("grpc-message"), why)),
    );
    respond.send_response(response, true).map(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::net::TcpListener;

    use super::super::converse;
    use super::super::tests::{collector, export};
    use super::*;
    use crate::profile::traces::tests::gzip;

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
        let traces = collector.traces.lock().expect("no panic");
        let counts = (traces.held(), traces.count());
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
}
