//! Warnings that come at most once a second, so that a log survives what it reports.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(1);

/// When a warning was last given.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Is it time for the next one?
    pub(crate) fn now(&self) -> bool {
        let (mut last, now) =
            (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        let is_due = last.is_none_or(|last| now.duration_since(last) >= PAUSE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
