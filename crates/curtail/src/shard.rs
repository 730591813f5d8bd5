//! A shard: sends queries to its servers, and returns their responses.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use curtail_runtime::{Cell, QueryError, QueryResponse, Reply};
use tokio::time::Instant;
use tower::Service;

use crate::error::{BoxError, Error, ErrorKind};
use crate::query::{Again, Answer, Parcel, Query};
use crate::service::{Curtail, Place};
use crate::transport::{Caller, Outgoing, Received, Replica, Replicas};

impl<S: Replica<R>, R: Send + 'static> Curtail<S, R> {
    /// Returns the shards, in the order in which they were added.
    pub fn shards(&self) -> impl Iterator<Item = Shard<S, R>> {
        (0..self.0.shards.len()).map(|at| Shard { service: self.clone(), at })
    }

    /// Returns a shard.
    ///
    /// # Panics
    /// Panics if the service has no such shard. See [`Self::get_shard`].
    #[must_use]
    pub fn shard(&self, name: &str) -> Shard<S, R> {
        match self.get_shard(name) {
            Some(shard) => shard,
            None => panic!("there is no shard {name:?} in {self:?}"),
        }
    }

    /// Returns a shard. `None` if the service has no such shard.
    #[must_use]
    pub fn get_shard(&self, name: &str) -> Option<Shard<S, R>> {
        let at = self.0.shards.iter().position(|shard| &*shard.name == name)?;
        Some(Shard { service: self.clone(), at })
    }
}

/// A shard of a service. It is a tower service that sends each request to one of the shard's
/// servers, or to several. It is always ready: queries wait inside the call, in a bounded queue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = tower::service_fn(|text: String| async move { Ok::<_, std::io::Error>(text) });
/// # let search = curtail::Curtail::builder()
/// #     .policy("random".parse()?)
/// #     .shard("a", [("a0", server)])
/// #     .classify(curtail::outcome::any_response)
/// #     .build()?;
/// use tower::ServiceExt as _;
///
/// let response = search.shard("a").oneshot("hello".to_owned()).await?;
/// assert_eq!(response, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub struct Shard<S: Replica<R>, R: Send + 'static> {
    pub(crate) service: Curtail<S, R>,
    /// Its number.
    pub(crate) at: usize,
}

impl<S: Replica<R>, R: Send + 'static> Clone for Shard<S, R> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), at: self.at }
    }
}

impl<S: Replica<R>, R: Send + 'static> fmt::Debug for Shard<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shard").field(&self.name()).finish()
    }
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerState {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it gets new copies: it is not ejected, and its health check succeeds.
    pub up: bool,
    /// The number of copies that it holds.
    pub outstanding: u32,
    /// The number of copies that it may hold.
    pub limit: u32,
}

impl<S: Replica<R>, R: Send + 'static> Shard<S, R> {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.place().name
    }

    /// Returns the states of its servers.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerState> {
        let (cell, replicas) = (self.cell(), self.cell().transport());
        let ids = cell.look(|core| core.servers_of(self.place().group).to_vec());
        let state = |id| {
            let name = replicas.places.name(id)?;
            let view = Some(cell.look(|core| core.server(id))).filter(|view| view.member)?;
            let (up, outstanding, limit) = (view.up, view.outstanding, view.limit);
            Some(ServerState { name, up, outstanding, limit })
        };
        ids.into_iter().filter_map(state).collect()
    }

    pub(crate) fn cell(&self) -> &Cell<Replicas<S, R>> {
        &self.service.0.running.cells()[self.place().cell]
    }

    pub(crate) fn place(&self) -> &Place {
        &self.service.0.shards[self.at]
    }

    /// Sends a query. It arrives now, and its copies are sent while the future is polled. The future
    /// may be dropped at any time, which abandons the query.
    ///
    /// A response is returned even if it is a refusal or a failure, when no copy had a better one
    /// ([`Answer::outcome`]).
    pub fn query(&self, query: Query<R>) -> Answering<S, R> {
        let Query { request, again, idempotent, deadline, cost_hint } = query;
        let again = match again {
            None => Again::Never,
            Some(clone) if idempotent => Again::Clone(clone),
            Some(clone) => Again::IfUnsent(clone),
        };
        self.send(Parcel::new(request, again), idempotent, deadline, cost_hint)
    }

    /// Sends a query to which the service's own function for repeating requests applies.
    pub(crate) fn query_as_configured(&self, query: Query<R>) -> Answering<S, R> {
        let Query { request, again: _, idempotent: _, deadline, cost_hint } = query;
        let spare = (self.service.0.handlers.repeat)(&request);
        let repeatable = spare.is_some();
        let again = if repeatable { Again::Spare(spare) } else { Again::Never };
        self.send(Parcel::new(request, again), repeatable, deadline, cost_hint)
    }

    fn send(
        &self,
        parcel: Parcel<R>,
        repeatable: bool,
        deadline: Option<Instant>,
        cost_hint: Option<NonZeroU64>,
    ) -> Answering<S, R> {
        let caller = Caller::current(self.service.0.handlers.carry.as_ref());
        let outgoing = Arc::new(Outgoing { parcel, caller });
        let reply = self.cell().query(curtail_runtime::Query {
            request: Arc::clone(&outgoing),
            group: self.place().group,
            may_duplicate: repeatable,
            may_retry: repeatable,
            deadline,
            cost_hint,
        });
        Answering { reply, outgoing, shard: self.clone() }
    }
}

