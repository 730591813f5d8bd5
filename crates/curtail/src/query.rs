//! Queries: requests, and how they may be sent.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_kernel::{Fault, Outcome, Role};
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
    /// How to repeat the request. `None` if it cannot be repeated.
    pub(crate) again: Option<fn(&R) -> R>,
    /// Whether it may run more than once.
    pub(crate) idempotent: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cost_hint: Option<NonZeroU64>,
}

impl<R> Query<R> {
    /// Creates a query that is sent once. It has no duplicates, and it goes to another server only if
    /// the service of the first one was never ready to take it. If no service has taken it, the error
    /// hands it back ([`Error::into_request`](crate::Error::into_request)).
    pub fn once(request: R) -> Self {
        Self { request, again: None, idempotent: false, deadline: None, cost_hint: None }
    }

    /// Creates a query that must not run twice, as [`once`](Self::once) does. It also goes to another
    /// server, or is handed back, if the service has taken it and reports that nothing was sent: by an
    /// error that [`classify`](crate::Builder::classify) judges as
    /// [`Fault::ConnectFailed`](crate::Fault::ConnectFailed). Clients of HTTP are always ready, so they
    /// need this.
    pub fn non_idempotent(request: R) -> Self
    where
        R: Clone,
    {
        Self { again: Some(R::clone), ..Self::once(request) }
    }

    /// Creates a query that may run on several servers, at the same time or one after the other.
    pub fn idempotent(request: R) -> Self
    where
        R: Clone,
    {
        Self { again: Some(R::clone), idempotent: true, ..Self::once(request) }
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
            .field("idempotent", &self.idempotent)
            .field("deadline", &self.deadline)
            .field("cost_hint", &self.cost_hint)
            .finish_non_exhaustive()
    }
}

/// A response, and how it came about.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = tower::service_fn(|text: String| async move { Ok::<_, std::io::Error>(text) });
/// # let search = curtail::Curtail::builder()
/// #     .policy("random".parse()?)
/// #     .shard("a", [("a0", server)])
/// #     .classify(curtail::outcome::any_response)
/// #     .build()?;
/// let query = curtail::Query::once("hello".to_owned());
/// let answer = search.shard("a").query(query).await?;
/// assert_eq!((&*answer.server, answer.copies), ("a0", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
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
    /// A further copy only if nothing was sent of the one before.
    IfUnsent(fn(&R) -> R),
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
    /// Whether a copy was sent, as far as it is known.
    sent: bool,
}

impl<R> Parcel<R> {
    pub(crate) fn new(request: R, again: Again<R>) -> Self {
        Self { contents: Mutex::new(Contents { request: Some(request), again, sent: false }) }
    }

    fn lock(&self) -> MutexGuard<'_, Contents<R>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a request to send. `repeat` is the service's own function.
    pub(crate) fn take(&self, repeat: impl FnOnce(&R) -> Option<R>) -> Option<R> {
        let mut contents = self.lock();
        let Contents { request, again, sent } = &mut *contents;
        match again {
            Again::IfUnsent(_) if *sent => return None,
            _ => *sent = true,
        }
        match again {
            Again::Never => request.take(),
            Again::IfUnsent(clone) => request.as_ref().map(*clone),
            Again::Clone(clone) => request.as_ref().map(*clone),
            Again::Spare(spare) => spare.take().or_else(|| request.as_ref().and_then(repeat)),
        }
    }

    /// Returns the request itself, unless it was sent and must not be repeated.
    pub(crate) fn reclaim(&self) -> Option<R> {
        let mut contents = self.lock();
        let Contents { request, again, sent } = &mut *contents;
        request.take_if(|_| !(*sent && matches!(again, Again::IfUnsent(_))))
    }

    /// Whether another copy may follow one that has ended like this.
    pub(crate) fn may_follow(&self, outcome: Outcome) -> bool {
        let mut contents = self.lock();
        if let Again::IfUnsent(_) = contents.again {
            contents.sent = outcome != Outcome::Failed(Fault::ConnectFailed);
            return !contents.sent;
        }
        contents.request.is_some()
    }
}
