//! Accepts client connections, and drains them on shutdown.

mod connection;
mod forward;
mod front;
mod http2;
mod respond;

use std::sync::Arc;
use std::time::Duration;

use curtail_runtime::accept::{Accepted, Acceptor, clients_max, open_files};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::metrics::Rejection;
use crate::route::Router;
use crate::state::Proxy;

/// Between two words about such accepts.
const ACCEPT_SILENCE: Duration = Duration::from_secs(1);

/// Accepts up to `most` concurrent clients until `draining` becomes true. It then waits until the
/// last of them has its response, for at most `listen.drain`.
///
/// Returns the number of connections that were cut off.
pub(crate) async fn clients(
    proxy: Arc<Proxy>,
    (listener, router): (TcpListener, Router),
    most: usize,
    mut draining: watch::Receiver<bool>,
) -> usize {
    let (permits, router) = (Arc::new(Semaphore::new(most)), Arc::new(router));
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
                    connections.spawn(serve(proxy, router, stream, permit, drained.clone()));
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
    accepted: Accepted,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let refuse = |stream: &TcpStream, why: &'static str| {
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

async fn serve(
    proxy: Arc<Proxy>,
    router: Arc<Router>,
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    draining: watch::Receiver<bool>,
) {
    // Without it small responses wait for acknowledgments.
    let _ = stream.set_nodelay(true);
    let open = proxy.metrics.client_connected();
    connection::serve(&proxy, &router, stream, draining).await;
    drop((open, permit));
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
