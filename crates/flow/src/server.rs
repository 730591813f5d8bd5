//! A tower layer that admits the requests to a process's own service, over HTTP or gRPC.
//!
//! Source: document 002 §5.2.3 and §5.2.4, *Metadata propagation*.
//!
//! The layer reads the metadata of a request, waits until the request is admitted, and passes a
//! [`Context`] to the service, both in the extensions of the request and as [`Context::current`].
//! To the response, it adds the announcement for the caller and the time spent on the request. A
//! rejection also carries the announcement. A request ends when the service returns the head of its
//! response. A body that is streamed afterwards holds no slot, and counts as good even if its
//! trailers contain an error. The status of a failed unary gRPC call is in the head, because
//! servers then send *Trailers-Only*.
//!
//! At a **trust edge**, metadata would come from clients, which cannot be trusted. The layer
//! therefore removes it, and a function of the request determines the workflow. A client's
//! `grpc-timeout` counts only if the workflow has no configured deadline, because clients could use
//! an early deadline to move to the front of a queue.
//!
//! Cost: two lock acquisitions and one boxed future per request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::request::Parts;
use http::{Request, Response};
use tower::{Layer, Service, ServiceExt as _};

use crate::arrival::Arrival;
use crate::context::Context;
use crate::flow::Flow;
use crate::reject::{is_good, is_grpc, rejection};

type Classify = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// A layer that makes the requests to a service wait until its process admits them.
#[derive(Clone)]
pub struct ServerLayer {
    flow: Flow,
    is_edge: bool,
    classify: Option<Classify>,
}

impl ServerLayer {
    /// Creates a layer inside the system, where callers are trusted.
    #[must_use]
    pub fn new(flow: Flow) -> Self {
        Self { flow, is_edge: false, classify: None }
    }

    /// Creates a layer at a trust edge: metadata of requests is ignored, and `workflow` returns the
    /// workflow of each request.
    #[must_use]
    pub fn edge<F>(flow: Flow, workflow: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        Self { flow, is_edge: true, classify: Some(Arc::new(workflow)) }
    }

    /// Sets the function that returns the workflow of a request without metadata.
    #[must_use]
    pub fn classify<F>(self, workflow: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        Self { classify: Some(Arc::new(workflow)), ..self }
    }
}

impl fmt::Debug for ServerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flow, is_edge, .. } = self;
        f.debug_struct("ServerLayer")
            .field("service", &flow.service())
            .field("is_edge", is_edge)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = Server<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Server { inner, layer: self.clone() }
    }
}

/// A service whose requests are admitted by its process. It is always ready, because requests wait
/// inside the call, in the queue of their workflow.
#[derive(Clone, Debug)]
pub struct Server<S> {
    inner: S,
    layer: ServerLayer,
}

impl<S, B, R> Service<Request<B>> for Server<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { inner, layer } = self.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let classify = || layer.classify.as_ref().and_then(|classify| classify(&parts));
            let arrival = Arrival::read(&layer.flow, &parts.headers, layer.is_edge, classify);
            arrival.strip(&mut parts.headers);
            let admitted = match arrival.admit().await {
                Ok(admitted) => admitted,
                Err(rejected) => {
                    let mut response = rejection(rejected.reason, is_grpc(&parts.headers));
                    arrival.reject(response.headers_mut());
                    return Ok(response);
                }
            };
            let context: Context = admitted.context().clone();
            parts.extensions.insert(context.clone());
            let service = inner.oneshot(Request::from_parts(parts, body));
            let mut response = context.scope(service).await?;
            let good = is_good(&response);
            arrival.respond(response.headers_mut(), admitted, good);
            Ok(response)
        })
    }
}
