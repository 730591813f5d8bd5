//! A tower layer that puts a stage in front of a service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::header::{HeaderName, HeaderValue};
use ::http::{Request, Response};
use curtail_kernel::stage::Priority;
use tower::{Layer, Service, ServiceExt as _};

use super::{Overloaded, Stage};
use crate::http::{LoadReport, ORCA, PRIORITY, SERVER_TIMING, priority};

/// Puts a [`Stage`] in front of services, which share its slots. `attach` adds the load report to a
/// response: [`orca`], [`server_timing`], or your own function for another protocol.
///
/// Place the layer inside of layers that reject requests, so that only real work takes a slot, and
/// outside of layers whose time is part of the service.
#[derive(Clone, Debug)]
pub struct StageLayer<F, P = Alike> {
    stage: Stage,
    attach: F,
    priority: P,
}

impl<F> StageLayer<F> {
    /// Creates a layer from a stage and a function that attaches its reports.
    pub fn new<R>(stage: Stage, attach: F) -> Self
    where
        F: Fn(&mut R, &LoadReport) + Clone,
    {
        Self { stage, attach, priority: Alike }
    }

    /// Returns a layer that assigns priorities to requests. `priority` is [`urgency`] or your own
    /// function.
    pub fn prioritized<R, P: Prioritize<R>>(self, priority: P) -> StageLayer<F, P> {
        StageLayer { stage: self.stage, attach: self.attach, priority }
    }
}

/// Determines the priority of requests.
pub trait Prioritize<R>: Clone + Send + 'static {
    /// Returns the priority of a request.
    fn priority(&self, request: &R) -> Priority;
}

/// Gives all requests the same priority.
#[derive(Clone, Copy, Debug)]
pub struct Alike;

impl<R> Prioritize<R> for Alike {
    fn priority(&self, _: &R) -> Priority {
        Priority::High
    }
}

impl<R, P: Fn(&R) -> Priority + Clone + Send + 'static> Prioritize<R> for P {
    fn priority(&self, request: &R) -> Priority {
        self(request)
    }
}

impl<S, F: Clone, P: Clone> Layer<S> for StageLayer<F, P> {
    type Service = Staged<S, F, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { stage, attach, priority } = self.clone();
        Staged { inner, stage, attach, priority }
    }
}

/// A service behind a [`Stage`].
///
/// It is always ready: the queue absorbs load, and rejects requests when it is full. A request
/// joins the queue when its future is first polled, and leaves when the future is dropped. It holds
/// its slot until the service responds. Its time in the slot counts as service time, including the
/// time until the service is ready. A body that streams afterwards holds no slot. The report is
/// made when the response leaves (document 002 §4.2.1), so that it is as recent as possible.
#[derive(Clone, Debug)]
pub struct Staged<S, F, P = Alike> {
    inner: S,
    stage: Stage,
    attach: F,
    priority: P,
}

/// The reason why a staged service has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError<E> {
    /// The queue is full. The service has not received the request.
    Overloaded(Overloaded),
    /// The service failed.
    Service(E),
}

impl<E> From<Overloaded> for StageError<E> {
    fn from(overloaded: Overloaded) -> Self {
        Self::Overloaded(overloaded)
    }
}

impl<E: fmt::Display> fmt::Display for StageError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overloaded(overloaded) => overloaded.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> std::error::Error for StageError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Overloaded(_) => None,
            Self::Service(error) => error.source(),
        }
    }
}

impl<S, F, P, R> Service<R> for Staged<S, F, P>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&mut S::Response, &LoadReport) + Clone + Send + 'static,
    P: Prioritize<R>,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = StageError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, stage, attach, priority } = self.clone();
        let priority = priority.priority(&request);
        Box::pin(async move {
            let permit = stage.enter_as(priority).await?;
            let mut response = inner.oneshot(request).await.map_err(StageError::Service)?;
            attach(&mut response, &permit.finish());
            Ok(response)
        })
    }
}

/// Returns the priority in the header [`PRIORITY`] of a request: low for duplicates.
pub fn urgency<B>(request: &Request<B>) -> Priority {
    priority(request.headers().get_all(PRIORITY).iter().map(HeaderValue::as_bytes))
}

/// Adds a report to a response in the ORCA format, in the header `endpoint-load-metrics`. Replaces
/// an existing report.
pub fn orca<B>(response: &mut Response<B>, report: &LoadReport) {
    // What a report writes is printable.
    if let Ok(value) = HeaderValue::try_from(report.to_orca()) {
        response.headers_mut().insert(HeaderName::from_static(ORCA), value);
    }
}

/// Adds a report to a response in the Server Timing format, which browsers display. Keeps existing
/// values.
pub fn server_timing<B>(response: &mut Response<B>, report: &LoadReport) {
    if let Ok(value) = HeaderValue::try_from(report.to_server_timing()) {
        response.headers_mut().append(HeaderName::from_static(SERVER_TIMING), value);
    }
}
