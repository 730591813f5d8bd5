//! Sends copies through tower services, one per server.
//!
//! Cost per copy: two uncontended locks, a clone of the service, and a box for
//! its future.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use curtail_kernel::{Fault, Feedback, Outcome, ServerId};
use curtail_runtime::{CopyContext, Failure, Head, Occupant, Places, PushBack, Transport};
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tower::{Service, ServiceExt as _};
use tracing::{Instrument as _, Span};

use crate::outcome;
use crate::query::Parcel;

/// A tower service that sends requests of the type `R` to a server. It is cloned for each copy.
///
/// Every service whose parts can be sent to other threads is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a server for requests of the type `{R}`",
    note = "a server is a `tower::Service<{R}>` that is `Clone + Send + 'static`, with a future, a response \
            and an error that are `Send`; `tower::util::BoxCloneService` makes servers alike"
)]
pub trait Replica<R>:
    Service<R, Response: Send + 'static, Error: Send + 'static, Future: Send> + Clone + Send + 'static
{
}

impl<S, R> Replica<R> for S
where
    S: Service<R> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send,
{
}

/// A server's reply to a load probe, for policies that send probes (`prequal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of requests that the server holds.
    pub in_flight: u32,
    /// The latency of recent requests that found about the same number.
    pub latency: Duration,
}

/// What a service does with requests and responses. All closures are the user's.
pub(crate) struct Handlers<S: Replica<R>, R> {
    pub(crate) classify: Classify<S, R>,
    pub(crate) repeat: Repeat<R>,
    pub(crate) prepare: Option<Prepare<R>>,
    pub(crate) stream: Option<Stream<S::Response>>,
    pub(crate) feedback: Option<ReadFeedback<S::Response>>,
    pub(crate) probe: Option<AskLoad<S>>,
    pub(crate) carry: Option<Capture>,
    /// How long a service may take to become ready.
    pub(crate) ready_timeout: Duration,
}

impl<S: Replica<R>, R> Handlers<S, R> {
    /// Handlers for requests that are sent once and responses that are all good.
    pub(crate) fn new() -> Self {
        Self {
            classify: Box::new(outcome::any_response),
            repeat: Box::new(|_| None),
            prepare: None,
            stream: None,
            feedback: None,
            probe: None,
            carry: None,
            ready_timeout: Duration::ZERO,
        }
    }
}

pub(crate) type Classify<S, R> = Box<
    dyn Fn(&Result<<S as Service<R>>::Response, <S as Service<R>>::Error>) -> Outcome + Send + Sync,
>;

pub(crate) type Repeat<R> = Box<dyn Fn(&R) -> Option<R> + Send + Sync>;

pub(crate) type Prepare<R> = Box<dyn Fn(&mut R, &CopyContext) + Send + Sync>;

pub(crate) type ReadFeedback<T> = Box<dyn Fn(&T) -> Option<Feedback> + Send + Sync>;

pub(crate) type AskLoad<S> = Box<dyn Fn(S) -> BoxFuture<'static, Option<Load>> + Send + Sync>;

pub(crate) type Capture = Box<dyn Fn() -> Carried + Send + Sync>;

/// Makes the head of a response with this outcome, whose rest may be still to come.
pub(crate) type Stream<T> = Box<dyn Fn(T, Outcome, CopyContext) -> Head<T> + Send + Sync>;

/// Runs a poll of a copy in the environment of the query's caller.
pub type Carried = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// What the copies of a query share.
pub(crate) struct Outgoing<R> {
    pub(crate) parcel: Parcel<R>,
    pub(crate) caller: Caller,
}

/// The environment of the query's caller, in which its copies run.
pub(crate) struct Caller {
    span: Span,
    carried: Option<Carried>,
    #[cfg(feature = "flow")]
    flow: Option<curtail_flow::Context>,
}

impl Caller {
    /// The environment of the task that calls this.
    pub(crate) fn current(carry: Option<&Capture>) -> Self {
        Self {
            span: Span::current(),
            carried: carry.map(|carry| carry()),
            #[cfg(feature = "flow")]
            flow: curtail_flow::Context::current(),
        }
    }

