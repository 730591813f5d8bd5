//! Collects what became of the measured requests.

use std::fmt;

use curtail_http1::client::ClientError;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::plan::TIMEOUT_NS_MAX;
use crate::worker::{Failure, Outcome};

/// Requests without a good answer, by kind, as counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// No connection could be opened.
    pub connect: u64,
    /// No whole answer in time, opening a connection and waiting for one included.
    pub timeout: u64,
    /// The server closed or reset the connection before the end of its answer.
    pub reset: u64,
    /// What the server sent is not an answer of HTTP/1.1.
    pub malformed: u64,
    /// A whole answer with a status of 500 to 599.
    pub status_5xx: u64,
    /// A whole answer with any other status but 200 to 299.
    pub status_other: u64,
    /// Never sent: all connections were busy and the backlog was full.
    pub dropped: u64,
}

impl Errors {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Errors { connect, timeout, reset, malformed, status_5xx, status_other, dropped } =
            *self;
        connect + timeout + reset + malformed + status_5xx + status_other + dropped
    }

    /// What there is, most telling first: `3 with a bad status (5xx)`.
    fn parts(&self) -> impl Iterator<Item = String> {
        let named = [
            (self.status_5xx, "with a bad status (5xx)"),
            (self.status_other, "with a bad status (3xx or 4xx)"),
            (self.timeout, "without an answer in time"),
            (self.connect, "without a connection"),
            (self.reset, "cut off by the server"),
            (self.malformed, "answered by what is not HTTP/1.1"),
            (self.dropped, "never sent"),
        ];
        named.into_iter().filter(|(count, _)| *count > 0).map(|(n, what)| format!("{n} {what}"))
    }

    fn count(&mut self, failure: &Failure) {
        *match failure {
            Failure::Connect(_) => &mut self.connect,
            Failure::Timeout => &mut self.timeout,
            Failure::Client(ClientError::Garbage(_) | ClientError::TooLarge { .. }) => {
                &mut self.malformed
            }
            Failure::Client(_) => &mut self.reset,
        } += 1;
    }
}

/// By kind, those that there are: `3 with a bad status (5xx), 1 never sent`.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().collect::<Vec<_>>().join(", "))
    }
}

/// Three significant digits, 1 µs to a bit over the longest time-out. What is above counts as the
/// most there is.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, TIMEOUT_NS_MAX + 1_000_000_000, 3)
        .expect("the bounds and digits are constants in range")
}

/// What is known so far. Values are in nanoseconds unless said otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Good answers: from the intended time.
    pub(crate) latency: Histogram<u64>,
    /// Good answers: from when they were taken up.
    pub(crate) uncorrected: Histogram<u64>,
    /// All requests but dropped ones.
    pub(crate) lag: Histogram<u64>,
    /// When good answers ended, those of the warm-up included, in microseconds from the start of
    /// the schedule. Four digits, for it serves to count what fell into a window.
    pub(crate) ends_us: Histogram<u64>,
    pub(crate) errors: Errors,
    /// Measured requests that came to an end, or were dropped.
    pub(crate) requests: u64,
    pub(crate) first_error: Option<String>,
}

impl Record {
    pub(crate) fn new() -> Record {
        let mut ends_us = Histogram::new(4).expect("four digits are in range");
        ends_us.auto(true);
        Record {
            latency: histogram(),
            uncorrected: histogram(),
            lag: histogram(),
            ends_us,
            errors: Errors::default(),
            requests: 0,
            first_error: None,
        }
    }

    /// Takes note of an outcome. True if it is a good answer.
    pub(crate) fn add(&mut self, outcome: &Outcome) -> bool {
        let status = outcome.result.as_ref().map(|whole| whole.head.status());
        let good = matches!(status, Ok(200..=299));
        if good {
            let end_ns = outcome.slot.at_ns.saturating_add(outcome.latency_ns());
            // Fails only where the range would have to grow beyond what memory addresses.
            let _ = self.ends_us.record(end_ns / 1_000);
        }
        if outcome.slot.warmup {
            return good;
        }
        self.requests += 1;
        self.lag.saturating_record(outcome.lag_ns);
        match status {
            Ok(200..=299) => {
                self.latency.saturating_record(outcome.latency_ns());
                self.uncorrected.saturating_record(outcome.uncorrected_ns);
            }
            Ok(500..) => self.errors.status_5xx += 1,
            Ok(_) => self.errors.status_other += 1,
            Err(failure) => self.errors.count(failure),
        }
        if !good && self.first_error.is_none() {
            self.first_error = Some(match status {
                Ok(status) => format!("status {status}"),
                Err(failure) => failure.to_string(),
            });
        }
        good
    }

    /// Takes note of measured requests that were never sent.
    pub(crate) fn add_dropped(&mut self, count: u64) {
        self.errors.dropped += count;
        self.requests += count;
    }
}
