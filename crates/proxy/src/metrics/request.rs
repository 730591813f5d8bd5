//! Requests while they run.

use tokio::time::Instant;

use super::{RequestOutcome, ServiceMetrics};

/// A request on its way. Whatever becomes of it, it is counted once: dropped without a word on how it
/// ended, it was abandoned.
#[derive(Debug)]
pub struct RunningRequest<'m> {
    metrics: &'m ServiceMetrics,
    started: Instant,
    outcome: RequestOutcome,
}

impl ServiceMetrics {
    /// A request is handed to the service.
    #[must_use]
    pub fn started(&self, now: Instant) -> RunningRequest<'_> {
        RunningRequest { metrics: self, started: now, outcome: RequestOutcome::Abandoned }
    }
}

impl RunningRequest<'_> {
    /// It has ended now.
    pub fn ended(mut self, outcome: RequestOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        let took = self.started.elapsed().as_nanos();
        self.metrics.requests.inc(self.outcome);
        self.metrics.request_duration.record_ns(u64::try_from(took).unwrap_or(u64::MAX));
    }
}
