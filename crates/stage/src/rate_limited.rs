//! Limits a warning to one per second, so that frequent events do not flood the log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(1);

/// A warning, and the time when it was last logged.
#[derive(Debug, Default)]
pub(crate) struct RateLimited(Mutex<Option<Instant>>);

impl RateLimited {
    /// Calls `warn`, unless it was called less than a second ago.
    pub(crate) fn warn(&self, warn: impl FnOnce()) {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            *last = Some(now);
            warn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_given_once_a_second() {
        let (warning, mut given) = (RateLimited::default(), 0);
        for _ in 0..25 {
            warning.warn(|| given += 1);
            tokio::time::advance(PAUSE / 10).await;
        }
        assert_eq!(given, 3);
    }
}
