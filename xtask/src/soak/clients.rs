//! Clients that ask at a fixed rate, and now and then go away before they have a response.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rand_core::Rng as _;
use serde::Serialize;

use super::rng;
use crate::process::ask;

/// A request that has no response by then has none. The service's own timeout is 3 s.
const NO_RESPONSE: Duration = Duration::from_secs(10);

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

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, errors, aborted, unanswered } = self;
        write!(
            f,
            "{answered} answered ({errors} with an error), {aborted} left, {unanswered} unanswered"
        )
    }
}

impl Counts {
    fn count(&mut self, status: Option<u16>) {
        match status {
            Some(status) => {
                self.answered += 1;
                self.errors += u64::from(!(200..=299).contains(&status));
            }
            None => self.unanswered += 1,
        }
    }
}

/// Requests that run, and what became of the others.
#[derive(Default)]
pub(super) struct Tally {
    counts: Arc<Mutex<Counts>>,
    running: Vec<JoinHandle<()>>,
}

impl Tally {
    /// Sends a request by a thread of its own.
    pub(super) fn send(
        &mut self,
        to: SocketAddr,
        target: String,
        headers: String,
        leave: Option<Duration>,
    ) {
        let counts = Arc::clone(&self.counts);
        let asked = move || {
            let response = ask(to, &target, &headers, leave.unwrap_or(NO_RESPONSE));
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            match leave {
                // The connection has been closed, wherever the request is.
                Some(_) => counts.aborted += 1,
                None => counts.count(response.ok().map(|(status, _)| status)),
            }
        };
        let thread = Builder::new().stack_size(128 << 10).spawn(asked);
        self.running.push(thread.expect("a thread"));
        self.running.retain(|thread| !thread.is_finished());
    }

    /// Waits for the last responses.
    pub(super) fn finish(self) -> Counts {
        self.running.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn start(to: SocketAddr, rate: f64, seed: u64, end: Instant) -> JoinHandle<Counts> {
    std::thread::spawn(move || {
        let mut random = rng(seed, 2);
        let mut tally = Tally::default();
        let mut next = Instant::now();
        while next < end {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next += Duration::from_secs_f64(1.0 / rate);
            let (word, number) = (random.next_u64() % 40, random.next_u64());
            let target = format!("/search?q=tail%20word{word}&n={number}");
            let shard = format!("x-shard: {}\r\n", random.next_u64() % 3);
            let leaves = random.next_u64().is_multiple_of(LEAVES);
            let leave = Duration::from_millis(1 + random.next_u64() % 15);
            tally.send(to, target, shard, leaves.then_some(leave));
        }
        tally.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_is_not_good_is_an_error() {
        let mut counts = Counts::default();
        for status in [Some(200), Some(204), Some(302), Some(404), Some(503), None] {
            counts.count(status);
        }
        let Counts { answered, errors, aborted, unanswered } = counts;
        assert_eq!((answered, errors, aborted, unanswered), (5, 3, 0, 1));
    }
}
