//! Why a query has no response.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use curtail_kernel::{Fault, Outcome};
use curtail_runtime::{FailedCopy, QueryError};

/// The error type of services whose error type is unknown.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Too many queries were waiting for the shard.
    QueueFull,
    /// The deadline passed before a server could take the query.
    Expired,
    /// The time of the query, or that of its last copy, passed while a server had it.
    Timeout,
    /// Every copy failed, and the query may not be sent again.
    Failed,
    /// Every response was a refusal or a failure. Only [`Scatter`](crate::Scatter) treats a
    /// response as an error.
    BadResponse,
}

/// The reason why a query has no response. It names the shard and the server, and its source is the
/// error of the service that failed last. `{error:#}` also prints the sources.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = tower::service_fn(|text: String| async move { Ok::<_, std::io::Error>(text) });
/// # let search = curtail::Curtail::builder()
/// #     .policy("random".parse()?)
/// #     .shard("a", [("a0", server)])
/// #     .classify(curtail::outcome::any_response)
/// #     .build()?;
/// let past = curtail::Instant::now();
/// let query = curtail::Query::once("order".to_owned()).deadline(past);
/// let error = search.shard("a").query(query).await.unwrap_err();
/// assert_eq!(error.to_string(), "shard a: the query expired before a server was free");
/// assert_eq!(error.into_request(), Some("order".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[non_exhaustive]
pub struct Error {
    kind: ErrorKind,
    shard: Arc<str>,
    server: Option<Arc<str>>,
    outcome: Option<Outcome>,
    source: Option<BoxError>,
    /// The request, if it was never sent or can be repeated.
    request: Mutex<Option<Box<dyn Any + Send>>>,
    /// The last response.
    response: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, shard: Arc<str>) -> Self {
        let (request, response) = (Mutex::default(), Mutex::default());
        Self { kind, shard, server: None, outcome: None, source: None, request, response }
    }

    /// The error of a query without any response.
    pub(crate) fn of<T>(error: &QueryError<T>, shard: Arc<str>) -> Self {
        let kind = match error {
            QueryError::QueueFull | QueryError::GaveWay => ErrorKind::QueueFull,
            QueryError::Expired => ErrorKind::Expired,
            QueryError::Timeout => ErrorKind::Timeout,
            QueryError::Failed { .. } => ErrorKind::Failed,
        };
        Self::new(kind, shard)
    }

    pub(crate) fn at(self, server: Arc<str>, outcome: Outcome) -> Self {
        Self { server: Some(server), outcome: Some(outcome), ..self }
    }

    pub(crate) fn because(self, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    pub(crate) fn failed_copy(self, copy: FailedCopy, server: Arc<str>) -> Self {
        let outcome = copy.why.outcome();
        self.at(server, outcome).because(copy.why)
    }

    pub(crate) fn returning<R: Send + 'static>(self, request: Option<R>) -> Self {
        let request = Mutex::new(request.map(|request| Box::new(request) as _));
        Self { request, ..self }
    }

    pub(crate) fn with_response<T: Send + 'static>(self, response: T) -> Self {
        Self { response: Mutex::new(Some(Box::new(response))), ..self }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the name of the shard.
    pub fn shard(&self) -> &str {
        &self.shard
    }

    /// Returns the name of the server that failed last. `None` if the query was never sent.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Returns the outcome of the last copy. `None` if the query was never sent.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// Returns the request, if it was never sent or can be repeated. `R` is the type of the
    /// service's requests.
    pub fn into_request<R: 'static>(self) -> Option<R> {
        unpack(self.request)
    }

    /// Returns the response of a [`ErrorKind::BadResponse`]. `T` is the type of the service's
    /// responses.
    pub fn into_response<T: 'static>(self) -> Option<T> {
        unpack(self.response)
    }
}

fn unpack<T: 'static>(from: Mutex<Option<Box<dyn Any + Send>>>) -> Option<T> {
    let boxed = from.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    boxed.downcast().ok().map(|unpacked| *unpacked)
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, shard, server, outcome, source, .. } = self;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("shard", shard)
            .field("server", server)
            .field("outcome", outcome)
            .field("source", source)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.shard)?;
        if let Some(server) = &self.server {
            write!(f, ", server {server}")?;
        }
        f.write_str(match (self.kind, self.outcome) {
            (ErrorKind::QueueFull, _) => ": too many queries are waiting",
            (ErrorKind::Expired, _) => ": the query expired before a server was free",
            (ErrorKind::Timeout, _) => ": no server responded in time",
            (_, Some(Outcome::Refused)) => " refused the query",
            (_, Some(Outcome::Failed(Fault::ConnectFailed))) => " could not be reached",
            (_, Some(Outcome::Failed(Fault::Reset))) => " failed before it had responded",
            (_, Some(Outcome::Failed(_))) => " failed",
            (ErrorKind::Failed | ErrorKind::BadResponse, _) => ": the query failed",
        })?;
        let Some(source) = self.source.as_deref().filter(|_| f.alternate()) else { return Ok(()) };
        let mut next: Option<&dyn StdError> = Some(source);
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
