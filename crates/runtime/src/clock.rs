//! The kernel's time from tokio's clock, so that tests which pause it pause the kernel too.

use curtail_kernel::Timestamp;
use tokio::time::Instant;

/// Counts nanoseconds from its creation. 584 years of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.epoch.elapsed().as_nanos() as u64)
    }

    /// When a timestamp is; none when it never is.
    pub(crate) fn instant(&self, at: Timestamp) -> Option<Instant> {
        if at == Timestamp::NEVER {
            return None;
        }
        self.epoch.checked_add(std::time::Duration::from_nanos(at.0))
    }

    /// The timestamp of an instant; one before the epoch is the epoch.
    pub(crate) fn timestamp(&self, at: Instant) -> Timestamp {
        Timestamp(at.saturating_duration_since(self.epoch).as_nanos() as u64)
    }
}
