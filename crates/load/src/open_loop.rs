//! Sends requests in this process when they are due, regardless of responses (open loop).
//!
//! The engine of this crate speaks wire protocols on its own threads. This sender calls a closure
//! instead, so it suits whatever runs in tokio: a cell, a tower service, the driver of a database.
//! A latency runs from the time at which its request was due.
//!
//! Cost: one task and one entry of a histogram per request.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::time::Duration;

use curtail_dist::arrivals::Arrivals;
use hdrhistogram::Histogram;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use crate::plan::profile::Profile;
use crate::plan::schedule::{Extent, Schedule};

/// A request, which is sent when it is due.
#[derive(Clone, Debug)]
pub struct Request<C, T> {
    /// The time from the start.
    pub due: Duration,
    /// The class in whose results the request counts.
    pub class: C,
    /// The value that is passed to the sending closure.
    pub what: T,
}

/// Limits of the sender.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of outstanding requests at which further ones are left out.
    pub outstanding: usize,
    /// How long to wait for responses after the last request was due.
    pub rest: Duration,
}

/// The results of all requests.
#[derive(Clone, Debug)]
pub struct Sent<C> {
    /// The results by class. A class without requests is missing.
    pub classes: BTreeMap<C, Class>,
    /// The sender's own delay: how late it was at each request, in nanoseconds.
    pub lateness: Histogram<u64>,
}

/// The results of the requests of a class.
#[derive(Clone, Debug)]
pub struct Class {
    /// The number of requests that were due.
    pub offered: u64,
    /// The number of requests that were not sent, because too many were outstanding.
    pub left_out: u64,
    /// The number of requests without a good response when the last request was due. If it is a large
    /// share of those offered, a queue grows, and the latencies only reflect the length of the run.
    pub behind: u64,
    /// Latencies of good responses, in nanoseconds, with three significant digits.
    pub latencies: Histogram<u64>,
}

impl Default for Class {
    fn default() -> Self {
        Self { offered: 0, left_out: 0, behind: 0, latencies: latencies() }
    }
}

impl Class {
    /// Returns the number of good responses.
    pub fn answered(&self) -> u64 {
        self.latencies.len()
    }

    /// Returns the number of requests that were sent and failed, or had no response in the end.
    pub fn errors(&self) -> u64 {
        self.offered - self.left_out - self.answered()
    }

    /// Adds the results of another class.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.left_out += other.left_out;
        self.behind += other.behind;
        self.latencies.add(&other.latencies).expect("it resizes itself");
    }
}

/// Returns an empty histogram of nanoseconds with three significant digits. It resizes itself.
pub fn latencies() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are supported")
}

/// Returns the arrival times of a Poisson process with this rate per second. The same seed gives the
/// same times, apart from the factor between two rates.
pub fn poisson(rate: f64, span: Duration, seed: u64) -> impl Iterator<Item = Duration> {
    let extent = Extent::Duration { ns: span.as_nanos() as u64 };
    let schedule = Schedule::new(Profile::Steady(rate), &Arrivals::Poisson, seed);
    schedule.with_extent(0, extent).map(|slot| Duration::from_nanos(slot.at_ns))
}

