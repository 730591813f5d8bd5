//! Listeners on TCP ports and Unix sockets, and outgoing connections.
//!
//! A process that is killed leaves the file of its Unix socket behind. [`Listener::bind`] replaces
//! such a file, but never the socket of a process that still listens. Two processes that replace the
//! same file at the same time both succeed, and clients reach only the last one.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::endpoint::Endpoint;
use crate::stream::Stream;

/// The number of connections that may wait to be accepted. The system may lower it.
const BACKLOG: u32 = 1024;

/// A socket that accepts connections. The file of a Unix socket is removed on drop.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// Drops the file first. While the socket is open, no other file gets the same inode.
    Unix {
        file: SocketFile,
        listener: UnixListener,
    },
}

impl Listener {
    /// Binds a socket and listens on it. Call it inside a tokio runtime. Port 0 stands for a free
    /// port, which [`Listener::local`] returns.
    ///
    /// # Errors
    ///
    /// The endpoint is in use or may not be used. The error contains the endpoint.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Listener> {
        let bound = match endpoint {
            Endpoint::Ip(address) => {
                let socket =
                    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
                socket.and_then(|socket| {
                    socket.set_reuseaddr(true)?;
                    socket.bind(*address)?;
                    socket.listen(BACKLOG).map(Socket::Tcp)
                })
            }
            Endpoint::Unix(path) => bind_unix(path),
        };
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {endpoint}: {error}"))
        };
        bound.map(|socket| Listener { socket }).map_err(failed)
    }

    /// Accepts a connection. The stream is plain: PROXY header and TLS handshake come later. Cancel
    /// safe.
    ///
    /// # Errors
    ///
    /// The system refuses, for example because the process has too many open files. The listener
    /// stays usable.
    pub async fn accept(&self) -> io::Result<Stream> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Polls for a connection, as [`accept`](Listener::accept) does.
    ///
    /// # Errors
    ///
    /// As for [`accept`](Listener::accept).
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        Poll::Ready(match &self.socket {
            Socket::Tcp(listener) => {
                let (socket, peer) = ready!(listener.poll_accept(context))?;
                Ok(Stream::from(socket).with_peer(Endpoint::Ip(peer)))
            }
            Socket::Unix { listener, .. } => {
                ready!(listener.poll_accept(context)).map(|(socket, _)| Stream::from(socket))
            }
        })
    }

    /// Returns the endpoint that the listener is bound to, with the real port.
    ///
    /// # Errors
    ///
    /// The system does not report the address.
    pub fn local(&self) -> io::Result<Endpoint> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map(Endpoint::Ip),
            Socket::Unix { file, .. } => Ok(Endpoint::Unix(file.path.clone())),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener { socket: Socket::Tcp(listener) }
    }
}

/// Connects to an endpoint. Small segments are sent at once. Cancel safe.
///
/// # Errors
///
/// The server refuses or cannot be reached. The caller adds the endpoint to the message.
pub async fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Ip(address) => {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            Ok(Stream::from(socket))
        }
        Endpoint::Unix(path) => Ok(Stream::from(UnixStream::connect(path).await?)),
    }
}

/// The file of a bound Unix socket.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// Distinguishes a file from a later one with the same path.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced the file by its own socket.
        if Identity::of(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<Socket> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    let file = SocketFile { path: path.to_owned(), identity: Identity::of(path)? };
    Ok(Socket::Unix { file, listener })
}

/// Removes the file of a socket that no process listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    let in_use = |message| Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("the file exists and is not a socket; remove it, or use another path");
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path),
        // The other process removed its file meanwhile.
        Err(Errno::NOENT) => Ok(()),
        _ => in_use("another process listens on it; stop that process, or use another path"),
    }
}
