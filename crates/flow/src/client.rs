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
//! of an instance that is silent. One that is idle keeps its rate, and needs no poll either: where other instances are
//! called, its weight fades (α), and where none is, a token is saved, so the first call passes and its response brings
//! the new rate. If the old rate was too high, the limiter of the instance holds until then.
//!
//! Cost: two locks and one boxed future per call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use curtail_kernel::flow::WorkflowId;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::Flow;
use crate::context::Context;
use crate::downstream::Place;
use crate::inner::lock;
use crate::metadata;
use crate::respond::is_good;

/// Puts metadata on the calls to one instance.
#[derive(Clone, Debug)]
pub struct ClientLayer(Arc<Target>);

#[derive(Debug)]
struct Target {
    flow: Flow,
    service: String,
    instance: String,
    place: Mutex<Option<Place>>,
}

impl ClientLayer {
    /// For calls of this process to an instance of a service; its address may be its name. Of one service 256 instances
    /// are known, of services 256; what is beyond them takes the place of another, or has no limit.
    #[must_use]
    pub fn new(flow: Flow, service: &str, instance: &str) -> Self {
        let (service, instance) = (service.to_owned(), instance.to_owned());
        Self(Arc::new(Target { flow, service, instance, place: Mutex::new(None) }))
    }
}

impl Target {
    /// That of a context, which another process may have made: then names count.
    fn workflow(&self, context: &Context) -> WorkflowId {
        match Arc::ptr_eq(&context.flow().0, &self.flow.0) {
            true => context.id(),
            false => self.flow.0.classify(context.workflow()).0,
        }
    }

    /// A call leaves: writes its metadata. The place of the instance is returned.
    fn called<B>(&self, context: &Context, request: &mut Request<B>) -> Option<Place> {
        let (mut meta, workflow) = (context.call(self.flow.0.caller), self.workflow(context));
        let mut place = lock(&self.place);
        let (mut state, now) = self.flow.0.lock();
        let state = &mut *state;
        let mut id = place.and_then(|place| state.services.id(now, place));
        if id.is_none() {
            let name = (&*self.service, &*self.instance);
            *place = state.services.place(&mut state.process, now, name);
            id = place.and_then(|place| state.services.id(now, place));
        }
        if let Some(id) = id {
            state.process.called(id, workflow);
            meta.wanted = state.process.wants(id, workflow);
        }
        metadata::write_call(request.headers_mut(), Some(&meta));
        if let Some(remaining) = context.remaining() {
            metadata::shorten_timeout(request.headers_mut(), remaining);
        }
        *place
    }

    /// It has come back.
    fn returned<B>(&self, context: &Context, place: Option<Place>, response: &Response<B>) {
        let (announced, spent) = metadata::read_response(response.headers());
        if let Some(spent) = spent {
            context.joined(spent);
        }
        let workflow = self.workflow(context);
        let (mut state, now) = self.flow.0.lock();
        let state = &mut *state;
        let Some(id) = place.and_then(|place| state.services.id(now, place)) else { return };
        state.process.returned(id, workflow, is_good(response));
        if let Some(announced) = announced {
            state.process.announced(now, id, workflow, announced);
        }
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
        let place = target.called(&context, &mut request);
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            target.returned(&context, place, &response);
            Ok(response)
        })
    }
}
