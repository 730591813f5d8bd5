//! Stages over real sockets.

mod closes;
mod get;
mod http;
mod tcp;

use std::time::Duration;

/// Waits until something holds, for ten seconds at most.
async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    while !holds().await {
        assert!(tokio::time::Instant::now() < until, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await; // tidy: real time
    }
}
