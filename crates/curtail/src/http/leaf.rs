//! Adapts a client of one server to the bodies of this crate.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::TryFutureExt as _;
use futures_util::future::MapOk;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tower::Service;

use super::body::Body;
use crate::error::BoxError;

/// Adapts a client of one server, such as tonic's `Channel`, so that it can be a server of a shard.
/// `body` makes a request body of the client's type.
///
/// ```no_run
/// use curtail::http;
/// use tonic::transport::Endpoint;
///
/// let channel = Endpoint::from_static("http://10.0.0.1:50051").connect_lazy();
/// let server = http::leaf(channel, tonic::body::Body::new);
/// # let _ = server;
/// ```
pub fn leaf<S, B>(client: S, body: fn(Body) -> B) -> Leaf<S, B> {
    Leaf { client, body }
}

/// See [`leaf`].
#[derive(Debug)]
pub struct Leaf<S, B> {
    client: S,
    body: fn(Body) -> B,
}

impl<S: Clone, B> Clone for Leaf<S, B> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), body: self.body }
    }
}

impl<S, B, C> Service<Request<Body>> for Leaf<S, B>
where
    S: Service<Request<B>, Response = Response<C>>,
    C: HttpBody<Data = Bytes> + Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<C>) -> Response<Body>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.client.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.client.call(request.map(self.body)).map_ok(|response| response.map(Body::streaming))
    }
}
