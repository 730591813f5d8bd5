//! gRPC over TCP: a server and a connection as tower services, built from hyper's HTTP/2 and
//! tonic's messages.
//!
//! tonic's own transport is not used, because both of its ends abort requests at `grpc-timeout`,
//! with or without flow control, so that lateness could not be measured.
//!
//! Cost: one connection per pair of processes, and two tasks per call.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use super::message::Raw;

/// The maximum number of concurrent calls on a connection, more than any file makes.
const STREAMS_MAX: u32 = 100_000;
/// The flow-control window of a connection, in each direction.
const WINDOW_BYTES: u32 = 16 << 20;
pub(super) const PATH: PathAndQuery = PathAndQuery::from_static("/curtail.Soa/Do");

/// A service that serves calls.
pub(super) type Server =
    BoxCloneSyncService<Request<Body>, Response<Body>, std::convert::Infallible>;
/// A service that sends calls to one process.
pub(super) type Client = BoxCloneSyncService<Request<Body>, Response<Incoming>, hyper::Error>;

/// Serves all connections.
pub(super) async fn serve(listener: TcpListener, server: Server) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let server = server.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            server.clone().oneshot(request.map(Body::new))
        });
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(STREAMS_MAX);
        builder.initial_connection_window_size(WINDOW_BYTES);
        // Clients give up calls, and scans give up many calls at the same time. No limit is needed,
        // because all clients are our own.
        builder.max_pending_accept_reset_streams(STREAMS_MAX as usize);
        builder.max_local_error_reset_streams(None);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // The other end handles the closing of a connection.
            let _ = connection.await;
        });
    }
}

/// Connects to a process.
pub(super) async fn connect(address: SocketAddr) -> Result<Client> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.with_context(|| format!("no process at {address}"))?;
    stream.set_nodelay(true)?;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_connection_window_size(WINDOW_BYTES);
    builder.initial_max_send_streams(STREAMS_MAX as usize);
    builder.max_concurrent_reset_streams(STREAMS_MAX as usize);
    builder.max_local_error_reset_streams(None);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // Calls fail when the connection does.
        let _ = connection.await;
    });
    Ok(BoxCloneSyncService::new(Connection(sender)))
}

#[derive(Clone)]
struct Connection(SendRequest<Body>);

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Sends one call and returns the metadata of its response.
pub(super) async fn call(
    client: Client,
    request: tonic::Request<Bytes>,
) -> Result<MetadataMap, Status> {
    let origin = http::Uri::from_static("http://curtail");
    let mut client = tonic::client::Grpc::with_origin(client, origin);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let response: tonic::Response<Bytes> = client.unary(request, PATH, Raw).await?;
    Ok(response.into_parts().0)
}
