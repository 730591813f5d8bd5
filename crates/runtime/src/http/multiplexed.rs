//! HTTP/2 connections to one server. A connection carries as many concurrent requests as the server
//! permits. A worker opens another connection only when all of its own are full.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use curtail_net::Stream;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use h2::ext::Protocol;
use tokio::time::{Instant, timeout};

use super::Settings;
use super::send_error::SendError;
use crate::failure::Failure;
use crate::workers;

/// The number of bytes that a server may send on a stream before we have relayed them.
const STREAM_WINDOW: u32 = 256 << 10;
/// Maximum number of concurrent requests on a connection, even if the server permits more.
const STREAMS_MAX: usize = 256;
/// The number of bytes that a server may send on a connection before we have relayed them. All streams
/// fill their windows before this, so clients that do not read cannot block the streams of others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX as u32;
/// Maximum overhead of frames that have not been relayed, where a frame counts as 256 bytes minus its
/// length. Beyond it, the crate `h2` ends the connection with all of its streams. Clients that do
/// not read messages of 16 bytes or more cannot cause that.
const FRAMES_BUDGET: usize = 16 * CONNECTION_WINDOW as usize;
/// Maximum number of streams that we have reset and whose late frames are ignored.
const RESET_STREAMS_MAX: usize = 1 << 10;
/// Minimum limit for the decoded fields of a response. It is far above the limit for heads, which is
/// checked later: for the crate `h2`, fields above its limit are an error of the server, and fields
/// far above it end the connection with all of its streams.
const FIELDS_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Multiplexed {
    settings: Settings,
    connections: Mutex<Vec<Arc<Shared>>>,
    /// Held from the opening of a connection until the server has announced how many streams it
    /// permits. A burst of requests therefore opens no more connections than it needs.
    opening: Arc<tokio::sync::Mutex<()>>,
}

/// A connection.
#[derive(Debug)]
struct Shared {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// The connection has ended, or the server accepts no further streams.
    closed: AtomicBool,
    /// The index of the worker that drives the connection, and uses it alone.
    worker: usize,
    last_used: Mutex<Instant>,
}

/// A place for one request on a connection.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
}

impl Link {
    /// Sends the head of a request. `ends` states whether it has no body.
    pub(super) async fn send(
        &self,
        message: http::Request<()>,
        ends: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), SendError> {
        let unsent = |_| {
            self.close();
            SendError::Unsent
        };
        let mut sender = self.shared.sender.clone().ready().await.map_err(unsent)?;
        let is_tunnel = message.extensions().get::<Protocol>().is_some();
        if is_tunnel && !sender.is_extended_connect_protocol_enabled() {
            return Err(SendError::Failed(Failure::Unsendable));
        }
        sender.send_request(message, ends).map_err(unsent)
    }

    /// The connection accepts no further requests.
    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        *self.shared.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shared.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Multiplexed {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, connections: Mutex::default(), opening: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place on a connection that is open.
    pub(super) fn reuse(&self) -> Option<Link> {
        let mut connections = self.lock();
        connections.retain(|shared| !shared.closed.load(Ordering::Relaxed));
        let here = workers::index();
        connections.iter().filter(|shared| shared.worker == here).find_map(|shared| {
            let most = shared.sender.current_max_send_streams().min(STREAMS_MAX);
            // Places are taken under the lock, so the check and the increment belong together.
            (shared.streams.load(Ordering::Relaxed) < most).then(|| shared.link())
        })
    }

    /// Opens a connection, unless one was opened meanwhile.
    pub(super) async fn open(
        &self,
        open: impl Future<Output = Result<Stream, Failure>>,
    ) -> Result<Link, Failure> {
        let opening = Arc::clone(&self.opening).lock_owned().await;
        if let Some(link) = self.reuse() {
            return Ok(link);
        }
        let stream = open.await?;
        let mut builder = h2::client::Builder::new();
        let fields = self.settings.limits.head_bytes.saturating_mul(2).max(FIELDS_BYTES);
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(FRAMES_BUDGET)
            .max_header_list_size(u32::try_from(fields).unwrap_or(u32::MAX))
            // Until the server has announced its limit.
            .initial_max_send_streams(1)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX);
        let handshake = builder.handshake::<_, Bytes>(stream).await;
        let (sender, mut connection) = handshake.map_err(|error| Failure::of_http2(&error))?;
        let mut pings = connection.ping_pong();
        let shared = Arc::new(Shared {
            sender,
            streams: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            worker: workers::index(),
            last_used: Mutex::new(Instant::now()),
        });
        let of_connection = Arc::downgrade(&shared);
        // The task ends when the connection ends, or when no sender is left.
        tokio::spawn(async move {
            let _ = connection.await;
            if let Some(shared) = of_connection.upgrade() {
                shared.closed.store(true, Ordering::Relaxed);
            }
        });
        let (link, most) = (shared.link(), self.settings.connect_timeout);
        self.lock().push(shared);
        // A server sends its settings before it acknowledges a ping (RFC 9113 §3.4). The first request
        // does not wait for that.
        tokio::spawn(async move {
            if let Some(pings) = &mut pings {
                let _ = timeout(most, pings.ping(h2::Ping::opaque())).await;
            }
            drop(opening);
        });
        Ok(link)
    }

    /// Waits until the server of a connection that was just opened has announced its settings.
    pub(super) async fn settled(&self) {
        drop(self.opening.lock().await);
    }

    pub(super) fn close_old(&self) {
        let timeout = self.settings.idle_timeout;
        self.keep(|shared| {
            let used = *shared.last_used.lock().unwrap_or_else(PoisonError::into_inner);
            used.elapsed() < timeout
        });
    }

    pub(super) fn clear(&self) {
        self.keep(|_| false);
    }

    /// Forgets idle connections, and those that are closed. Without a sender, they end.
    fn keep(&self, keeps: impl Fn(&Shared) -> bool) {
        let mut connections = self.lock();
        let (kept, forgotten) = std::mem::take(&mut *connections).into_iter().partition(|shared| {
            let in_use = shared.streams.load(Ordering::Relaxed) > 0;
            !shared.closed.load(Ordering::Relaxed) && (in_use || keeps(shared))
        });
        *connections = kept;
        drop(connections);
        // Closing takes its time: outside of the lock.
        drop::<Vec<_>>(forgotten);
    }
}

impl Shared {
    fn link(self: &Arc<Self>) -> Link {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Link { shared: Arc::clone(self) }
    }
}
