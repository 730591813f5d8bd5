//! gRPC over TCP: a server and a connection, as tower services, of hyper's HTTP/2 and tonic's messages.
//!
//! tonic's own transport is not used, because both of its ends cut requests off at `grpc-timeout`, with or without flow
//! control: lateness could not be measured.
//!
//! Cost: one connection per pair of processes, two tasks per call.

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

/// Calls that a connection has at once: more than any file makes.
const STREAMS_MAX: u32 = 100_000;
/// Of a connection, both ways.
const WINDOW_BYTES: u32 = 16 << 20;
pub(super) const PATH: PathAndQuery = PathAndQuery::from_static("/curtail.Soa/Do");

/// What serves calls.
pub(super) type Server =
    BoxCloneSyncService<Request<Body>, Response<Body>, std::convert::Infallible>;
/// What sends them to one process.
pub(super) type Client = BoxCloneSyncService<Request<Body>, Response<Incoming>, hyper::Error>;

/// Serves whatever connects.
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
        // Clients give up, and scans give up many calls at once. They are our own.
        builder.max_pending_accept_reset_streams(STREAMS_MAX as usize);
        builder.max_local_error_reset_streams(None);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A peer that is gone is seen at the other end.
            let _ = connection.await;
        });
    }
}

/// A connection to a process.
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
        // Calls fail with it.
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

/// One call: the metadata of its response.
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
