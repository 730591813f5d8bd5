//! Clients that ask at a fixed rate, and now and then go away before they are answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use curtail_dist::seed;
use curtail_http1::{BodyLength, Limits, Persistence, client, write_request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand_core::Rng as _;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::scene::Scene;

/// A request that has no answer by then has none. The service's own time-out is 3 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// Every so many requests, a client leaves.
const LEAVES: u64 = 20;

/// What became of the requests.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// With any status.
    pub(super) answered: u64,
    /// Of those, with another than 200 to 299.
    pub(super) errors: u64,
    /// Left by their client.
    pub(super) aborted: u64,
    /// Neither.
    pub(super) unanswered: u64,
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    errors: AtomicU64,
    aborted: AtomicU64,
    unanswered: AtomicU64,
}

pub(super) struct Clients {
    tally: Arc<Tally>,
    task: JoinHandle<()>,
}

impl Clients {
    /// Waits for the last answers.
    pub(super) async fn finish(self) -> Counts {
        if let Err(error) = self.task.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
        self.tally.counts()
    }
}

impl Tally {
    fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            answered: of(&self.answered),
            errors: of(&self.errors),
            aborted: of(&self.aborted),
            unanswered: of(&self.unanswered),
        }
    }
}

pub(super) fn start(scene: &Scene, rate: f64, seed: u64, end: Instant) -> Clients {
    let tally = Arc::new(Tally::default());
    let (proxy, queries) = (scene.address(), scene.queries.clone());
    let counting = Arc::clone(&tally);
    let task = tokio::spawn(async move {
        let mut rng = seed::rng(seed::stream(seed, &[b"clients"]));
        let gap = Duration::from_secs_f64(1.0 / rate);
        let mut next = Instant::now();
        let mut asking = JoinSet::new();
        while next < end {
            sleep_until(next).await;
            next += gap;
            let query = &queries[(rng.next_u64() % queries.len() as u64) as usize];
            let target = format!(
                "/search?q={}&n={}",
                utf8_percent_encode(query, NON_ALPHANUMERIC),
                rng.next_u64()
            );
            let shard = (rng.next_u64() % 3).to_string();
            let leaves = rng.next_u64().is_multiple_of(LEAVES);
            let patience = Duration::from_millis(rng.next_u64() % 15);
            let tally = Arc::clone(&counting);
            asking.spawn(async move {
                let asked = ask(proxy, &target, &shard);
                if leaves {
                    // Dropping the future closes the connection, wherever the request is.
                    let _ = timeout(patience, asked).await;
                    tally.aborted.fetch_add(1, Ordering::Relaxed);
                } else {
                    count(&tally, timeout(PATIENCE, asked).await.unwrap_or(None));
                }
            });
            // Those that have ended are forgotten.
            while asking.try_join_next().is_some() {}
        }
        while asking.join_next().await.is_some() {}
    });
    Clients { tally, task }
}

fn count(tally: &Tally, status: Option<u16>) {
    let counter = match status {
        Some(status) => {
            if !(200..=299).contains(&status) {
                tally.errors.fetch_add(1, Ordering::Relaxed);
            }
            &tally.answered
        }
        None => &tally.unanswered,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The status of a whole answer.
async fn ask(proxy: SocketAddr, target: &str, shard: &str) -> Option<u16> {
    let (status, _) = exchange(proxy, target, [("host", "soak"), ("x-shard", shard)]).await.ok()?;
    Some(status)
}

/// The body of a GET that is answered with 200.
pub(super) async fn get(from: SocketAddr, target: &str) -> Result<Bytes, String> {
    match exchange(from, target, [("host", "soak"), ("accept", "*/*")]).await? {
        (200, body) => Ok(body),
        (status, _) => Err(format!("{target} is answered with {status}")),
    }
}

async fn exchange(
    to: SocketAddr,
    target: &str,
    headers: [(&str, &str); 2],
) -> Result<(u16, Bytes), String> {
    let mut request = BytesMut::new();
    write_request(&mut request, "GET", target, headers, BodyLength::None, Persistence::Close)
        .map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
    let mut connection = client::Connection::new(stream, Limits::default());
    let head = connection.send(&request, false).await.map_err(|error| error.to_string())?;
    let body = connection.body_all(1 << 20).await.map_err(|error| error.to_string())?;
    Ok((head.status(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_good_is_an_error() {
        let tally = Tally::default();
        for status in [Some(200), Some(204), Some(302), Some(404), Some(503), None] {
            count(&tally, status);
        }
        let Counts { answered, errors, aborted, unanswered } = tally.counts();
        assert_eq!((answered, errors, aborted, unanswered), (5, 3, 0, 1));
    }
}
