//! A server of HTTP/2 that does what the path of a request says.

use std::future::poll_fn;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves a connection, with so many requests at once.
pub(crate) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, streams: u32) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(streams);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        match request.uri().path() {
            "/dies" => return,
            "/away" => connection.graceful_shutdown(),
            "/abrupt" => {
                connection.abrupt_shutdown(Reason::INTERNAL_ERROR);
                continue;
            }
            _ => {}
        }
        tokio::spawn(answer(request, respond));
    }
}

/// Reads a body, and tells what was in it.
async fn body(mut from: RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(data)) = from.data().await {
        let _ = from.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
    }
    bytes
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let status = match &*path {
        "/busy" => 503,
        "/gone" => 404,
        _ => 200,
    };
    let says = |status: u16| Response::builder().status(status).body(()).unwrap();
    match &*path {
        "/silent" => {
            let _ = poll_fn(|context| respond.poll_reset(context)).await;
        }
        "/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "/refused" => respond.send_reset(Reason::REFUSED_STREAM),
        "/half" => {
            if let Ok(mut stream) = respond.send_response(says(200), false) {
                let _ = stream.send_data(Bytes::from_static(b"half"), false);
                stream.send_reset(Reason::CANCEL);
            }
        }
        "/big" => {
            if let Ok(mut stream) = respond.send_response(says(200), false) {
                let _ = stream.send_data(Bytes::from(vec![b'x'; 3 << 20]), true);
                let _ = poll_fn(|context| stream.poll_reset(context)).await;
            }
        }
        // A call of gRPC: sends the message back, or says what its first byte is.
        "/test.Echo/Say" => say(body(request.into_body()).await, respond),
        _ => {
            let said = body(request.into_body()).await;
            if let Ok(mut stream) = respond.send_response(says(status), false) {
                let _ = stream.send_data(Bytes::from(said), true);
            }
        }
    }
}

fn say(message: Vec<u8>, mut respond: SendResponse<Bytes>) {
    let head = Response::builder().header("content-type", "application/grpc");
    let mut trailers = HeaderMap::new();
    match message.get(5) {
        // Of the text field 1: `no` gets an error, in the headers alone.
        Some(_) if message[5..].ends_with(b"no") => {
            let head = head.header("grpc-status", "9").header("grpc-message", "not%20now");
            let _ = respond.send_response(head.body(()).unwrap(), true);
            return;
        }
        Some(_) if message[5..].ends_with(b"late") => {
            trailers.insert("grpc-status", "14".parse().unwrap());
        }
        Some(_) if message[5..].ends_with(b"mute") => {}
        _ => {
            trailers.insert("grpc-status", "0".parse().unwrap());
        }
    }
    if let Ok(mut stream) = respond.send_response(head.body(()).unwrap(), false) {
        let _ = stream.send_data(Bytes::from(message), false);
        let _ = stream.send_trailers(trailers);
    }
}
