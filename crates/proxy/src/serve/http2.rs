//! Serves one client's HTTP/2 connection. The task of the connection polls all of its requests. The future
//! of a request is large, and a task per request would move it several times.

use std::future::Future;

use bytes::Bytes;
use curtail_http::h1::server::ServerError;
use curtail_http::h1::{Timeouts, Version};
use curtail_http::h2::server::Accepted;
use curtail_net::Stream;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use h2::server::{Builder, Connection, SendResponse};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::{Here, handle};
use super::forward::PeerAddrs;
use super::front::{Cut, Http2};
use super::respond;
use super::streaming::Rest;
use crate::route::Router;
use crate::sidecar::Fields;
use crate::state::Proxy;

/// Maximum number of concurrent requests on a connection.
const STREAMS_MAX: u32 = 256;
/// The number of bytes that a client may send on a stream before they have been read.
const STREAM_WINDOW: u32 = 64 << 10;
/// The number of bytes that a client may send on a connection before they have been read. All streams
/// fill their windows before this, so uploads to slow replicas cannot block the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX;
/// Maximum overhead of frames that have not been read, where a frame counts as 256 bytes minus its length.
/// A client that exceeds it is disconnected. Uploads in messages of 16 bytes reach it if 34 of them fill
/// their windows.
const FRAMES_BUDGET: usize = 32 << 20;
/// Maximum number of bytes that a stream keeps for a client that does not read.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of streams that a client may reset before they have been accepted. A client that
/// exceeds it is disconnected (CVE-2023-44487).
const RESET_BEFORE_ACCEPT_MAX: usize = 64;

/// Serves HTTP/2 until the client leaves, the connection has been idle for too long, or the proxy
/// has drained.
pub(super) async fn serve(
    proxy: &Proxy,
    router: &Router,
    stream: Stream,
    draining: watch::Receiver<bool>,
) {
    let peer = PeerAddrs::of(&stream, Version::Http2);
    let here = Here { proxy, router, peer: &peer, draining: &draining };
    let mut waiting = draining.clone();
    let listen = &proxy.config.listen;
    let Timeouts { idle, head, .. } = listen.timeouts;
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(FRAMES_BUDGET)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(RESET_BEFORE_ACCEPT_MAX)
        .enable_connect_protocol()
        .max_header_list_size(u32::try_from(listen.limits.head_bytes).unwrap_or(u32::MAX));
    let Ok(Ok(mut connection)) = timeout(head, builder.handshake(stream)).await else { return };
    // Dropping it cuts off the requests that are running.
    let mut requests = FuturesUnordered::new();
    let mut idle_since = Instant::now();
    let mut drain_seen = false;
    loop {
        let accepted = tokio::select! {
            // The connection comes last, because it sends what the requests have written.
            biased;
            Some(()) = requests.next() => {
                idle_since = Instant::now();
                continue;
            }
            _ = waiting.wait_for(|draining| *draining), if !drain_seen => {
                drain_seen = true;
                idle_since = Instant::now();
                connection.graceful_shutdown();
                continue;
            }
            // A client that does not acknowledge the end is disconnected.
            () = sleep_until(idle_since + head), if requests.is_empty() && drain_seen => break,
            () = sleep_until(idle_since + idle), if requests.is_empty() && !drain_seen => {
                drain_seen = true;
                idle_since = Instant::now();
                connection.graceful_shutdown();
                continue;
            }
            accepted = connection.accept() => accepted,
        };
        match accepted {
            Some(Ok((request, respond))) => requests.push(one(&here, request, respond)),
            Some(Err(error)) => {
                tracing::debug!(%error, "client connection ended");
                break;
            }
            None => break,
        }
    }
    // The client has closed the connection, or has left. Its requests notice that.
    close(connection, requests).await;
}

/// Lets the requests that are running end.
async fn close(
    mut connection: Connection<Stream, Bytes>,
    mut requests: FuturesUnordered<impl Future<Output = ()>>,
) {
    while !requests.is_empty() {
        tokio::select! {
            _ = requests.next() => {}
            // The connection makes progress only while it is polled.
            Some(Ok(_)) = connection.accept() => {}
            else => break,
        }
    }
}

async fn one(
    here: &Here<'_>,
    request: http::Request<h2::RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let listen = &here.proxy.config.listen;
    let accepted = Accepted::new(request, respond, &listen.limits, listen.timeouts);
    let mut client = Http2::new(accepted.exchange);
    let handled = match accepted.head {
        // Large, and freed before a stream or a tunnel, which may last long.
        Ok(head) => Box::pin(handle(here, &mut client, head)).await,
        Err(reject) => Err(Cut::Client(ServerError::Reject(reject))),
    };
    let ended = match handled {
        Ok(Rest::Stream(stream)) => stream.run(&mut client).await,
        Ok(Rest::Tunnel(tunnel)) => {
            if let Some(stream) = client.exchange.into_tunnel() {
                Box::pin(tunnel.run(stream)).await;
            }
            return;
        }
        Ok(Rest::Nothing) => Ok(()),
        Err(cut) => Err(cut),
    };
    match ended {
        Ok(()) => {}
        Err(Cut::Client(ServerError::Reject(reject))) => {
            here.proxy.metrics.rejected((&reject).into(), reject.status(), &reject);
            let fields = Fields::default();
            let (status, text) = (reject.status(), reject.to_string());
            // If it fails, the client has left.
            let _ = respond::text(&mut client, status, &text, None, &fields).await;
        }
        Err(cut) => {
            tracing::debug!(%cut, "client request ended");
            client.exchange.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// Each event of a stream polls this future. The future of the handler would be most of it.
    #[test]
    fn a_stream_is_small() {
        let one = |here: &'static Here<'static>, request, respond| one(here, request, respond);
        let bytes = bytes(one);
        assert!(bytes < 2_000, "{bytes} bytes");
    }
}
