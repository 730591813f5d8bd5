//! Converts a cell's events into metrics and log lines. `serve` counts how requests end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curtail_http::h1::BadResponse;
use curtail_kernel::{GroupId, Outcome, ServerId, StartReason, StopReason};
use curtail_net::Address;
use curtail_runtime::{Cause, CopyEnd, CopyInfo, EjectionCause, Failure, Observer, ProbeFailure};

use crate::config::CellConfig;
use crate::log_limit::LogLimit;
use crate::metrics::{
    CopyOutcome, EjectionReason, Kind as _, ProbeOutcome, ReplicaMetrics, ServiceMetrics,
};

/// Returns the configuration key of the limit that a response exceeded.
fn key_of(why: Failure) -> Option<&'static str> {
    match why {
        Failure::BadResponse(BadResponse::HeadTooLarge(_)) => Some("max_response_header_bytes"),
        Failure::BadResponse(BadResponse::TooManyHeaders(_)) => Some("max_response_headers"),
        _ => None,
    }
}

fn lines() -> Vec<LogLimit> {
    Cause::ALL.iter().map(|_| LogLimit::new()).collect()
}

/// Observes one cell of a service.
pub(crate) struct Watcher {
    metrics: Arc<ServiceMetrics>,
    /// The shard of each group and the server of each id, as indices into the configuration.
    shards: Vec<usize>,
    servers: Vec<usize>,
    /// The names of the service and of its servers, for the log.
    name: String,
    addresses: Vec<Address>,
    /// For each server and cause: the rate limit for log lines about the server's failures.
    lines: Vec<Vec<LogLimit>>,
    /// For each server: whether a load probe without a report has been logged.
    warned: Vec<AtomicBool>,
}

impl Watcher {
    pub(crate) fn new(metrics: &Arc<ServiceMetrics>, name: &str, cell: &CellConfig) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            shards: cell.shards.clone(),
            servers: cell.servers.clone(),
            name: name.into(),
            addresses: cell.addresses.clone(),
            lines: cell.addresses.iter().map(|_| lines()).collect(),
            warned: cell.addresses.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Returns the server's address and the number of suppressed lines if a line about this server
    /// and cause may be logged now.
    fn allow(&self, server: ServerId, cause: Cause) -> Option<(&Address, u64)> {
        let left_out = self.lines[server.index()][cause.index()].allow()?;
        Some((&self.addresses[server.index()], left_out))
    }

    fn replica(&self, copy: CopyInfo) -> &ReplicaMetrics {
        let shard = self.shards[copy.group.index()];
        self.metrics.replica(shard, self.servers[copy.server.index()])
    }
}

impl Observer for Watcher {
    fn copy_started(&self, copy: CopyInfo, why: StartReason) {
        self.replica(copy).copies_started.inc(why);
    }

    fn copy_cancelled(&self, copy: CopyInfo, why: StopReason) {
        self.replica(copy).cancellations.inc(why);
    }

    fn copy_ended(&self, copy: CopyInfo, end: CopyEnd, won: bool, ran_ns: u64) {
        let replica = self.replica(copy);
        replica.copies_ended.inc(match end {
            CopyEnd::Finished(outcome) => outcome.into(),
            CopyEnd::Failed(why) => why.outcome().into(),
            CopyEnd::Stopped(_) => CopyOutcome::Stopped,
            CopyEnd::Lost => CopyOutcome::Lost,
        });
        if let CopyEnd::Finished(Outcome::Refused | Outcome::Failed(_)) = end {
            replica.copy_failures.inc(Cause::BadStatus);
            if let Some((replica, left_out)) = self.allow(copy.server, Cause::BadStatus) {
                let (service, cause) = (&*self.name, Cause::BadStatus);
                tracing::warn!(service, %replica, %cause, left_out, "no good response from a replica");
            }
        }
        replica.copy_duration.record_ns(ran_ns);
        if let Some(rescue) = &self.metrics.rescue {
            rescue.ended(copy.why, end, won);
        }
        if won {
            replica.copies_won.inc(copy.role);
        } else {
            replica.wasted.add_ns(ran_ns);
        }
    }

    fn copy_failed(&self, copy: CopyInfo, why: Failure) {
        self.replica(copy).copy_failures.inc(why.cause());
        // If the proxy gave up on a copy, the replica did not fail.
        if why != Failure::GivenUp
            && let Some((replica, left_out)) = self.allow(copy.server, why.cause())
        {
            let service = &*self.name;
            let raise = key_of(why);
            tracing::warn!(service, %replica, cause = %why, raise, left_out, "no whole response from a replica");
        }
    }

    fn probe_failed(&self, server: ServerId, why: ProbeFailure) {
        self.metrics.servers[self.servers[server.index()]].probe_failures.inc(why.cause());
        if let Some((replica, left_out)) = self.allow(server, why.cause()) {
            let service = &*self.name;
            tracing::warn!(service, %replica, cause = %why, left_out, "probe failed");
        }
    }

    fn query_started(&self, group: GroupId, queued_ns: u64) {
        let shard = &self.metrics.shards[self.shards[group.index()]];
        shard.queue_duration.record_ns(queued_ns);
    }

    fn ejected(&self, server: ServerId, why: EjectionCause) {
        let reason = EjectionReason::from(why);
        self.metrics.servers[self.servers[server.index()]].ejections.inc(reason);
        let (service, server, reason) =
            (&*self.name, &self.addresses[server.index()], reason.text());
        let probe = match why {
            EjectionCause::Ejected(_) => None,
            EjectionCause::Probes(last) => Some(tracing::field::display(last)),
        };
        tracing::warn!(service, %server, reason, probe, "server ejected");
    }

    fn load_probed(&self, server: ServerId, answered: bool) {
        let outcome = if answered { ProbeOutcome::Answered } else { ProbeOutcome::Unanswered };
        if let Some(probes) = &self.metrics.servers[self.servers[server.index()]].load_probes {
            probes.inc(outcome);
        }
        // Warns once per server. Thousands of probes per second may fail, and the metrics count
        // them all.
        if !answered && !self.warned[server.index()].swap(true, Ordering::Relaxed) {
            let (service, server) = (&*self.name, &self.addresses[server.index()]);
            tracing::warn!(service, %server, "the response to a probe has no load report");
        }
    }

    fn restored(&self, server: ServerId) {
        let (service, server) = (&*self.name, &self.addresses[server.index()]);
        tracing::info!(service, %server, "server restored");
    }
}
