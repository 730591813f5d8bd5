//! A client's request, over HTTP/1.1 or HTTP/2. The code that handles requests is generic over this.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use curtail_http::h1::server::{Connection, ServerError};
use curtail_http::h1::{BodyLength, HeaderLines, Joined};
use curtail_http::h2::server::Exchange;
use curtail_net::Stream;
use curtail_runtime::http::BodySender;
use h2::RecvStream;
use http::HeaderMap;

use super::tunnel::{Upgrade, WEBSOCKET_ACCEPT};
use crate::metrics::RequestOutcome;

type Done = Result<(), ServerError>;

/// The means to read the body of a request and to respond to it. Most methods are those of
/// [`Connection`]. A response begins with [`start_response`](Front::start_response).
pub(super) trait Front: Send {
    /// Polls for the next piece of the body of the request, which may have at most `limit` bytes.
    fn poll_body(
        &mut self,
        limit: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>>;

    /// Takes the body of the request, to relay it independently of the response. Returns `None` if
    /// the client uses HTTP/1.1.
    fn take_body(&mut self) -> Option<RecvStream>;

    /// Returns the upload of the request, if its body is relayed while it arrives.
    fn upload(&mut self) -> &mut Option<Upload>;

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

    /// Responds that the connection has switched to the protocol that the client asked for.
    fn open_tunnel(&mut self, headers: impl HeaderLines, upgrade: &Upgrade) -> Done;

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

/// A body that is relayed while it arrives.
pub(super) struct Upload {
    pub(super) sender: BodySender,
    /// Maximum number of bytes.
    pub(super) limit: usize,
}

/// The reason why a response did not reach the client, or not in full.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cut {
    #[error(transparent)]
    Client(#[from] ServerError),
    #[error("the client left")]
    PeerClosed,
    #[error("the replica broke off its response")]
    Replica,
    #[error("the service's timeout expired during the response")]
    Timeout,
    #[error("a primary took the slot of this duplicate")]
    Preempted,
}

impl Cut {
    /// Returns the outcome of the request, which depends on who ended it.
    pub(super) fn outcome(&self) -> RequestOutcome {
        match self {
            Self::PeerClosed
            | Self::Client(
                ServerError::Io(_) | ServerError::WriteTimeout(..) | ServerError::IncompleteMessage,
            ) => RequestOutcome::Abandoned,
            Self::Replica | Self::Timeout | Self::Preempted | Self::Client(_) => {
                RequestOutcome::Cut
            }
        }
    }
}

/// Awaits a future and relays the body of the request meanwhile. Fails if the client leaves, or if its
/// body is invalid.
pub(super) async fn unless_closed<F: Front, T>(
    client: &mut F,
    future: impl Future<Output = T>,
) -> Result<T, Cut> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Ok(result)),
        Poll::Pending => poll_end(client, context).map(Err),
    })
    .await
}

/// Relays the body of the request, and polls for the reason why the client gets no response.
fn poll_end<F: Front>(client: &mut F, context: &mut Context<'_>) -> Poll<Cut> {
    while let Some(upload) = client.upload() {
        let limit = upload.limit;
        if !ready!(upload.sender.poll_room(context)) {
            // The server wants no more of the body.
            *client.upload() = None;
            break;
        }
        match ready!(client.poll_body(limit, context)) {
            Ok(Some(piece)) => {
                if let Some(upload) = client.upload() {
                    upload.sender.send(piece);
                }
            }
            Ok(None) => {
                if let Some(upload) = client.upload().take() {
                    upload.sender.end(Ok(None));
                }
            }
            Err(error) => {
                // The replica sees that the body is incomplete.
                *client.upload() = None;
                return Poll::Ready(Cut::Client(error));
            }
        }
    }
    client.poll_peer_closed(context).map(|()| Cut::PeerClosed)
}

/// A client that uses HTTP/1.1.
pub(super) struct Http1 {
    pub(super) connection: Connection<Stream>,
    upload: Option<Upload>,
}

