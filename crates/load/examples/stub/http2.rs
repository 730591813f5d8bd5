//! Serves HTTP/2 with prior knowledge, and gRPC over HTTP/2.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;

use crate::Failure;
use crate::truth::Truth;

pub(crate) async fn serve(stream: TcpStream, truth: Arc<Truth>, grpc: bool) -> Result<(), Failure> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted?;
        let truth = Arc::clone(&truth);
        tokio::spawn(async move { answer(request, respond, &truth, grpc).await });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    truth: &Truth,
    grpc: bool,
) -> Result<(), Failure> {
    let mut body = request.into_body();
    while let Some(piece) = body.data().await {
        body.flow_control().release_capacity(piece?.len())?;
    }
    let read = Instant::now();
    truth.delay(read).await;
    if grpc {
        let head = Response::builder().header("content-type", "application/grpc").body(())?;
        let mut send = respond.send_response(head, false)?;
        // One empty message.
        send.send_data(Bytes::from_static(&[0; 5]), false)?;
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        send.send_trailers(trailers)?;
    } else {
        let mut send = respond.send_response(Response::new(()), false)?;
        send.send_data(Bytes::from_static(b"ok"), true)?;
    }
    // The connection writes the response when it is polled next, which happens immediately
    // afterward.
    truth.answered(read);
    Ok(())
}
