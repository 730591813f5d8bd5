//! A stage around a tower service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::Response;
use ::http::header::{HeaderName, HeaderValue};
use tower::{Layer, Service, ServiceExt as _};

use super::{Overloaded, Stage};
use crate::http::{LoadReport, ORCA, SERVER_TIMING};

/// Puts a [`Stage`] around services; all of them share its slots. `attach` puts the load report on a response:
/// [`orca`], [`server_timing`], or a function of one's own for another protocol.
///
/// Give the layer a place inside of those that reject requests, so that only real work takes a slot, and outside
/// of those whose time is a part of it.
#[derive(Clone, Debug)]
pub struct StageLayer<F> {
    stage: Stage,
    attach: F,
}

impl<F> StageLayer<F> {
    /// Of this stage, and of this way to attach its reports.
    pub fn new<R>(stage: Stage, attach: F) -> Self
    where
        F: Fn(&mut R, &LoadReport) + Clone,
    {
        Self { stage, attach }
    }
}

impl<S, F: Clone> Layer<S> for StageLayer<F> {
    type Service = Staged<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Staged { inner, stage: self.stage.clone(), attach: self.attach.clone() }
    }
}

/// A service behind a [`Stage`].
///
/// Always ready: the queue is the back-pressure, and its bound sheds. A request takes its place when its future
/// is first polled, and gives it up when that is dropped. It holds its slot until the service responds, and until
/// then its time counts as service, the time until the service is ready included; a body that streams after
/// that holds nothing. The report is made when the response leaves (document 002 §4.2.1), so that it is as
/// young as it can be.
#[derive(Clone, Debug)]
pub struct Staged<S, F> {
    inner: S,
    stage: Stage,
    attach: F,
}

/// Why a staged service has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError<E> {
    /// The queue is full: the service has not seen the request.
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

impl<S, F, R> Service<R> for Staged<S, F>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&mut S::Response, &LoadReport) + Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = StageError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, stage, attach } = self.clone();
        Box::pin(async move {
            let permit = stage.enter().await?;
            let mut response = inner.oneshot(request).await.map_err(StageError::Service)?;
            attach(&mut response, &permit.finish());
            Ok(response)
        })
    }
}

/// Puts a report on a response as ORCA, in `endpoint-load-metrics`; in place of one that is there.
pub fn orca<B>(response: &mut Response<B>, report: &LoadReport) {
    // What a report writes is printable.
    if let Ok(value) = HeaderValue::try_from(report.to_orca()) {
        response.headers_mut().insert(HeaderName::from_static(ORCA), value);
    }
}

/// Puts a report on a response as Server Timing, which browsers show, too; beside what is there.
pub fn server_timing<B>(response: &mut Response<B>, report: &LoadReport) {
    if let Ok(value) = HeaderValue::try_from(report.to_server_timing()) {
        response.headers_mut().append(HeaderName::from_static(SERVER_TIMING), value);
    }
}
