//! The Proxy D-Stage in front of a server that speaks any protocol over TCP. Each connection is a
//! job.
//!
//! Source: document 003 §3.4 and §4. Connections wait here and not in the server. The server
//! receives only as many at the same time as it needs. This number is either fixed or found by
//! [`curtail_kernel::stage::Throttler`]. Connections of duplicates wait for those of primaries. A
//! connection takes part from its first byte on, so a silent client occupies no slot. A client
//! purges its job by closing its connection or the sending half of it, whether the job is
//! waiting or running. TCP has no priorities. They are therefore set by rules (§3.3), based on the
//! client's address or the port to which the client connects.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use curtail_kernel::stage::Priority;
use curtail_runtime::accept::{Accepted, Acceptor};
use curtail_runtime::stage::{Permit, Stage};
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::rate_limited::RateLimited;

/// The maximum number of bytes that are read from a client before its job's turn comes. Further
/// bytes wait in the socket.
const EARLY_BYTES: usize = 64 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The stage in front of a server.
#[derive(Debug)]
pub struct TcpStage {
    /// The address of the server.
    pub server: SocketAddr,
    /// The slots and queues.
    pub stage: Stage,
    /// Connections from these networks are duplicates.
    pub low_from: Vec<IpNet>,
    /// The maximum number of connections. Further connections are closed.
    pub connections: usize,
    /// The time without traffic after which a connection is closed. It applies before the first byte
    /// of the client, and while the connection occupies a slot.
    pub idle_timeout: Duration,
    /// The maximum time for which a connection occupies a slot. Without this bound, a client that
    /// sends a byte from time to time would occupy it forever.
    pub max_duration: Duration,
    /// Whether the server sends the first byte of a connection. If so, a connection takes a slot
    /// before its client has sent anything.
    pub server_first: bool,
}

/// The state that all connections share.
struct Shared {
    stage: TcpStage,
    warnings: Warnings,
}

#[derive(Default)]
struct Warnings {
    connections: RateLimited,
    queue: RateLimited,
    server: RateLimited,
}

impl TcpStage {
    fn priority(&self, from: IpAddr, listener: Priority) -> Priority {
        let low = self.low_from.iter().any(|net| net.contains(&from.to_canonical()));
        if low { Priority::Low } else { listener }
    }

    /// Accepts connections from these listeners, each of which has a class, until `drain`
    /// completes. After that, the open connections may continue for `within`. Returns the number of
    /// connections that had not ended by then.
    pub async fn serve(
        self,
        listeners: Vec<(TcpListener, Priority)>,
        drain: impl Future<Output = ()>,
        within: Duration,
    ) -> usize {
        let mut listeners: Vec<_> =
            listeners.into_iter().map(|(at, class)| (Acceptor::new(at), class)).collect();
        let room = Arc::new(Semaphore::new(self.connections));
        let shared = Arc::new(Shared { stage: self, warnings: Warnings::default() });
        let mut jobs = JoinSet::new();
        tokio::pin!(drain);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&mut listeners) => accepted,
                () = &mut drain => break,
            };
            while jobs.try_join_next().is_some() {}
            let Ok((accepted, class)) = accepted else { continue };
            let Ok(from) = accepted.peer_addr() else { continue };
            // Without a place or a file descriptor, the connection is closed immediately.
            let place = Arc::clone(&room).try_acquire_owned();
            let (Ok(client), Ok(place)) = (accepted.into_stream(), place) else {
                let warning = || tracing::warn!(%from, "too many connections: some are closed");
                shared.warnings.connections.warn(warning);
                continue;
            };
            let (shared, class) = (Arc::clone(&shared), shared.stage.priority(from.ip(), class));
            jobs.spawn(async move {
                if let Err(error) = shared.job(client, class).await {
                    tracing::debug!(%error, %from, "a connection ended");
                }
                drop(place);
            });
        }
        drop(listeners);
        let _ = timeout(within, async { while jobs.join_next().await.is_some() {} }).await;
        jobs.len()
    }
}

