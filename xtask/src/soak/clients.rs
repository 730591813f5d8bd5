//! Clients that send requests at a fixed rate. Some of them leave before the response arrives.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rand_core::Rng as _;
use serde::Serialize;

use super::rng;
use xtask::process::ask;

/// A request without a response after this time counts as unanswered. The service's own timeout is
/// 3 s.
const NO_RESPONSE: Duration = Duration::from_secs(10);

/// One in every N requests has a client that leaves early.
const LEAVES: u64 = 20;

/// The number of requests by result.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// Responses with any status.
    pub(super) answered: u64,
    /// Responses with a status outside 200 to 299. Included in `answered`.
    pub(super) errors: u64,
    /// Requests whose client left early.
    pub(super) aborted: u64,
    /// Requests whose client stayed and got no response.
    pub(super) unanswered: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, errors, aborted, unanswered } = self;
        write!(
            f,
            "{answered} responses ({errors} errors), {aborted} clients left, {unanswered} without \
             a response"
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

/// Running requests, and the counts of the finished ones.
#[derive(Default)]
pub(super) struct Tally {
    counts: Arc<Mutex<Counts>>,
    running: Vec<JoinHandle<()>>,
}

impl Tally {
    /// Sends a request from a new thread.
    pub(super) fn send(
        &mut self,
        to: SocketAddr,
        target: String,
        headers: String,
        leave: Option<Duration>,
    ) {
        let counts = Arc::clone(&self.counts);
        let request = move || {
            let response = ask(to, &target, &headers, leave.unwrap_or(NO_RESPONSE));
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            match leave {
                // The client has closed the connection, whatever the state of the request.
                Some(_) => counts.aborted += 1,
                None => counts.count(response.ok().map(|(status, _)| status)),
            }
        };
        let thread = Builder::new().stack_size(128 << 10).spawn(request);
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
