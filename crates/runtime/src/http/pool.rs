//! The connections to one server. The one used last is used first, so that those that a lull left
//! over grow old; the old ones are closed. A connection that nobody used for long may be forgotten by
//! whatever stands between, and what is sent on it then goes nowhere.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curtail_http1::client::Connection;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::Settings;
use crate::transport::Failure;

pub(super) type Stream = Connection<TcpStream>;

/// The connections to one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool {
    address: SocketAddr,
    settings: Settings,
    idle: Arc<Mutex<VecDeque<Idle>>>,
}

/// A connection, and since when nobody has used it. The oldest are in front.
#[derive(Debug)]
struct Idle(Stream, Instant);

impl Pool {
    pub(super) fn new(address: SocketAddr, settings: Settings) -> Self {
        Self { address, settings, idle: Arc::default() }
    }

    /// The server's address.
    #[must_use]
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

    /// Closes the connections that nobody used for long. For whoever comes by now and then.
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
                Ok(Connection::new(stream, self.settings.limits))
            }
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(Failure::Reset),
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

/// Why there is no connection.
pub(super) fn failure(error: &io::Error) -> Failure {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, TimedOut,
    };
    match error.kind() {
        ConnectionRefused => Failure::Refused,
        // The way to it, perhaps for a moment only: it takes more than one to take a server out.
        ConnectionReset | HostUnreachable | NetworkUnreachable | TimedOut => Failure::Reset,
        // Out of descriptors, ports, memory.
        _ => Failure::Local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_says_that_nothing_listens() {
        let kind = |kind: io::ErrorKind| failure(&kind.into());
        assert_eq!(kind(io::ErrorKind::ConnectionRefused), Failure::Refused);
        assert_eq!(kind(io::ErrorKind::HostUnreachable), Failure::Reset);
        assert_eq!(kind(io::ErrorKind::TimedOut), Failure::Reset);
        assert_eq!(kind(io::ErrorKind::AddrNotAvailable), Failure::Local, "no port left");
    }

    #[test]
    #[cfg(unix)]
    fn a_lack_of_descriptors_is_our_own() {
        const EMFILE: i32 = 24;
        assert_eq!(failure(&io::Error::from_raw_os_error(EMFILE)), Failure::Local);
    }
}
