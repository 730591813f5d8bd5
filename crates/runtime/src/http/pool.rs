//! The connections to one server. The one used last is used first, so that those that a lull left
//! over grow old and are closed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curtail_http1::client::Connection;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Settings;
use crate::transport::Failure;

pub(super) type Stream = Connection<TcpStream>;

/// The connections to one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool {
    address: SocketAddr,
    settings: Settings,
    idle: Arc<Mutex<Vec<Stream>>>,
}

impl Pool {
    pub(super) fn new(address: SocketAddr, settings: Settings) -> Self {
        Self { address, settings, idle: Arc::default() }
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was used before and is still open, as far as can be seen.
    pub(super) fn reuse(&self) -> Option<Stream> {
        loop {
            let mut stream = self.lock().pop()?;
            if !stream.is_stale() {
                return Some(stream);
            }
        }
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
            Ok(Err(_)) | Err(_) => Err(Failure::Refused),
        }
    }

    /// Keeps a connection for later, where it can be used again and there is room.
    pub(super) fn put_back(&self, stream: Stream) {
        if !stream.reusable() {
            return;
        }
        let mut idle = self.lock();
        if idle.len() < self.settings.idle {
            idle.push(stream);
        }
    }

    /// Closes the idle connections.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}
