//! The time of a file and the time of the machine: the one runs `--time-scale` times slower than the other.
//!
//! Cost: none.

use std::time::Duration;

use tokio::time::Instant;

/// Since when the file's time runs, and how fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    scale: f64,
}

impl Clock {
    pub(super) fn new(start: Instant, scale: f64) -> Self {
        Self { start, scale }
    }

    /// How long a time of the file takes.
    pub(super) fn length(&self, file_ns: u64) -> Duration {
        Duration::from_nanos((file_ns as f64 * self.scale) as u64)
    }

    pub(super) fn at(&self, file_ns: u64) -> Instant {
        self.start + self.length(file_ns)
    }

    /// The file's time, in ns.
    pub(super) fn now(&self) -> u64 {
        self.file_ns(self.start.elapsed())
    }

    /// A time of the machine in the file's, in ns.
    pub(super) fn file_ns(&self, length: Duration) -> u64 {
        (length.as_nanos() as f64 / self.scale) as u64
    }
}
