//! Accepts client connections, and drains them on shutdown.

mod body;
mod connection;
mod forward;
mod front;
mod http2;
mod respond;
mod streaming;
mod tunnel;

use std::sync::Arc;
use std::time::Duration;

use curtail_http::h1::server::Parts;
use curtail_net::{HandshakeError, Listener, ServerTls, Stream, proxy_protocol};
use curtail_runtime::Workers;
use curtail_runtime::accept::{Accepted, Acceptor, clients_max, open_files};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::metrics::Rejection;
use crate::route::Router;
use crate::state::Proxy;

/// Between two words about such accepts.
const ACCEPT_SILENCE: Duration = Duration::from_secs(1);

/// A listener, and what its clients get.
pub(crate) struct Entrance {
    pub(crate) listener: Listener,
    pub(crate) router: Arc<Router>,
    /// Set if clients must use TLS.
    pub(crate) tls: Option<ServerTls>,
    /// Whether connections begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
    /// The threads that serve the connections.
    pub(crate) workers: Arc<Workers>,
}

/// Accepts up to `most` concurrent clients until `draining` becomes true. It then waits until the
/// last of them has its response, for at most `listen.drain`.
///
/// Returns the number of connections that were cut off.
pub(crate) async fn clients(
    proxy: Arc<Proxy>,
    at: Entrance,
    most: usize,
    mut draining: watch::Receiver<bool>,
) -> usize {
    let Entrance { listener, router, tls, proxy_protocol, workers } = at;
    let permits = Arc::new(Semaphore::new(most));
    let mut acceptor = Acceptor::new(listener);
    let drained = draining.clone();
    // Dropping it cuts off those that are still connected.
    let mut connections = JoinSet::new();
    let mut last_warning: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.accept() => accepted,
            _ = draining.wait_for(|draining| *draining) => break,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok(accepted) => {
                if let Some((stream, permit)) = admit(&proxy, accepted, &permits) {
                    let (proxy, router) = (Arc::clone(&proxy), Arc::clone(&router));
                    let (tls, drained) = (tls.clone(), drained.clone());
                    let place = workers.assign();
                    let runtime = place.runtime().clone();
                    let serving = async move {
                        let open = proxy.metrics.client_connected();
                        let mut stream = stream;
                        if !place.is_here() {
                            // If it fails, the runtime of the acceptor notifies the worker.
                            let _ = stream.move_here();
                        }
                        let stream = if proxy_protocol {
                            read_proxy_header(&proxy, stream).await
                        } else {
                            Some(stream)
                        };
                        if let Some(stream) = stream {
                            serve(&proxy, &router, stream, tls, drained).await;
                        }
                        drop((open, permit, place));
                    };
                    connections.spawn_on(serving, &runtime);
                }
            }
            Err(error) => {
                if last_warning.is_none_or(|at| at.elapsed() >= ACCEPT_SILENCE) {
                    last_warning = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept clients");
                }
            }
        }
    }
    drop(acceptor);
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    let _ = timeout(proxy.config.listen.drain, permits.acquire_many(all)).await;
    most - permits.available_permits().min(most)
}

/// Returns the connection and a permit, or refuses the client.
fn admit(
    proxy: &Proxy,
    accepted: Accepted<Stream>,
    permits: &Arc<Semaphore>,
) -> Option<(Stream, OwnedSemaphorePermit)> {
    let refuse = |stream: &Stream, why: &'static str| {
        proxy.metrics.rejected(Rejection::Connections, 503, &why);
        // Best effort, without waiting: the point is to hold nothing for this client.
        let _ = stream.try_write(respond::FULL);
    };
    let stream = accepted
        .into_stream()
        .inspect_err(|accepted| refuse(accepted, "no file descriptor is free; raise ulimit -n"))
        .ok()?;
    match Arc::clone(permits).try_acquire_owned() {
        Ok(permit) => Some((stream, permit)),
        Err(_) => {
            refuse(&stream, "the limit of client connections is reached");
            None
        }
    }
}

/// Serves a connection in the version of HTTP that the client uses.
async fn serve(
    proxy: &Arc<Proxy>,
    router: &Arc<Router>,
    mut stream: Stream,
    tls: Option<ServerTls>,
    draining: watch::Receiver<bool>,
) {
    // Without it, small responses wait for acknowledgments.
    let _ = stream.set_nodelay();
    if let Some(tls) = tls {
        let Some(secured) = handshake(proxy, &tls, stream).await else { return };
        stream = secured;
    }
    if stream.alpn() == Some(b"h2") {
        return http2::serve(proxy, router, stream, draining).await;
    }
    let http2 = connection::serve(proxy, router, stream, draining.clone()).await;
    if let Some(Parts { stream, read }) = http2 {
        http2::serve(proxy, router, stream.with_prefix(read), draining).await;
    }
}

/// Reads the PROXY header, which names the client.
async fn read_proxy_header(proxy: &Proxy, stream: Stream) -> Option<Stream> {
    let read = proxy_protocol::read(stream, proxy.config.listen.timeouts.head).await;
    read.inspect_err(|error| proxy.metrics.rejected(Rejection::Malformed, 400, error)).ok()
}

async fn handshake(proxy: &Proxy, tls: &ServerTls, stream: Stream) -> Option<Stream> {
    match tls.accept(stream, proxy.config.listen.timeouts.head).await {
        Ok(stream) => Some(stream),
        Err(HandshakeError::NotTls { mut stream, .. }) => {
            let why = "the client does not use TLS, which this port requires";
            proxy.metrics.rejected(Rejection::Malformed, 400, &why);
            // Best effort: the client may have left.
            let _ = timeout(Duration::from_secs(1), stream.write_all(respond::NOT_TLS)).await;
            None
        }
        Err(error) => {
            tracing::debug!(%error, "no TLS connection with a client");
            None
        }
    }
}

/// Returns the maximum number of concurrent clients at each of `listeners` listeners:
/// `max_connections`, or less if the system permits too few open files.
pub(crate) fn client_permits(max_connections: usize, listeners: usize) -> usize {
    let Some(files) = open_files() else { return max_connections };
    let permits = clients_max(max_connections, files / listeners as u64);
    if permits < max_connections {
        tracing::warn!(
            "listen.max_connections is {max_connections}, but the system allows {files} open files: \
             each address accepts {permits} clients at once; raise the limit with `ulimit -n` or \
             LimitNOFILE"
        );
    }
    permits
}
