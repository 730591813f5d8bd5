//! A proxy in this process between scripted servers and raw clients, all over loopback sockets.
//!
//! - [`Proxy`]: started from a configuration text; knows how to read its own status and metrics.
//! - [`Backend`]: a server that plays a script and remembers what it was sent.
//! - [`Client`]: writes bytes and reads responses, and tells a whole response from a broken one.

mod backend;
mod client;
mod openmetrics;
mod proxy;

use std::time::Duration;

pub(crate) use backend::{Backend, Seen, Step, dead, say};
pub(crate) use client::{Client, End, Response};
pub(crate) use openmetrics::OpenMetrics;
pub(crate) use proxy::{Proxy, config, service};

/// Longer than anything here takes on a busy machine; a test that waits for so long has failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A response of five bytes.
pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// The result of `work`, which must not take long.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(TEST_TIMEOUT, work).await;
    done.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits until `check` holds.
pub(crate) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(1)).await; // tidy: real time
        }
    })
    .await;
}
