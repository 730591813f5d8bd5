//! The clients' side: accepting connections, and ending them in an orderly way.

mod connection;
mod forward;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::metrics::Rejection;
use crate::state::Proxy;

/// After an accept that failed, for lack of file descriptors say: time for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts clients until `draining` turns true, then waits until the last of them has its answer, or
/// for as long as the configuration says.
///
/// Returns how many connections were cut off.
pub(crate) async fn clients(
    proxy: Arc<Proxy>,
    listener: TcpListener,
    mut draining: watch::Receiver<bool>,
) -> usize {
    let most = proxy.config.listen.max_connections;
    let places = Arc::new(Semaphore::new(most));
    let ending = draining.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = draining.wait_for(|draining| *draining) => break,
        };
        match accepted {
            Ok((stream, _)) => accept(&proxy, stream, &places, &ending),
            Err(error) => {
                tracing::warn!(%error, "cannot accept clients");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    let _ = timeout(proxy.config.listen.drain, places.acquire_many(all)).await;
    most - places.available_permits().min(most)
}

fn accept(
    proxy: &Arc<Proxy>,
    stream: TcpStream,
    places: &Arc<Semaphore>,
    draining: &watch::Receiver<bool>,
) {
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        proxy.metrics.rejected(Rejection::Connections);
        // Best effort, without waiting: the point is to hold nothing for this client.
        let _ = stream.try_write(reply::FULL);
        return;
    };
    // Without it small answers wait for acknowledgments.
    let _ = stream.set_nodelay(true);
    tokio::spawn(serve(Arc::clone(proxy), stream, place, draining.clone()));
}

async fn serve(
    proxy: Arc<Proxy>,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    draining: watch::Receiver<bool>,
) {
    let open = proxy.metrics.client_connected();
    connection::serve(&proxy, stream, draining).await;
    drop((open, place));
}
