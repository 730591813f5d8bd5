//! The connections to one server. The most recently used connection is reused first, so after a
//! peak, the surplus connections are not used and become old. Old ones are closed: a middlebox may
//! drop a connection that was idle for a long time, and anything sent on it would be lost.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curtail_http::h1::Limits;
use curtail_http::h1::client::Connection;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::Settings;
use crate::failure::Failure;

/// A connection to a server.
///
/// Dropped inside of a response it is reset. A server may take a mere close for the end of what its
/// client sends, and go on: but its slot is given away as soon as a copy is cancelled.
#[derive(Debug)]
pub(super) struct Stream(Connection<TcpStream>);

impl Stream {
    pub(super) fn new(stream: TcpStream, limits: Limits) -> Self {
        Self(Connection::new(stream, limits))
    }
}

impl Deref for Stream {
    type Target = Connection<TcpStream>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.0.is_idle() {
            // Where it fails, the connection is gone already.
            let _ = self.0.stream().set_zero_linger();
        }
    }
}

/// The connections to one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool {
    address: SocketAddr,
    settings: Settings,
    idle: Arc<Mutex<VecDeque<Idle>>>,
}

/// A connection, and since when it lies idle. The oldest are in front.
#[derive(Debug)]
struct Idle(Stream, Instant);

impl Pool {
    pub(super) fn new(address: SocketAddr, settings: Settings) -> Self {
        Self { address, settings, idle: Arc::default() }
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was used before and is still open, as far as can be seen.
    pub(super) fn reuse(&self) -> Option<Stream> {
        loop {
            let Idle(mut stream, since) = self.lock().pop_back()?;
            if since.elapsed() < self.settings.idle_timeout && !stream.is_stale() {
                return Some(stream);
            }
        }
    }

    /// Closes the connections that lay idle for long. To be called now and then.
    pub(super) fn close_old(&self) {
        let mut old = Vec::new();
        let mut idle = self.lock();
        while let Some(Idle(_, since)) = idle.front()
            && since.elapsed() >= self.settings.idle_timeout
        {
            old.extend(idle.pop_front());
        }
        // Closing takes its time: outside of the lock.
        drop(idle);
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Stream, Failure> {
        let connecting = TcpStream::connect(self.address);
        match timeout(self.settings.connect_timeout, connecting).await {
            Ok(Ok(stream)) => {
                // Without it small requests wait for acknowledgments.
                let _ = stream.set_nodelay(true);
                Ok(Stream::new(stream, self.settings.limits))
            }
            Ok(Err(error)) => Err(Failure::from(&error)),
            Err(_) => Err(Failure::ConnectTimeout(self.settings.connect_timeout)),
        }
    }

    /// Keeps a connection for later, where it can be used again and there is room.
    pub(super) fn put_back(&self, stream: Stream) {
        if !stream.reusable() {
            return;
        }
        let mut idle = self.lock();
        if idle.len() < self.settings.idle {
            idle.push_back(Idle(stream, Instant::now()));
        }
    }

    /// Closes the idle connections.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}
