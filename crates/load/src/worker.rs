//! One connection: takes requests up, one at a time, and reports what became of each.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use curtail_http1::client::{ClientError, Connection};
use curtail_http1::{Limits, ResponseHead};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use crate::dispatch::Dispatcher;
use crate::schedule::Slot;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// Rendered, one per query.
    pub(crate) requests: Vec<Bytes>,
    /// Tried in order.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The start of the schedule. There is none until the set-up has ended, nor a request.
    pub(crate) epoch: OnceLock<Instant>,
    /// From the intended time.
    pub(crate) timeout: Duration,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: ResponseHead,
    pub(crate) body_bytes: u64,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no answer in time")]
    Timeout,
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What became of one request.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) slot: Slot,
    /// From the intended time until the request was taken up.
    pub(crate) lag_ns: u64,
    /// From there to the end of the answer, or to the failure.
    pub(crate) uncorrected_ns: u64,
    pub(crate) result: Result<Whole, Failure>,
}

impl Outcome {
    /// From the intended time to the end.
    pub(crate) fn latency_ns(&self) -> u64 {
        self.lag_ns.saturating_add(self.uncorrected_ns)
    }
}

/// Serves the mailbox until it is closed or nobody wants outcomes any more.
pub(crate) async fn work(
    id: usize,
    shared: Arc<Shared>,
    mut mailbox: mpsc::Receiver<Slot>,
    outcomes: mpsc::Sender<Outcome>,
) {
    let mut connection = None;
    while let Some(first) = mailbox.recv().await {
        let mut next = Some(first);
        while let Some(slot) = next {
            let outcome = ask(&shared, slot, &mut connection).await;
            if outcomes.send(outcome).await.is_err() {
                return;
            }
            next = shared.dispatcher.next_or_idle(id);
        }
    }
}

/// Sends one request and waits for its answer or its time-out.
async fn ask(
    shared: &Shared,
    slot: Slot,
    connection: &mut Option<Connection<TcpStream>>,
) -> Outcome {
    let epoch = shared.epoch.get().expect("the first request comes after the epoch is known");
    let intended = *epoch + Duration::from_nanos(slot.at_ns);
    let deadline = intended + shared.timeout;
    let taken_up = Instant::now();
    let result = if taken_up >= deadline {
        // It waited for a connection in vain. Nobody would wait for its answer now.
        Err(Failure::Timeout)
    } else {
        let answer = exchange(shared, slot.query, connection);
        timeout_at(deadline.into(), answer).await.unwrap_or(Err(Failure::Timeout))
    };
    let ended = Instant::now();
    if result.is_err() || connection.as_ref().is_some_and(|connection| !connection.reusable()) {
        *connection = None;
    }
    Outcome {
        slot,
        lag_ns: ns_between(intended, taken_up),
        uncorrected_ns: ns_between(taken_up, ended),
        result,
    }
}

async fn exchange(
    shared: &Shared,
    query: usize,
    slot: &mut Option<Connection<TcpStream>>,
) -> Result<Whole, Failure> {
    if slot.as_mut().is_some_and(Connection::is_stale) {
        *slot = None;
    }
    let connection = match slot {
        Some(connection) => connection,
        None => slot.insert(open(&shared.addresses).await.map_err(Failure::Connect)?),
    };
    let head = connection.send(&shared.requests[query], false).await?;
    let mut body_bytes = 0;
    while let Some(piece) = connection.body().await? {
        body_bytes += piece.len() as u64;
    }
    Ok(Whole { head, body_bytes })
}

async fn open(addresses: &[SocketAddr]) -> io::Result<Connection<TcpStream>> {
    let stream = TcpStream::connect(addresses).await?;
    // A request is one write, and must not wait for the acknowledgment of the last.
    stream.set_nodelay(true)?;
    Ok(Connection::new(stream, Limits::default()))
}

/// Nanoseconds from `start` to `end`; zero if it is earlier.
fn ns_between(start: Instant, end: Instant) -> u64 {
    let span = end.saturating_duration_since(start);
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