/// A request of a client that uses HTTP/2.
pub(super) struct Http2 {
    pub(super) exchange: Exchange,
    upload: Option<Upload>,
}

impl Http1 {
    pub(super) fn new(connection: Connection<Stream>) -> Self {
        Self { connection, upload: None }
    }
}

impl Http2 {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self { exchange, upload: None }
    }
}

impl Front for Http1 {
    fn poll_body(
        &mut self,
        limit: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        self.connection.poll_body(limit, context)
    }

    fn upload(&mut self) -> &mut Option<Upload> {
        &mut self.upload
    }

    fn take_body(&mut self) -> Option<RecvStream> {
        None
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.connection.poll_peer_closed(context)
    }

    fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Done {
        self.connection.start_response(status, headers, length)
    }

    async fn write_body(&mut self, data: impl Buf + Send) -> Done {
        self.connection.write_body(data).await
    }

    async fn send_whole(&mut self, body: Bytes) -> Done {
        self.connection.write_body(&body[..]).await?;
        self.connection.finish_body().await
    }

    fn open_tunnel(&mut self, headers: impl HeaderLines, upgrade: &Upgrade) -> Done {
        let protocol = [(&b"upgrade"[..], upgrade.protocol.as_bytes())];
        // A replica that uses HTTP/2 has not seen the key.
        let accept = upgrade.accept();
        let accept = accept.as_ref().map(|value| (WEBSOCKET_ACCEPT.as_bytes(), value.as_bytes()));
        let own = protocol.into_iter().chain(accept);
        self.connection.switch_protocols(Joined(headers, own))
    }

    async fn finish_body(&mut self, _: Option<Box<HeaderMap>>) -> Done {
        self.connection.finish_body().await
    }

    async fn flush(&mut self) -> Done {
        self.connection.flush().await
    }

    fn close_after_response(&mut self) {
        self.connection.close_after_response();
    }

    fn is_grpc(&self) -> bool {
        // gRPC requires HTTP/2.
        false
    }

    fn set_type_of_service(&self, value: u8) {
        // If it fails, the connection has failed, too.
        let _ = self.connection.stream().set_type_of_service(value);
    }

    fn reset(&mut self) {
        let _ = self.connection.stream().set_zero_linger();
    }
}

impl Front for Http2 {
    fn poll_body(
        &mut self,
        limit: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ServerError>> {
        self.exchange.poll_body(limit, context)
    }

    fn upload(&mut self) -> &mut Option<Upload> {
        &mut self.upload
    }

    fn take_body(&mut self) -> Option<RecvStream> {
        self.exchange.take_body()
    }

    fn poll_peer_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.exchange.poll_peer_closed(context)
    }

    fn start_response(
        &mut self,
        status: u16,
        headers: impl HeaderLines,
        length: BodyLength,
    ) -> Done {
        self.exchange.start_response(status, headers, length)
    }

    async fn write_body(&mut self, data: impl Buf + Send) -> Done {
        self.exchange.write_body(data).await
    }

    async fn send_whole(&mut self, body: Bytes) -> Done {
        self.exchange.send_whole(body).await
    }

    fn open_tunnel(&mut self, headers: impl HeaderLines, _: &Upgrade) -> Done {
        self.exchange.start_response(200, headers, BodyLength::Chunked)
    }

    async fn finish_body(&mut self, trailers: Option<Box<HeaderMap>>) -> Done {
        self.exchange.finish_body(trailers.map(|trailers| *trailers)).await
    }

    async fn flush(&mut self) -> Done {
        // The task of the connection sends frames as soon as it can.
        Ok(())
    }

    fn close_after_response(&mut self) {
        // The connection announces its end itself (GOAWAY).
    }

    fn is_grpc(&self) -> bool {
        self.exchange.is_grpc()
    }

    fn set_type_of_service(&self, _: u8) {
        // Requests of both priorities share the connection.
    }

    fn reset(&mut self) {
        self.exchange.reset();
    }
}
