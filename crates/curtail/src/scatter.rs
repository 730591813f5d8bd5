//! Sends a request to several shards, and waits for all responses, or for enough of them until a
//! deadline.

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::error::{BoxError, Error, ErrorKind};
use crate::query::{Answer, Query};
use crate::service::Curtail;
use crate::shard::Shard;
use crate::transport::Replica;

impl<S: Replica<R>, R: Send + 'static> Curtail<S, R> {
    /// Sends a request to every shard. The returned value is a builder for the query, which is sent
    /// when it is awaited.
    #[expect(clippy::needless_pass_by_value, reason = "callers have no use for it afterwards")]
    pub fn scatter(&self, request: R) -> Scatter<S, R>
    where
        R: Clone,
    {
        Scatter::new(self.shards().map(|shard| (shard, request.clone())).collect())
    }

    /// Sends a request of its own to each of these shards, as [`Self::scatter`] does.
    pub fn scatter_to(
        &self,
        requests: impl IntoIterator<Item = (Shard<S, R>, R)>,
    ) -> Scatter<S, R> {
        Scatter::new(requests.into_iter().collect())
    }
}

/// A request that is sent to several shards when this is awaited.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = tower::service_fn(|text: String| async move { Ok::<_, std::io::Error>(text) });
/// # let search = curtail::Curtail::builder()
/// #     .policy("random".parse()?)
/// #     .shard("a", [("a0", server)])
/// #     .classify(curtail::outcome::any_response)
/// #     .build()?;
/// use std::time::Duration;
/// use curtail::Instant;
///
/// let deadline = Instant::now() + Duration::from_millis(300);
/// let answers = search.scatter("hello".to_owned()).deadline(deadline).at_least(1).await?;
/// assert_eq!((answers.answers.len(), answers.missing.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[must_use = "it is sent when it is awaited"]
pub struct Scatter<S: Replica<R>, R: Send + 'static> {
    queries: Vec<(Shard<S, R>, R)>,
    deadline: Option<Instant>,
    at_least: Option<usize>,
}

impl<S: Replica<R>, R: Send + 'static> fmt::Debug for Scatter<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scatter")
            .field("shards", &self.queries.len())
            .field("deadline", &self.deadline)
            .field("at_least", &self.at_least)
            .finish_non_exhaustive()
    }
}

impl<S: Replica<R>, R: Send + 'static> Scatter<S, R> {
    pub(crate) fn new(queries: Vec<(Shard<S, R>, R)>) -> Self {
        Self { queries, deadline: None, at_least: None }
    }

    /// Sets the time by which all queries end, if it is earlier than the service's timeout.
    pub fn deadline(self, at: impl Into<Instant>) -> Self {
        Self { deadline: Some(at.into()), ..self }
    }

    /// Accepts a result with the responses of at least this number of shards. By default, every
    /// shard must respond, and the first failure ends the request.
    ///
    /// With this, the request ends when every shard has responded or failed. Set a
    /// [deadline](Self::deadline) to limit how long slow shards delay it.
    pub fn at_least(self, shards: usize) -> Self {
        Self { at_least: Some(shards), ..self }
    }
}

/// The responses of shards, in the order of the shards.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answers<T> {
    /// The good responses.
    pub answers: Vec<Answer<T>>,
    /// The errors of the other shards.
    pub missing: Vec<Error>,
}

impl<T> IntoIterator for Answers<T> {
    type Item = Answer<T>;
    type IntoIter = std::vec::IntoIter<Answer<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.answers.into_iter()
    }
}

/// Too few shards have responded.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScatterError {
    /// The number of shards that responded.
    pub responded: usize,
    /// The number of shards that had to respond.
    pub required: usize,
    /// The errors of the other shards, the first one first.
    pub errors: Vec<Error>,
}

impl fmt::Display for ScatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { responded, required, errors } = self;
        write!(f, "{responded} of {required} required shards responded")?;
        match errors.first() {
            Some(first) => write!(f, "; {first}"),
            None => Ok(()),
        }
    }
}

impl StdError for ScatterError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.errors.first().and_then(StdError::source)
    }
}

/// Treats a response that is a refusal or a failure as an error.
fn good<T: Send + 'static>(answer: Answer<T>) -> Result<Answer<T>, Error> {
    if answer.outcome.wins() {
        return Ok(answer);
    }
    let Answer { response, shard, server, outcome, .. } = answer;
    Err(Error::new(ErrorKind::BadResponse, shard).at(server, outcome).with_response(response))
}

impl<S: Replica<R, Error: Into<BoxError>>, R: Send + 'static> Scatter<S, R> {
    async fn send(self) -> Result<Answers<S::Response>, ScatterError> {
        let Self { queries, deadline, at_least } = self;
        let shards = queries.len();
        let required = at_least.unwrap_or(shards);
        let mut open = FuturesUnordered::new();
        for (at, (shard, request)) in queries.into_iter().enumerate() {
            let query = Query { deadline, ..Query::once(request) };
            let answering = shard.query_as_configured(query);
            open.push(async move { (at, answering.await.and_then(good)) });
        }
        let mut answers = Vec::with_capacity(shards);
        let mut errors = Vec::new();
        while let Some((at, result)) = open.next().await {
            match result {
                Ok(answer) => answers.push((at, answer)),
                Err(error) => errors.push(error),
            }
            if shards - errors.len() < required {
                // Dropping the other queries abandons them.
                return Err(ScatterError { responded: answers.len(), required, errors });
            }
        }
        answers.sort_unstable_by_key(|&(at, _)| at);
        let answers = answers.into_iter().map(|(_, answer)| answer).collect();
        Ok(Answers { answers, missing: errors })
    }
}

impl<S: Replica<R, Error: Into<BoxError>>, R: Send + 'static> IntoFuture for Scatter<S, R> {
    type Output = Result<Answers<S::Response>, ScatterError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
