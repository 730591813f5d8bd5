//! Accepts connections, even if the process has no free file descriptors.
//!
//! If a process has as many open files as the system permits, `accept` fails with `EMFILE`, and the
//! client waits in the backlog of the listener until it gives up. An [`Acceptor`] therefore keeps
//! spare descriptors, which are open but not used. If `accept` fails, the acceptor closes a spare
//! descriptor and accepts the client in its place. The caller refuses this client by dropping the
//! [`Accepted`] connection, or serves it through a reference. When the connection is dropped, its
//! descriptor becomes a spare one again. `dup3` does that in a single step, so no other thread can
//! take the descriptor in between.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use curtail_net::{Listener, Stream};
use rustix::io::{DupFlags, Errno, dup3};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};

/// The number of spare descriptors of each acceptor. One is enough to refuse clients one after the
/// other. Several allow an admin server to serve several clients at once. If another thread opens a
/// file just after a spare descriptor was closed, that descriptor is lost until the process has
/// free ones again.
pub const SPARES: usize = 4;

/// The pause after an error, so that a lasting error does not keep a processor busy.
const PAUSE: Duration = Duration::from_millis(10);

/// Held while an acceptor opens or accepts anything, so that it does not take the descriptor that
/// another one has just freed.
static TURN: Mutex<()> = Mutex::new(());

/// A listener with spare descriptors.
#[derive(Debug)]
pub struct Acceptor<L = TcpListener> {
    listener: L,
    spares: Arc<Spares>,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    sleep: Pin<Box<Sleep>>,
    /// Whether the pause also ends when there is a spare descriptor again.
    is_for_spare: bool,
}

/// An accepted connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct Accepted<S: IntoDescriptor = TcpStream> {
    /// Present until this value is dropped or converted.
    stream: Option<S>,
    in_place_of_spare: bool,
    spares: Arc<Spares>,
}

/// The spare descriptors. The first one is never closed, because the others are copied from it.
#[derive(Debug, Default)]
struct Spares(Mutex<Vec<OwnedFd>>);

/// A listener.
pub trait Listen {
    /// The type of its connections.
    type Stream: IntoDescriptor;

    /// Polls for the next connection.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;
}

/// A connection that can be taken apart.
pub trait IntoDescriptor {
    /// Returns the descriptor.
    ///
    /// # Errors
    /// The connection cannot be taken from its runtime.
    fn into_descriptor(self) -> io::Result<OwnedFd>;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        TcpListener::poll_accept(self, context).map_ok(|(stream, _)| stream)
    }
}

impl IntoDescriptor for TcpStream {
    fn into_descriptor(self) -> io::Result<OwnedFd> {
        self.into_std().map(OwnedFd::from)
    }
}

impl Listen for Listener {
    type Stream = Stream;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        Listener::poll_accept(self, context)
    }
}

impl IntoDescriptor for Stream {
    fn into_descriptor(self) -> io::Result<OwnedFd> {
        Stream::into_descriptor(self)
    }
}

impl<L: Listen> Acceptor<L> {
    /// Creates an acceptor, and opens its spare descriptors if there are enough free ones.
    #[must_use]
    pub fn new(listener: L) -> Self {
        let spares = Arc::new(Spares::default());
        let turn = lock(&TURN);
        spares.refill();
        drop(turn);
        Self { listener, spares, pause: None }
    }

    /// Accepts the next connection. This method is cancel safe.
    ///
    /// # Errors
    /// `accept` failed. The next call begins with a pause. If [`is_exhausted`] returns true for the
    /// error, all spare descriptors are in use, too. There is then no pause if one of them has
    /// been put back before the next call.
    pub async fn accept(&mut self) -> io::Result<Accepted<L::Stream>> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Polls for the next connection, as [`Self::accept`] does.
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Accepted<L::Stream>>> {
        if let Some(Pause { sleep, is_for_spare }) = &mut self.pause {
            if !(*is_for_spare && self.spares.is_any_left()) {
                ready!(sleep.as_mut().poll(context));
            }
            self.pause = None;
        }
        let turn = lock(&TURN);
        self.spares.refill();
        let mut accepted = ready!(self.listener.poll_accept(context));
        let mut in_place_of_spare = false;
        if accepted.as_ref().is_err_and(is_exhausted) && self.spares.close_one() {
            in_place_of_spare = true;
            accepted = match self.listener.poll_accept(context) {
                Poll::Ready(accepted) => accepted,
                Poll::Pending => {
                    self.spares.refill();
                    return Poll::Pending;
                }
            };
        }
        drop(turn);
        Poll::Ready(match accepted {
            Ok(stream) => {
                let (stream, spares) = (Some(stream), Arc::clone(&self.spares));
                Ok(Accepted { stream, in_place_of_spare, spares })
            }
            Err(error) => {
                let is_for_spare = is_exhausted(&error);
                self.pause = Some(Pause { sleep: Box::pin(sleep(PAUSE)), is_for_spare });
                Err(error)
            }
        })
    }
}

