//! A tower layer around the client that calls one instance of a downstream service.
//!
//! Source: document 002 §5.2.4, *Rate aggregation* and *Metadata propagation*.
//!
//! The layer takes the [`Context`] of a call from the extensions of its request, or from the
//! current task ([`Context::current`]). It writes the metadata and the remaining time to the
//! request's headers. From the response, it reads the announcement and the time spent on the call.
//! A call without a context is passed on unchanged. One layer represents one instance, so it
//! belongs inside a load balancer. The layer also belongs inside any retry or hedging layer,
//! because each copy adds load.
//!
//! Instances are not polled (Algorithm 3, line 2). Announcements are part of responses, and the
//! kernel replaces the rate of an instance that is silent. Idle instances need no polling either.
//! An old announcement is discarded after a while, so that the next calls are permitted, and the
//! first response contains the new rate. Until then, the instance is protected by its own limiter.
//!
//! Cost: two lock acquisitions and one boxed future per call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Request, Response};
use tower::{Layer, Service};

use crate::context::Context;
use crate::flow::Flow;
use crate::target::Target;

/// Adds metadata to the calls to one instance.
#[derive(Clone, Debug)]
pub struct ClientLayer(Arc<Target>);

impl ClientLayer {
    /// Creates a layer for calls by this process to an instance of a service. The instance's
    /// address can serve as its name. See [`Target::new`].
    #[must_use]
    pub fn new(flow: Flow, service: &str, instance: &str) -> Self {
        Self(Arc::new(Target::new(flow, service, instance)))
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = Client<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Client { inner, target: Arc::clone(&self.0) }
    }
}

/// A client that adds metadata to its calls.
#[derive(Clone, Debug)]
pub struct Client<S> {
    inner: S,
    target: Arc<Target>,
}

impl<S, B, R> Service<Request<B>> for Client<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let context = request.extensions().get().cloned().or_else(Context::current);
        let Some(context) = context else { return Box::pin(self.inner.call(request)) };
        let target = Arc::clone(&self.target);
        let wanted = target.called(&context);
        context.write_as(target.caller(), request.headers_mut(), wanted);
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            if let Some(spent) = target.returned(&context, &response) {
                context.joined(spent);
            }
            Ok(response)
        })
    }
}
