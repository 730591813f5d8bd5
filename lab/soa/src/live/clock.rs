//! The time in a graph file and the time of the machine. The file's time runs slower by the factor
//! `--time-scale`.
//!
//! Cost: none.

use std::time::Duration;

use tokio::time::Instant;

/// The start of the file's time, and its scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    scale: f64,
}

impl Clock {
    pub(super) fn new(start: Instant, scale: f64) -> Self {
        Self { start, scale }
    }

    /// Converts a duration of the file's time to the machine's time.
    pub(super) fn length(&self, file_ns: u64) -> Duration {
        Duration::from_nanos((file_ns as f64 * self.scale) as u64)
    }

    pub(super) fn at(&self, file_ns: u64) -> Instant {
        self.start + self.length(file_ns)
    }

    /// Returns the file's time, in ns.
    pub(super) fn now(&self) -> u64 {
        self.file_ns(self.start.elapsed())
    }

    /// Converts a duration of the machine's time to the file's time, in ns.
    pub(super) fn file_ns(&self, length: Duration) -> u64 {
        (length.as_nanos() as f64 / self.scale) as u64
    }
}