/// The future of a query.
pub struct Answering<S: Replica<R>, R: Send + 'static> {
    reply: Reply<Replicas<S, R>>,
    outgoing: Arc<Outgoing<R>>,
    shard: Shard<S, R>,
}

impl<S: Replica<R>, R: Send + 'static> fmt::Debug for Answering<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answering").field(&self.shard).finish()
    }
}

type From<S, R> = Received<<S as Service<R>>::Response, <S as Service<R>>::Error>;

impl<S: Replica<R, Error: Into<BoxError>>, R: Send + 'static> Answering<S, R> {
    fn answer(&self, response: QueryResponse<From<S, R>>) -> Result<Answer<S::Response>, Error> {
        let shard = Arc::clone(&self.shard.place().name);
        let QueryResponse { response: received, outcome, role, copies, queued_ns, took_ns, .. } =
            response;
        let Received { result, server } = received;
        match result {
            Ok(response) => Ok(Answer {
                response,
                shard,
                server,
                outcome,
                role,
                copies,
                queued: Duration::from_nanos(queued_ns),
                took: Duration::from_nanos(took_ns),
            }),
            Err(error) => Err(self.returning(
                Error::new(ErrorKind::Failed, shard).at(server, outcome).because(error),
            )),
        }
    }

    fn returning(&self, error: Error) -> Error {
        error.returning(self.outgoing.parcel.reclaim())
    }
}

impl<S: Replica<R, Error: Into<BoxError>>, R: Send + 'static> Future for Answering<S, R> {
    type Output = Result<Answer<S::Response>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.reply).poll(context));
        let error = match result {
            Ok(response) => return Poll::Ready(self.answer(response)),
            Err(QueryError::Failed { response: Some(response), .. }) => {
                return Poll::Ready(self.answer(*response));
            }
            Err(error) => error,
        };
        let shard = Arc::clone(&self.shard.place().name);
        let mut failed = Error::of(&error, shard);
        if let QueryError::Failed { last: Some(copy), .. } = error {
            let name = self.shard.cell().transport().places.name(copy.server);
            failed = failed.failed_copy(copy, name.unwrap_or_else(|| "(removed)".into()));
        }
        Poll::Ready(Err(self.returning(failed)))
    }
}

impl<S: Replica<R>, R: Send + 'static> Unpin for Answering<S, R> {}

/// The future of a request that is sent by the tower service [`Shard`].
#[derive(Debug)]
pub struct Responding<S: Replica<R>, R: Send + 'static>(Answering<S, R>);

impl<S: Replica<R, Error: Into<BoxError>>, R: Send + 'static> Future for Responding<S, R> {
    type Output = Result<S::Response, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_ok(|answer| answer.response)
    }
}

impl<S: Replica<R, Error: Into<BoxError>>, R: Send + 'static> Service<R> for Shard<S, R> {
    type Response = S::Response;
    type Error = Error;
    type Future = Responding<S, R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Responding<S, R> {
        Responding(self.query_as_configured(Query::once(request)))
    }
}
