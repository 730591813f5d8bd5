//! What leaf and root share as servers: accepting, conversing, and ending in an orderly way.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, of one request each at a time. Further clients wait in
//! the listener's backlog. Bounds on the bytes of a connection are those of `curtail-http1`.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use curtail_http1::server::{Connection, Request, ServerError};
use curtail_http1::{Limits, Timeouts};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

mod target;
pub(crate) mod timing;

pub(crate) use target::{Ask, check_method, split};

/// The header that names a query. Copies and repetitions of a query that carry the same value draw
/// the same service time, whatever their targets.
pub(crate) const QUERY_KEY: &str = "x-curtail-query";

/// The most connections that a server holds. With it, a server stays below the 1,024 files that
/// many systems let a process open.
const CONNECTIONS_MAX: usize = 960;

/// Longest request body: nothing here reads one.
const BODY_BYTES_MAX: usize = 4096;

/// How long running requests may go on after the shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// After an accept that failed, for lack of file descriptors say: time for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What a server does with requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// Answers a request. The future is dropped when the client goes away.
    fn answer(&self, request: &Request) -> impl Future<Output = Reply> + Send;
}

/// Binds a listener, and says which address it got.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves until `shutdown` resolves, then lets the running requests finish, for [`DRAIN`] at most.
/// Returns how many connections were cut off.
pub(crate) async fn serve<S: Service>(
    listener: TcpListener,
    service: S,
    shutdown: impl Future<Output = ()>,
) -> usize {
    let service = Arc::new(service);
    let (drain, draining) = watch::channel(false);
    let mut conversations = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let room = conversations.len() < CONNECTIONS_MAX;
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = conversations.join_next() => {}
            accepted = listener.accept(), if room => match accepted {
                Ok((stream, _)) => {
                    let service = Arc::clone(&service);
                    conversations.spawn(converse(stream, service, draining.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    drain.send_replace(true);
    let all = async { while conversations.join_next().await.is_some() {} };
    if timeout(DRAIN, all).await.is_err() {
        tracing::warn!(connections = conversations.len(), "cut off: they did not end in time");
    }
    conversations.len()
}

/// One client's requests, one after the other.
async fn converse<S: Service>(
    stream: TcpStream,
    service: Arc<S>,
    mut draining: watch::Receiver<bool>,
) {
    // Without it small answers wait for acknowledgments.
    let _ = stream.set_nodelay(true);
    let limits = Limits { body_bytes: BODY_BYTES_MAX, ..Limits::default() };
    let mut client = Connection::new(stream, limits, Timeouts::default());
    while !client.is_closing() {
        let request = tokio::select! {
            request = client.next_request() => request,
            _ = draining.wait_for(|draining| *draining), if client.is_idle() => break,
        };
        let request = match request {
            Ok(Some(request)) => request,
            Ok(None) => break,
            Err(ServerError::Reject(reject)) => {
                if client.reject(&reject).await.is_err() {
                    return;
                }
                break;
            }
            Err(_) => return,
        };
        let reply = tokio::select! {
            reply = service.answer(&request) => reply,
            () = client.peer_closed() => return,
        };
        if *draining.borrow() {
            client.close_after_response();
        }
        let headers = reply.headers.iter().map(|(name, value)| (*name, value.as_str()));
        if let Err(error) = client.respond(reply.status, headers, &reply.body).await {
            tracing::debug!(%error, "answer cut off");
            return;
        }
    }
    client.close().await;
}

/// An answer, before it is written.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// The body of an answer that says what went wrong.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

impl Reply {
    /// An answer whose body is JSON already.
    pub(crate) fn json_bytes(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body }
    }

    /// An answer in JSON.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::json_bytes(status, body),
            // Our types have string keys and no failing parts.
            Err(error) => Self { status: 500, headers: Vec::new(), body: error.to_string().into() },
        }
    }

    /// An error in JSON: `{"error": …}`.
    pub(crate) fn error(status: u16, error: &str) -> Self {
        Self::json(status, &ErrorBody { error })
    }

    /// The answer to a health check.
    pub(crate) fn healthy() -> Self {
        let headers = vec![("content-type", "text/plain; charset=utf-8".to_owned())];
        Self { status: 200, headers, body: b"ok\n".to_vec() }
    }

    /// The same answer with one more field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
