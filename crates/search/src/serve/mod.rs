//! The code that leaf and root servers share. It accepts, serves and drains connections.
//!
//! A server has at most [`CONNECTIONS_MAX`] connections, and each serves one request at a time.
//! Additional clients wait in the listener's backlog. `curtail-http` limits how many bytes a
//! connection holds.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use curtail_http::h1::server::{Connection, Request, ServerError};
use curtail_http::h1::{Limits, Timeouts};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

mod target;
pub(crate) mod timing;

pub(crate) use target::{Ask, check_method, split};

/// The header with the key of a query. All copies and repetitions of a query with the same key draw
/// the same service time, regardless of their targets.
pub(crate) const QUERY_KEY: &str = "x-curtail-query";

/// Maximum number of connections. It keeps a server below 1,024 open files, which is the limit per
/// process on many systems.
const CONNECTIONS_MAX: usize = 960;

/// Maximum length of a request body. No handler reads a body.
const BODY_BYTES_MAX: usize = 4096;

/// Time limit for running requests once the shutdown has begun.
const DRAIN: Duration = Duration::from_secs(10);

/// Pause after a failed accept, for example when file descriptors have run out and some must be
/// freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A request handler.
pub(crate) trait Service: Send + Sync + 'static {
    /// Returns the response to a request. The future is dropped when the client disconnects.
    fn answer(&self, request: &Request) -> impl Future<Output = Reply> + Send;
}

/// The reason why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; use another address, or port 0 for a free one")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// A leaf or a root whose address is bound. Clients can connect, and are served once
/// [`Server::serve`] is called.
pub struct Server {
    address: SocketAddr,
    announcement: String,
    /// Returns the future that serves, from the future that ends it. An async function is compiled in
    /// the crate that polls it, and the release profile optimizes the command-line crate less than
    /// this one. The box keeps the server here.
    serving: Box<dyn FnOnce(Serving) -> Serving + Send>,
}

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Server {
    /// Binds an address. `announce` describes the server at its address, and `background` starts the
    /// tasks that are needed while requests run.
    pub(crate) async fn bind<S: Service>(
        address: SocketAddr,
        announce: impl FnOnce(SocketAddr) -> String,
        service: S,
        background: impl FnOnce() -> JoinSet<()> + Send + 'static,
    ) -> Result<Self, BindError> {
        let failed = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let serving = |shutdown: Serving| -> Serving {
            Box::pin(async move {
                let background = background();
                serve(listener, service, shutdown).await;
                drop(background);
            })
        };
        Ok(Self { address: bound, announcement: announce(bound), serving: Box::new(serving) })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a one-line description of what the server does, and of what is not real.
    pub fn announcement(&self) -> &str {
        &self.announcement
    }

    /// Serves until `shutdown` resolves. Running requests then have 10 s to finish.
    pub fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        (self.serving)(Box::pin(shutdown))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Serves until `shutdown` resolves. Running requests then have [`DRAIN`] to finish.
async fn serve<S: Service>(listener: TcpListener, service: S, mut shutdown: Serving) {
    let service = Arc::new(service);
    let (drain, draining) = watch::channel(false);
    let mut conversations = JoinSet::new();
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
}

/// Serves the requests of one client, one after the other.
async fn converse<S: Service>(
    stream: TcpStream,
    service: Arc<S>,
    mut draining: watch::Receiver<bool>,
) {
    // Without this option, small responses would wait for acknowledgments.
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
            tracing::debug!(%error, "response cut off");
            return;
        }
    }
    client.close().await;
}

/// A response, before it is written.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// The body of an error response.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

impl Reply {
    /// Returns a response whose body is already JSON.
    pub(crate) fn json_bytes(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body }
    }

    /// Returns a response in JSON.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::json_bytes(status, body),
            // The types of this crate have string keys, so serializing them never fails.
            Err(error) => Self { status: 500, headers: Vec::new(), body: error.to_string().into() },
        }
    }

    /// Returns an error in JSON: `{"error": …}`.
    pub(crate) fn error(status: u16, error: &str) -> Self {
        Self::json(status, &ErrorBody { error })
    }

    /// Returns the response to a health check.
    pub(crate) fn healthy() -> Self {
        let headers = vec![("content-type", "text/plain; charset=utf-8".to_owned())];
        Self { status: 200, headers, body: b"ok\n".to_vec() }
    }

    /// Adds a header field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
