//! Runs a proxy in the test process, between scripted servers and raw clients, all over loopback
//! sockets.
//!
//! - [`Proxy`]: starts a proxy from the text of a configuration, and reads its status and metrics.
//! - [`Backend`]: plays a script, and records the requests that it receives.
//! - [`Client`]: sends bytes and reads responses, and distinguishes complete responses from broken
//!   ones.
//! - [`http2`]: a client and a server of HTTP/2, and frames for messages that no library sends.

mod backend;
mod client;
pub(crate) mod http2;
mod proxy;

use std::time::Duration;

pub(crate) use backend::{Backend, Seen, Shared, Step, TestServer, dead, say};
pub(crate) use client::{Client, End, Response};
pub(crate) use proxy::{Proxy, Replica, config, service, shard, with_shards};

/// Timeout of every wait in the tests. It is longer than any wait should take, even on a busy
/// machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A response of five bytes.
pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// Returns the result of `work`, which must complete within the timeout.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(TEST_TIMEOUT, work).await;
    done.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits until `check` returns true.
pub(crate) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(1)).await; // tidy: real time
        }
    })
    .await;
}
