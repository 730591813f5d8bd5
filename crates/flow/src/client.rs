//! Calls to an instance of a downstream service, as a tower layer around its client.
//!
//! Source: document 002 §5.2.4, *Rate aggregation* and *Metadata propagation*.
//!
//! The layer takes the [`Context`] of a call from the extensions of its request, or from the task
//! ([`Context::current`]). It writes the metadata and the time that is left, and reads the announcement and what the call
//! spent from the response. A call without a context passes unchanged. One layer is one instance, so it belongs inside
//! of a load balancer, and inside of retries and hedges, whose copies are load.
//!
//! Instances are not polled (Algorithm 3, line 2): announcements come with responses, and the kernel replaces the rate
//! of an instance that is silent. One that is idle needs no poll either: what it announced is forgotten after a while, so
//! the next calls pass, the first response brings the new rate, and the limiter of the instance holds until then.
//!
//! Cost: two locks and one boxed future per call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Request, Response};
use tower::{Layer, Service};

use crate::Flow;
use crate::context::Context;
use crate::target::Target;

/// Puts metadata on the calls to one instance.
#[derive(Clone, Debug)]
pub struct ClientLayer(Arc<Target>);

impl ClientLayer {
    /// For calls of this process to an instance of a service; its address may be its name. See [`Target::new`].
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

/// A client whose calls carry metadata.
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
