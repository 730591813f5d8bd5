//! Counts with the crate `metrics`, under the names of the proxy's metrics.

use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::StopReason;
use curtail_runtime::{CopyEnd, EjectionCause};
use metrics::{counter, histogram};

use super::{Copy, Observer};

/// Records with the global recorder of the crate `metrics`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Metrics;

impl Metrics {
    /// Returns an observer.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Observer for Metrics {
    fn copy_started(&self, copy: Copy<'_>) {
        let (shard, server) = (copy.shard.to_owned(), copy.server.to_owned());
        let reason = copy.why.name();
        counter!("curtail_copies_started_total", "shard" => shard, "server" => server, "reason" => reason)
            .increment(1);
    }

    fn copy_cancelled(&self, copy: Copy<'_>, why: StopReason) {
        let (shard, server) = (copy.shard.to_owned(), copy.server.to_owned());
        let reason = why.name();
        counter!("curtail_cancellations_total", "shard" => shard, "server" => server, "reason" => reason)
            .increment(1);
    }

    fn copy_ended(&self, copy: Copy<'_>, end: CopyEnd, won: bool, ran: Duration) {
        let label = || (copy.shard.to_owned(), copy.server.to_owned());
        let ((shard, server), outcome) = (label(), end.name());
        counter!("curtail_copies_ended_total", "shard" => shard, "server" => server, "outcome" => outcome)
            .increment(1);
        let (shard, server) = label();
        histogram!("curtail_copy_duration_seconds", "shard" => shard, "server" => server)
            .record(ran.as_secs_f64());
        if won {
            let ((shard, server), role) = (label(), copy.role.name());
            counter!("curtail_copies_won_total", "shard" => shard, "server" => server, "role" => role)
                .increment(1);
        }
    }

    fn query_started(&self, shard: &str, queued: Duration) {
        histogram!("curtail_queue_duration_seconds", "shard" => shard.to_owned())
            .record(queued.as_secs_f64());
    }

    fn ejected(&self, shards: &[Arc<str>], server: &str, _: EjectionCause) {
        let (shard, server) = (shards.join(","), server.to_owned());
        counter!("curtail_ejections_total", "shard" => shard, "server" => server).increment(1);
    }
}
