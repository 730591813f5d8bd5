//! Warnings that come at most once a second, so that a log survives what it reports.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(1);

/// A warning, and when it was last given.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Gives it, unless it was given a moment ago.
    pub(crate) fn give(&self, warn: impl FnOnce()) {
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
        let (warning, mut given) = (Seldom::default(), 0);
        for _ in 0..25 {
            warning.give(|| given += 1);
            tokio::time::advance(PAUSE / 10).await;
        }
        assert_eq!(given, 3);
    }
}
