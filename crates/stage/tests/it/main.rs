//! Tests of stages over real sockets.

mod closes;
mod descriptors;
mod get;
mod http;
mod tcp;

use std::time::Duration;

/// Waits until a condition is true, for at most ten seconds.
async fn eventually(condition: &str, holds: impl AsyncFn() -> bool) {
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    while !holds().await {
        assert!(tokio::time::Instant::now() < until, "this never became true: {condition}");
        tokio::time::sleep(Duration::from_millis(2)).await; // tidy: real time
    }
}
