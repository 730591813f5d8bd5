//! The connections to one server. The most recently used connection is reused first, so after a
//! peak, the surplus connections are not used and become old. Old ones are closed: a middlebox may
//! drop a connection that was idle for a long time, and anything sent on it would be lost.
//!
//! A worker reuses its own connections first, and then moves one from another worker to itself. It
//! opens a new one only if there is none, because some servers serve few connections at a time.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use curtail_http::h1::Limits;
use curtail_http::h1::client::Connection;
use curtail_net::Stream;
use tokio::time::Instant;

use super::Settings;
use crate::workers;

/// A connection to a server.
///
/// If it is dropped in the middle of a response, it is reset. A server may take a mere close for the
/// end of what its client sends, and continue. But its slot is given away as soon as a copy is
/// cancelled.
#[derive(Debug)]
pub(super) struct PooledStream {
    connection: Connection<Stream>,
    /// A buffer for rendered requests.
    pub(super) text: BytesMut,
}

impl PooledStream {
    pub(super) fn new(stream: Stream, limits: Limits) -> Self {
        Self { connection: Connection::new(stream, limits), text: BytesMut::new() }
    }
}

impl Deref for PooledStream {
    type Target = Connection<Stream>;

    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}

impl DerefMut for PooledStream {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.connection
    }
}

impl Drop for PooledStream {
    fn drop(&mut self) {
        // A tunnel ends when both sides have closed it, which must not look like a fault.
        if !self.connection.is_idle() && !self.connection.is_tunnel() {
            // If it fails, the connection is gone already.
            let _ = self.connection.stream().set_zero_linger();
        }
    }
}

/// The connections to one server. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    settings: Settings,
    idle: Arc<Mutex<VecDeque<Idle>>>,
}

/// An idle connection. The oldest are in front.
#[derive(Debug)]
struct Idle {
    stream: PooledStream,
    since: Instant,
    /// The index of the worker whose runtime drives the connection.
    worker: usize,
}

impl Pool {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, idle: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was used before and is still open, as far as can be seen.
    pub(super) fn reuse(&self) -> Option<PooledStream> {
        let here = workers::index();
        loop {
            let Idle { mut stream, since, worker } = self.take(here)?;
            if since.elapsed() < self.settings.idle_timeout && !stream.is_stale() {
                if worker != here {
                    // If it fails, the other worker notifies this one.
                    let _ = stream.stream_mut().move_here();
                }
                return Some(stream);
            }
        }
    }

    fn take(&self, worker: usize) -> Option<Idle> {
        let mut idle = self.lock();
        let last = idle.len().checked_sub(1)?;
        let own = idle.iter().rposition(|idle| idle.worker == worker);
        idle.remove(own.unwrap_or(last))
    }

    /// Closes the connections that lay idle for long. To be called now and then.
    pub(super) fn close_old(&self) {
        let mut old = Vec::new();
        let mut idle = self.lock();
        while let Some(Idle { since, .. }) = idle.front()
            && since.elapsed() >= self.settings.idle_timeout
        {
            old.extend(idle.pop_front());
        }
        // Closing takes its time: outside of the lock.
        drop(idle);
    }

    /// Keeps a connection for later, where it can be used again and there is room.
    pub(super) fn put_back(&self, stream: PooledStream) {
        if !stream.reusable() {
            return;
        }
        let mut idle = self.lock();
        if idle.len() < self.settings.idle {
            idle.push_back(Idle { stream, since: Instant::now(), worker: workers::index() });
        }
    }

    /// Closes the idle connections.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}