impl<S: IntoDescriptor> Accepted<S> {
    /// Returns the stream.
    ///
    /// # Errors
    /// This connection uses a spare descriptor. Drop it, so that the next client can be accepted.
    pub fn into_stream(mut self) -> Result<S, Self> {
        match self.stream.take() {
            Some(stream) if !self.in_place_of_spare => Ok(stream),
            stream => {
                self.stream = stream;
                Err(self)
            }
        }
    }
}

const PRESENT: &str = "the stream is present until the value is dropped";

impl<S: IntoDescriptor> Deref for Accepted<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.stream.as_ref().expect(PRESENT)
    }
}

impl<S: IntoDescriptor> DerefMut for Accepted<S> {
    fn deref_mut(&mut self) -> &mut S {
        self.stream.as_mut().expect(PRESENT)
    }
}

impl<S: IntoDescriptor> Drop for Accepted<S> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.spares.put_back(stream);
        }
    }
}

impl Spares {
    /// Opens the missing descriptors, as far as there are free ones.
    fn refill(&self) {
        let mut all = lock(&self.0);
        while all.len() <= SPARES {
            let opened = match all.first() {
                Some(first) => first.try_clone(),
                None => File::open("/dev/null").map(OwnedFd::from),
            };
            let Ok(opened) = opened else { return };
            all.push(opened);
        }
    }

    fn is_any_left(&self) -> bool {
        lock(&self.0).len() > 1
    }

    /// Closes a descriptor. Returns false if there is none left.
    fn close_one(&self) -> bool {
        let mut all = lock(&self.0);
        all.len() > 1 && all.pop().is_some()
    }

    /// Closes a connection. If a descriptor is missing, keeps that of the connection.
    fn put_back(&self, stream: impl IntoDescriptor) {
        let mut all = lock(&self.0);
        if all.len() > SPARES {
            return;
        }
        let (Some(first), Ok(mut descriptor)) = (all.first(), stream.into_descriptor()) else {
            return;
        };
        if dup3(first, &mut descriptor, DupFlags::CLOEXEC).is_ok() {
            all.push(descriptor);
        }
    }
}

// Code under these locks does not panic, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether `accept` failed because the process has too many open files.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
}

/// Returns the maximum number of open files of this process, if there is one.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the maximum number of clients of a listener: `most`, but at most half of `files`. Every
/// connection is an open file. If clients used all of them, their requests could not be sent to
/// servers.
#[must_use]
pub fn clients_max(most: usize, files: u64) -> usize {
    let half = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
    most.min(half)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn clients_get_half_of_the_open_files_at_most() {
        assert_eq!(clients_max(10_000, 1_024), 512);
        assert_eq!(clients_max(100, 1_024), 100);
        assert_eq!(clients_max(100, 1), 1);
    }

    #[tokio::test]
    async fn the_descriptor_of_a_closed_connection_becomes_a_spare_one_if_one_is_missing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(listener);
        let spares = Arc::clone(&acceptor.spares);
        let mut client = TcpStream::connect(address).await.unwrap();
        let accepted = acceptor.accept().await.unwrap();
        let descriptor = accepted.as_raw_fd();
        assert!(spares.close_one());
        drop(accepted);
        let end = tokio::io::AsyncReadExt::read(&mut client, &mut [0]).await;
        assert_eq!(end.unwrap(), 0);
        assert_eq!(lock(&spares.0).last().unwrap().as_raw_fd(), descriptor);
        for left in (0..SPARES).rev() {
            assert!(spares.close_one(), "{left}");
        }
        assert!(!spares.close_one(), "the first one stays open");
    }
}