/// Sends requests, which must be in the order in which they are due. `send` returns true once it has
/// a complete and good response. Requests that are outstanding in the end are aborted.
///
/// `sleep_until` determines how late the sender is: tokio's timers by up to a millisecond,
/// `curtail_runtime::Timers::precise` by about 100 µs.
///
/// # Panics
/// Panics if `send` panics.
pub async fn run<C, T, F>(
    requests: impl IntoIterator<Item = Request<C, T>>,
    bounds: Bounds,
    sleep_until: impl AsyncFn(Instant),
    send: impl Fn(T) -> F,
) -> Sent<C>
where
    C: Ord + Clone + Send + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut sent = Sent { classes: BTreeMap::new(), lateness: latencies() };
    let start = Instant::now();
    for Request { due, class, what } in requests {
        sleep_until(start + due).await;
        let late = start.elapsed().saturating_sub(due);
        sent.lateness.record(late.as_nanos() as u64).expect("it resizes itself");
        while let Some(ended) = tasks.try_join_next() {
            sent.ended(ended);
        }
        let of = sent.classes.entry(class.clone()).or_default();
        of.offered += 1;
        if tasks.len() >= bounds.outstanding {
            of.left_out += 1;
            continue;
        }
        let response = send(what);
        tasks.spawn(async move {
            let is_good = response.await;
            (class, is_good.then(|| start.elapsed().saturating_sub(due)))
        });
    }
    while let Some(ended) = tasks.try_join_next() {
        sent.ended(ended);
    }
    sent.classes.values_mut().for_each(|of| of.behind = of.offered - of.answered());
    let rest = async {
        while let Some(ended) = tasks.join_next().await {
            sent.ended(ended);
        }
    };
    // If the time is over, the others count as errors.
    let _ = timeout(bounds.rest, rest).await;
    tasks.shutdown().await;
    sent
}

impl<C: Ord> Sent<C> {
    fn ended(&mut self, ended: Result<(C, Option<Duration>), JoinError>) {
        let (class, latency) = ended.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        if let (Some(of), Some(latency)) = (self.classes.get_mut(&class), latency) {
            of.latencies.record(latency.as_nanos() as u64).expect("it resizes itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{sleep, sleep_until};

    fn every_10_ms(count: u64) -> impl Iterator<Item = Request<&'static str, u64>> {
        let class = |at| if at % 2 == 0 { "even" } else { "odd" };
        (0..count).map(move |at| Request {
            due: Duration::from_millis(10 * at),
            class: class(at),
            what: at,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_sent_when_due_and_counted_by_class() {
        let bounds = Bounds { outstanding: 8, rest: Duration::from_secs(1) };
        // The first response arrives after the last request was due, and the third one never.
        let sent = run(every_10_ms(6), bounds, sleep_until, |at| async move {
            let ms = [200, 5, 5_000, 5, 5, 5][at as usize];
            sleep(Duration::from_millis(ms)).await;
            at != 3
        });
        let sent = sent.await;
        let [even, odd] = ["even", "odd"].map(|class| &sent.classes[class]);
        assert_eq!((even.offered, even.answered(), even.errors(), even.behind), (3, 2, 1, 2));
        assert_eq!((odd.offered, odd.answered(), odd.errors(), odd.behind), (3, 2, 1, 2));
        assert!(odd.latencies.max().abs_diff(5_000_000) < 1_100_000, "{}", odd.latencies.max());
        assert!(even.latencies.max().abs_diff(200_000_000) < 1_100_000);
        assert!(sent.lateness.max() < 1_100_000, "as late as tokio's timers");
        let mut all = even.clone();
        all.add(odd);
        assert_eq!((all.offered, all.errors()), (6, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_bound_are_left_out() {
        let bounds = Bounds { outstanding: 2, rest: Duration::ZERO };
        let sent = run(every_10_ms(6), bounds, sleep_until, async |_| {
            sleep(Duration::from_millis(35)).await;
            true
        });
        let sent = sent.await;
        let of = |count: fn(&Class) -> u64| sent.classes.values().map(count).sum::<u64>();
        // The first two end before the fifth and the sixth are due, which have no time to end.
        assert_eq!((of(|of| of.left_out), of(Class::answered), of(Class::errors)), (2, 2, 2));
    }

    #[test]
    fn arrivals_have_their_rate() {
        let all: Vec<Duration> = poisson(100.0, Duration::from_secs(100), 1).collect();
        assert!((all.len() as f64 - 10_000.0).abs() < 400.0 && all.is_sorted(), "{}", all.len());
        assert_eq!(poisson(0.0, Duration::from_secs(1), 1).count(), 0);
    }
}