impl Shared {
    async fn job(&self, mut client: TcpStream, class: Priority) -> io::Result<()> {
        let TcpStage { server, stage, idle_timeout, server_first, .. } = &self.stage;
        client.set_nodelay(true)?;
        let mut early = BytesMut::new();
        if !server_first && timeout(*idle_timeout, client.read_buf(&mut early)).await?? == 0 {
            return Ok(());
        }
        let permit = tokio::select! {
            permit = stage.enter_as(class) => permit.map_err(|full| {
                let warning = || tracing::warn!("the queue is full: connections are closed");
                self.warnings.queue.warn(warning);
                io::Error::other(full)
            })?,
            gone = closed(&mut client, &mut early) => return gone,
        };
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(server));
        let connected = connecting.await.unwrap_or_else(|late| Err(late.into()));
        let connected = connected.inspect_err(|error| {
            self.warnings.server.warn(|| {
                tracing::warn!(%error, %server, "cannot connect to the server: client connections \
                                                 are closed");
            });
        })?;
        connected.set_nodelay(true)?;
        self.relay(client, connected, early, permit).await
    }

    /// Relays data until either side has sent everything.
    async fn relay(
        &self,
        mut client: TcpStream,
        mut server: TcpStream,
        early: BytesMut,
        mut permit: Permit,
    ) -> io::Result<()> {
        let TcpStage { stage, idle_timeout, max_duration, .. } = &self.stage;
        let (from_client, mut to_client) = client.split();
        let (from_server, to_server) = server.split();
        let moved = AtomicU64::new(0);
        let up = |bytes| {
            moved.fetch_add(bytes, Ordering::Relaxed);
        };
        let down = |bytes| {
            moved.fetch_add(bytes, Ordering::Relaxed);
            stage.did(bytes);
        };
        let ended = tokio::select! {
            ended = pump(from_client, to_server, early, up) => ended,
            ended = pump(from_server, &mut to_client, BytesMut::new(), down) => ended,
            () = stands_still(|| moved.load(Ordering::Relaxed), *idle_timeout) => Err(io::ErrorKind::TimedOut.into()),
            () = sleep(*max_duration) => Err(io::ErrorKind::TimedOut.into()),
            // The server cannot interrupt a duplicate, so the stage abandons it. The primary of
            // this job is at another server.
            () = permit.lost() => Ok(()),
        };
        let _ = permit.finish();
        ended
    }
}

/// Copies data from one side to the other until the end of the stream.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut buffer: BytesMut,
    moved: impl Fn(u64),
) -> io::Result<()> {
    loop {
        let bytes = buffer.len() as u64;
        to.write_all_buf(&mut buffer).await?;
        moved(bytes);
        buffer.reserve(PIECE_BYTES);
        if from.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// Waits until a sum has not changed for `span`. The wait may last for up to twice this time after
/// the last change.
async fn stands_still(sum: impl Fn() -> u64, span: Duration) {
    let mut last = sum();
    loop {
        tokio::time::sleep(span).await;
        let now = sum();
        if std::mem::replace(&mut last, now) == now {
            return;
        }
    }
}

/// Accepts the next connection from any of the listeners.
async fn accept(listeners: &mut [(Acceptor, Priority)]) -> io::Result<(Accepted, Priority)> {
    std::future::poll_fn(|context| {
        let ready = |(acceptor, class): &mut (Acceptor, Priority)| {
            let accepted = std::task::ready!(acceptor.poll_accept(context));
            Poll::Ready(accepted.map(|accepted| (accepted, *class)))
        };
        let mut all = listeners.iter_mut().map(ready);
        all.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Waits until a client has closed its connection, and stores the data that the client sent before
/// that.
async fn closed(client: &mut TcpStream, early: &mut BytesMut) -> io::Result<()> {
    while early.len() < EARLY_BYTES {
        if client.read_buf(early).await? == 0 {
            return Ok(());
        }
    }
    std::future::pending().await
}
