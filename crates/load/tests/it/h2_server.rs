//! A server of HTTP/2 that sends bodies back, and of gRPC that sends messages back.

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{SendResponse, handshake};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Ok(mut connection) = handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond));
    }
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let is_grpc = request.headers().get("content-type").is_some_and(|it| it == "application/grpc");
    let (mut body, mut bytes) = (request.into_body(), Vec::new());
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
    }
    if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
        let _ = stream.send_data(Bytes::from(bytes), !is_grpc);
        if is_grpc {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            let _ = stream.send_trailers(trailers);
        }
    }
}
