//! Accepts client connections, and drains them on shutdown.

mod connection;
mod forward;
mod front;
mod http2;
mod respond;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::Rejection;
use crate::route::Router;
use crate::state::Proxy;

/// After an accept that failed, for lack of file descriptors say: time for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    let drained = draining.clone();
    // Dropping it cuts off those that are still connected.
    let mut connections = JoinSet::new();
    let mut last_warning: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = draining.wait_for(|draining| *draining) => break,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                if let Some(permit) = permit(&proxy, &stream, &permits) {
                    let (proxy, router) = (Arc::clone(&proxy), Arc::clone(&router));
                    connections.spawn(serve(proxy, router, stream, permit, drained.clone()));
                }
            }
            Err(error) => {
                if last_warning.is_none_or(|at| at.elapsed() >= ACCEPT_SILENCE) {
                    last_warning = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept clients");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    let _ = timeout(proxy.config.listen.drain, permits.acquire_many(all)).await;
    most - permits.available_permits().min(most)
}

/// A place for a client, where there is one left.
fn permit(
    proxy: &Proxy,
    stream: &TcpStream,
    permits: &Arc<Semaphore>,
) -> Option<OwnedSemaphorePermit> {
    let permit = Arc::clone(permits).try_acquire_owned().ok();
    if permit.is_none() {
        let why = "the limit of client connections is reached";
        proxy.metrics.rejected(Rejection::Connections, 503, &why);
        // Best effort, without waiting: the point is to hold nothing for this client.
        let _ = stream.try_write(respond::FULL);
    }
    permit
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

/// How many files this process may open, where the system says.
#[cfg(unix)]
fn allowed() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
fn allowed() -> Option<u64> {
    None
}

/// Returns the maximum number of concurrent clients at each of `listeners` listeners:
/// `max_connections`, or less if the system permits too few open files. Every connection is an open
/// file. A proxy whose clients took all of them could not reach its replicas, so half of the files
/// are reserved for replicas, probes and operators.
pub(crate) fn client_permits(max_connections: usize, listeners: usize) -> usize {
    let Some(files) = allowed() else { return max_connections };
    let permits = share(max_connections, files / listeners as u64);
    if permits < max_connections {
        tracing::warn!(
            "listen.max_connections is {max_connections}, but the system allows {files} open files: \
             each address accepts {permits} clients at once; raise the limit with `ulimit -n` or \
             LimitNOFILE"
        );
    }
    permits
}

/// Half of the open files.
fn share(max_connections: usize, files: u64) -> usize {
    let half = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
    max_connections.min(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_half_of_the_open_files_at_most() {
        assert_eq!(share(10_000, 1_024), 512);
        assert_eq!(share(100, 1_024), 100);
        assert_eq!(share(100, 1), 1);
    }
}