    /// Runs the future of a copy.
    async fn run<F: Future>(&self, copy: F) -> F::Output {
        let copy = copy.instrument(self.span.clone());
        #[cfg(feature = "flow")]
        let copy = async {
            match &self.flow {
                Some(context) => context.clone().scope(copy).await,
                None => copy.await,
            }
        };
        let Some(carried) = &self.carried else { return copy.await };
        let mut copy = std::pin::pin!(copy);
        std::future::poll_fn(|context: &mut Context<'_>| {
            let mut polled = Poll::Pending;
            carried(&mut || polled = copy.as_mut().poll(context));
            polled
        })
        .await
    }
}

/// A response of a server, or the error of its service.
pub(crate) struct Received<T, E> {
    pub(crate) result: Result<T, E>,
    pub(crate) server: Arc<str>,
}

/// The servers of a cell, by their places.
pub(crate) struct Replicas<S: Replica<R>, R> {
    pub(crate) places: Arc<Places<S>>,
    handlers: Arc<Handlers<S, R>>,
}

impl<S: Replica<R>, R: Send + 'static> Replicas<S, R> {
    pub(crate) fn new(
        occupants: impl IntoIterator<Item = Option<Occupant<S>>>,
        handlers: Arc<Handlers<S, R>>,
    ) -> Self {
        Self { places: Arc::new(Places::new(occupants)), handlers }
    }

    /// Returns the same servers.
    pub(crate) fn share(&self) -> Self {
        Self { places: Arc::clone(&self.places), handlers: Arc::clone(&self.handlers) }
    }
}

type Reply<S, R> = Received<<S as Service<R>>::Response, <S as Service<R>>::Error>;

impl<S: Replica<R>, R: Send + 'static> Replicas<S, R> {
    /// Sends the request to a server, and waits for its response.
    async fn call(
        &self,
        to: Occupant<S>,
        parcel: &Parcel<R>,
        copy: CopyContext,
    ) -> Result<Head<Reply<S, R>>, Failure> {
        let Occupant { name: server, server: mut service } = to;
        let handlers = &*self.handlers;
        // Nothing was sent yet, so even a request that is sent once may go to another server.
        match timeout(handlers.ready_timeout, service.ready()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let received = Received { result: Err(error), server };
                let outcome = Outcome::Failed(Fault::ConnectFailed);
                return Ok(Head { outcome, ..Head::whole(received) });
            }
            Err(_) => return Err(Failure::ConnectTimeout(handlers.ready_timeout)),
        }
        let mut request = parcel.take(&handlers.repeat).ok_or(Failure::Unsendable)?;
        if let Some(prepare) = &handlers.prepare {
            prepare(&mut request, &copy);
        }
        let result = service.call(request).await;
        let outcome = (handlers.classify)(&result);
        let mut head = match (result, &handlers.stream) {
            (Ok(response), Some(stream)) => stream(response, outcome, copy).map(Ok),
            (result, _) => Head { outcome, ..Head::whole(result) },
        };
        if let (Outcome::Good, Some(feedback), Ok(response)) =
            (head.outcome, &handlers.feedback, &head.response)
        {
            head.feedback = feedback(response);
        }
        // It was sent, and must not be sent to another server, or there is nothing left to send.
        if !head.outcome.wins() && !parcel.may_follow(head.outcome) {
            head.push_back = Some(PushBack::Never);
        }
        Ok(head.map(|result| Received { result, server }))
    }
}

impl<S: Replica<R>, R: Send + 'static> Transport for Replicas<S, R> {
    type Request = Arc<Outgoing<R>>;
    type Response = Reply<S, R>;

    async fn send(
        &self,
        server: ServerId,
        request: Arc<Outgoing<R>>,
        copy: CopyContext,
    ) -> Result<Head<Self::Response>, Failure> {
        let gone = Failure::ConnectFailed(std::io::ErrorKind::NotFound);
        let occupant = self.places.at(server).ok_or(gone)?;
        request.caller.run(self.call(occupant, &request.parcel, copy)).await
    }

    async fn probe(&self, server: ServerId) -> Option<(u32, u64)> {
        let probe = self.handlers.probe.as_ref()?;
        let Load { in_flight, latency } = probe(self.places.at(server)?.server).await?;
        Some((in_flight, u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)))
    }
}
