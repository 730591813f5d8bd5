//! A client's request, over HTTP/1.1 or HTTP/2. The code that handles requests is generic over this.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use curtail_http::h1::server::{Connection, ServerError};
use curtail_http::h1::{BodyLength, HeaderLines};
use curtail_http::h2::server::Exchange;
use curtail_net::Stream;
use h2::RecvStream;
use http::HeaderMap;

type Done = Result<(), ServerError>;

/// The means to read the body of a request and to respond to it. The methods are those of
/// [`Connection`]. A response begins with [`start_response`](Front::start_response).
pub(super) trait Front: Send {
    fn read_body(
        &mut self,
        limit: usize,
    ) -> impl Future<Output = Result<Bytes, ServerError>> + Send;

    /// Takes the body of the request, to relay it while it arrives. Returns `None` if there is none,
    /// or if the client uses HTTP/1.1.
    fn take_body(&mut self) -> Option<RecvStream>;

    /// Polls for the departure of the client.
    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Done;

    fn write_body(&mut self, data: impl Buf + Send) -> impl Future<Output = Done> + Send;

    /// Sends the whole body, and ends the response.
    fn send_whole(&mut self, body: Bytes) -> impl Future<Output = Done> + Send;

    /// Ends the response. Trailers are sent only over HTTP/2.
    fn finish_body(
        &mut self,
        trailers: Option<Box<HeaderMap>>,
    ) -> impl Future<Output = Done> + Send;

    fn flush(&mut self) -> impl Future<Output = Done> + Send;

    /// Makes this response the last one on the connection, which is about to be closed.
    fn close_after_response(&mut self);

    /// Returns whether the client expects a response of gRPC.
    fn is_grpc(&self) -> bool;

    /// Sets the type of service of a connection that carries one request at a time.
    fn set_type_of_service(&self, value: u8);

    /// Makes sure that the client does not take an incomplete response for a complete one.
    fn reset(&mut self);
}

/// Awaits a future unless the client leaves first. Returns `None` if it has.
pub(super) async fn unless_closed<F: Front, T>(
    client: &mut F,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => client.poll_peer_closed(context).map(|()| None),
    })
    .await
}

impl Front for Connection<Stream> {
    async fn read_body(&mut self, limit: usize) -> Result<Bytes, ServerError> {
        self.read_body(limit).await
    }

    fn take_body(&mut self) -> Option<RecvStream> {
        None
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_peer_closed(context)
    }

    fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Done {
        self.start_response(status, headers, length)
    }

    async fn write_body(&mut self, data: impl Buf + Send) -> Done {
        self.write_body(data).await
    }

    async fn send_whole(&mut self, body: Bytes) -> Done {
        self.write_body(&body[..]).await?;
        self.finish_body().await
    }

    async fn finish_body(&mut self, _: Option<Box<HeaderMap>>) -> Done {
        self.finish_body().await
    }

    async fn flush(&mut self) -> Done {
        self.flush().await
    }

    fn close_after_response(&mut self) {
        self.close_after_response();
    }

    fn is_grpc(&self) -> bool {
        // gRPC requires HTTP/2.
        false
    }

    fn set_type_of_service(&self, value: u8) {
        // If it fails, the connection has failed, too.
        let _ = self.stream().set_type_of_service(value);
    }

    fn reset(&mut self) {
        let _ = self.stream().set_zero_linger();
    }
}

impl Front for Exchange {
    async fn read_body(&mut self, limit: usize) -> Result<Bytes, ServerError> {
        self.read_body(limit).await
    }

    fn take_body(&mut self) -> Option<RecvStream> {
        self.take_body()
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_peer_closed(context)
    }

    fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Done {
        self.start_response(status, headers, length)
    }

    async fn write_body(&mut self, data: impl Buf + Send) -> Done {
        self.write_body(data).await
    }

    async fn send_whole(&mut self, body: Bytes) -> Done {
        self.send_whole(body).await
    }

    async fn finish_body(&mut self, trailers: Option<Box<HeaderMap>>) -> Done {
        self.finish_body(trailers.map(|trailers| *trailers)).await
    }

    async fn flush(&mut self) -> Done {
        // The task of the connection sends frames as soon as it can.
        Ok(())
    }

    fn close_after_response(&mut self) {
        // The connection announces its end itself (GOAWAY).
    }

    fn is_grpc(&self) -> bool {
        self.is_grpc()
    }

    fn set_type_of_service(&self, _: u8) {
        // Requests of both priorities share the connection.
    }

    fn reset(&mut self) {
        self.reset();
    }
}
