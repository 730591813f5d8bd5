//! A client's request, over HTTP/1.1 or HTTP/2. The code that handles requests is generic over this.

use std::future::Future;

use bytes::Bytes;
use curtail_http::h1::BodyLength;
use curtail_http::h1::server::{Connection, ServerError};
use curtail_http::h2::server::Exchange;
use curtail_net::Stream;
use http::HeaderMap;

type Done = Result<(), ServerError>;

/// The means to read the body of a request and to respond to it. The methods are those of
/// [`Connection`]. A response begins with [`start_response`](Front::start_response).
pub(super) trait Front: Send {
    fn read_body(
        &mut self,
        limit: usize,
    ) -> impl Future<Output = Result<Bytes, ServerError>> + Send;

    /// Resolves when the client has left. Cancel safe.
    fn peer_closed(&mut self) -> impl Future<Output = ()> + Send;

    fn start_response<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        status: u16,
        headers: impl IntoIterator<Item = (N, V)>,
        length: BodyLength,
    ) -> Done;

    fn write_body(&mut self, data: &[u8]) -> impl Future<Output = Done> + Send;

    /// Sends the whole body, and ends the response.
    fn send_whole(&mut self, body: &[u8]) -> impl Future<Output = Done> + Send;

    /// Ends the response. Trailers are sent only over HTTP/2.
    fn finish_body(&mut self, trailers: Option<&HeaderMap>) -> impl Future<Output = Done> + Send;

    fn flush(&mut self) -> impl Future<Output = Done> + Send;

    /// Makes this response the last one on the connection, which is about to be closed.
    fn close_after_response(&mut self);

    /// Sets the type of service of a connection that carries one request at a time.
    fn set_type_of_service(&self, value: u8);

    /// Makes sure that the client does not take an incomplete response for a complete one.
    fn reset(&mut self);
}

impl Front for Connection<Stream> {
    async fn read_body(&mut self, limit: usize) -> Result<Bytes, ServerError> {
        self.read_body(limit).await
    }

    async fn peer_closed(&mut self) {
        self.peer_closed().await;
    }

    fn start_response<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        status: u16,
        headers: impl IntoIterator<Item = (N, V)>,
        length: BodyLength,
    ) -> Done {
        self.start_response(status, headers, length)
    }

    async fn write_body(&mut self, data: &[u8]) -> Done {
        self.write_body(data).await
    }

    async fn send_whole(&mut self, body: &[u8]) -> Done {
        self.write_body(body).await?;
        self.finish_body().await
    }

    async fn finish_body(&mut self, _: Option<&HeaderMap>) -> Done {
        self.finish_body().await
    }

    async fn flush(&mut self) -> Done {
        self.flush().await
    }

    fn close_after_response(&mut self) {
        self.close_after_response();
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

    async fn peer_closed(&mut self) {
        self.peer_closed().await;
    }

    fn start_response<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        status: u16,
        headers: impl IntoIterator<Item = (N, V)>,
        length: BodyLength,
    ) -> Done {
        self.start_response(status, headers, length)
    }

    async fn write_body(&mut self, data: &[u8]) -> Done {
        self.write_body(data).await
    }

    async fn send_whole(&mut self, body: &[u8]) -> Done {
        self.send_whole(body).await
    }

    async fn finish_body(&mut self, trailers: Option<&HeaderMap>) -> Done {
        self.finish_body(trailers.cloned()).await
    }

    async fn flush(&mut self) -> Done {
        // The task of the connection sends frames as soon as it can.
        Ok(())
    }

    fn close_after_response(&mut self) {
        // The connection announces its end itself (GOAWAY).
    }

    fn set_type_of_service(&self, _: u8) {
        // Requests of both priorities share the connection.
    }

    fn reset(&mut self) {
        self.reset();
    }
}
