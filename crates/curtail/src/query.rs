//! Queries: requests, and how they may be sent.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_kernel::{Outcome, Role};
use tokio::time::Instant;

/// A query: a request for one shard, and how it may be sent.
///
/// ```
/// use std::time::Duration;
/// use curtail::{Instant, Query};
///
/// let search = Query::idempotent("GET /search?q=tail").deadline(Instant::now() + Duration::from_millis(300));
/// let order = Query::once("POST /orders");
/// # let _ = (search, order);
/// ```
pub struct Query<R> {
    pub(crate) request: R,
    /// How to repeat the request. `None` if it is sent once.
    pub(crate) again: Option<fn(&R) -> R>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cost_hint: Option<NonZeroU64>,
}

impl<R> Query<R> {
    /// Creates a query that is sent once. It has no duplicates, and it is sent again only if no part
    /// of it was sent before. If it was never sent, the error hands it back
    /// ([`Error::into_request`](crate::Error::into_request)).
    pub fn once(request: R) -> Self {
        Self { request, again: None, deadline: None, cost_hint: None }
    }

    /// Creates a query that may run on several servers, at the same time or one after the other.
    pub fn idempotent(request: R) -> Self
    where
        R: Clone,
    {
        Self { again: Some(R::clone), ..Self::once(request) }
    }

    /// Sets the time at which the caller gives up, if it is earlier than the service's timeout. A
    /// query that still waits then is never sent.
    #[must_use]
    pub fn deadline(self, at: impl Into<Instant>) -> Self {
        Self { deadline: Some(at.into()), ..self }
    }

    /// Sets the expected cost of the query, in any unit that all queries of the service share, for
    /// policies that judge a copy by its age.
    #[must_use]
    pub fn cost(self, cost: NonZeroU64) -> Self {
        Self { cost_hint: Some(cost), ..self }
    }
}

impl<R> fmt::Debug for Query<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("idempotent", &self.again.is_some())
            .field("deadline", &self.deadline)
            .field("cost_hint", &self.cost_hint)
            .finish_non_exhaustive()
    }
}

/// A response, and how it came about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The response.
    pub response: T,
    /// The shard that it is from.
    pub shard: Arc<str>,
    /// The server that sent it.
    pub server: Arc<str>,
    /// Its outcome. It is a refusal or a failure only if no copy had a better one.
    pub outcome: Outcome,
    /// Whether the first copy or a duplicate won.
    pub role: Role,
    /// The number of copies that were started.
    pub copies: u32,
    /// The time until the first copy was started.
    pub queued: Duration,
    /// The time from the query's arrival until its response, including `queued`.
    pub took: Duration,
}

impl<T> Answer<T> {
    /// Applies a function to the response.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Answer<U> {
        let Self { response, shard, server, outcome, role, copies, queued, took } = self;
        Answer { response: map(response), shard, server, outcome, role, copies, queued, took }
    }
}

/// Makes the copies of a request.
pub(crate) enum Again<R> {
    /// There is only the request itself.
    Never,
    Clone(fn(&R) -> R),
    /// The service's own function, which has made `spare`.
    Spare(Option<R>),
}

/// A request on its way. All copies of a query share it.
pub(crate) struct Parcel<R> {
    contents: Mutex<Contents<R>>,
}

struct Contents<R> {
    /// `None` if it was sent and cannot be repeated.
    request: Option<R>,
    again: Again<R>,
}

impl<R> Parcel<R> {
    pub(crate) fn new(request: R, again: Again<R>) -> Self {
        Self { contents: Mutex::new(Contents { request: Some(request), again }) }
    }

    fn lock(&self) -> MutexGuard<'_, Contents<R>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a request to send. `repeat` is the service's own function.
    pub(crate) fn take(&self, repeat: impl FnOnce(&R) -> Option<R>) -> Option<R> {
        let mut contents = self.lock();
        let Contents { request, again } = &mut *contents;
        match again {
            Again::Never => request.take(),
            Again::Clone(clone) => request.as_ref().map(*clone),
            Again::Spare(spare) => spare.take().or_else(|| request.as_ref().and_then(repeat)),
        }
    }

    /// Returns the request itself, unless it was sent and cannot be repeated.
    pub(crate) fn reclaim(&self) -> Option<R> {
        self.lock().request.take()
    }

    /// Whether the request can be sent again.
    pub(crate) fn is_here(&self) -> bool {
        self.lock().request.is_some()
    }
}
