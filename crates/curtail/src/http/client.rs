//! A client of a shard for requests with any type of body, such as those of generated gRPC code.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use curtail_http::grpc::read_timeout;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tokio::time::Instant;
use tower::Service;

use super::body::Body;
use crate::error::{BoxError, Error};
use crate::query::Query;
use crate::shard::Shard;
use crate::transport::Replica;

/// Bodies of up to this number of bytes can be repeated by default.
const REPLAY_BYTES: usize = 64 << 10;

/// A client of a shard. A request body that is complete when the request is sent, like that of a unary
/// call, can be repeated, if the service declares the request to be
/// [repeatable](crate::Builder::repeatable). Other bodies are sent once, while they are produced.
///
/// The time that a call of gRPC leaves (`grpc-timeout`) limits the query.
pub struct Client<S: Replica<Request<Body>>> {
    shard: Shard<S, Request<Body>>,
    replay_bytes: usize,
}

impl<S: Replica<Request<Body>>> Clone for Client<S> {
    fn clone(&self) -> Self {
        Self { shard: self.shard.clone(), replay_bytes: self.replay_bytes }
    }
}

impl<S: Replica<Request<Body>>> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.shard).finish()
    }
}

impl<S: Replica<Request<Body>>> Client<S> {
    /// Sets the size of the longest body that can be repeated, in bytes. The default is 64 KiB.
    #[must_use]
    pub fn replay_bytes(self, most: usize) -> Self {
        Self { replay_bytes: most, ..self }
    }
}

impl<S: Replica<Request<Body>>> Shard<S, Request<Body>> {
    /// Returns a client for requests with any type of body.
    #[must_use]
    pub fn http(&self) -> Client<S> {
        Client { shard: self.clone(), replay_bytes: REPLAY_BYTES }
    }

    /// Returns a client on which generated gRPC code stands, for example
    /// `LeafClient::new(search.shard("a").grpc())` with tonic.
    #[must_use]
    pub fn grpc(&self) -> Client<S> {
        self.http()
    }
}

/// The future of a response.
type Responding<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl<S, B> Service<Request<B>> for Client<S>
where
    S: Replica<Request<Body>, Response = Response<Body>, Error: Into<BoxError>>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Responding<Response<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = request.map(|body| Body::read_ahead(body, self.replay_bytes));
        let left = read_timeout(request.headers());
        let deadline = left.and_then(|left| Instant::now().checked_add(left));
        let answering = self.shard.query_as_configured(Query { deadline, ..Query::once(request) });
        Box::pin(async move { answering.await.map(|answer| answer.response) })
    }
}
