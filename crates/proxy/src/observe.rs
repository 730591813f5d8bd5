//! What a cell reports, as metrics. How requests end is not its business: see `serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use curtail_kernel::{Core, GroupId, ServerId, StartReason, StopReason};
use curtail_runtime::{CopyEnd, CopyInfo, EjectionCause, Observer};

use crate::config::Cell;
use crate::metrics::{CopyOutcome, EjectionReason, Kind as _, Metrics, ReplicaMetrics};
use crate::state::Proxy;

/// Watches one cell of a service.
pub(crate) struct Watcher {
    metrics: Arc<Metrics>,
    service: usize,
    /// Shard of each group, server of each id, as the configuration counts them.
    shards: Vec<usize>,
    servers: Vec<usize>,
    /// For the log.
    name: String,
    addresses: Vec<SocketAddr>,
}

impl Watcher {
    pub(crate) fn new(metrics: &Arc<Metrics>, service: usize, name: &str, cell: &Cell) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            service,
            shards: cell.shards.clone(),
            servers: cell.servers.clone(),
            name: name.into(),
            addresses: cell.addresses.clone(),
        }
    }

    fn replica(&self, copy: CopyInfo) -> &ReplicaMetrics {
        let shard = self.shards[copy.group.index()];
        self.metrics.replica(self.service, shard, self.servers[copy.server.index()])
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
            CopyEnd::Stopped(_) => CopyOutcome::Stopped,
            CopyEnd::Lost => CopyOutcome::Lost,
        });
        replica.copy_duration.record_ns(ran_ns);
        if let Some(rescue) = &self.metrics.service(self.service).rescue {
            rescue.ended(copy.why, end, won);
        }
        if won {
            replica.copies_won.inc(copy.role);
        } else {
            replica.wasted.add_ns(ran_ns);
        }
    }

    fn query_started(&self, group: GroupId, queued_ns: u64) {
        let shard = self.metrics.shard(self.service, self.shards[group.index()]);
        shard.queue_duration.record_ns(queued_ns);
    }

    fn ejected(&self, server: ServerId, why: EjectionCause) {
        let reason = EjectionReason::from(why);
        self.metrics.server(self.service, self.servers[server.index()]).ejections.inc(reason);
        let (service, server, reason) =
            (&*self.name, self.addresses[server.index()], reason.text());
        match why {
            EjectionCause::Ejected(_) => tracing::warn!(service, %server, reason, "server ejected"),
            EjectionCause::Probes(last) => {
                tracing::warn!(service, %server, reason, probe = %last, "server ejected");
            }
        }
    }

    fn restored(&self, server: ServerId) {
        let (service, server) = (&*self.name, self.addresses[server.index()]);
        tracing::info!(service, %server, "server restored");
    }
}

impl Proxy {
    /// Brings the gauges up to date: before they are read, rather than on every event.
    pub(crate) fn sample(&self) {
        for (at, service) in self.services.iter().enumerate() {
            if let (Some(rescue), Some(learning)) = (&service.metrics.rescue, &service.learning) {
                learning.look(|learner| rescue.learned(learner));
                let suspects = service.cells.iter().map(|(cell, _)| i64::from(cell.suspects()));
                rescue.suspects.set(suspects.sum());
            }
            // The cells count them; several readers may store the same.
            let refused = service.cells.iter().map(|(cell, _)| cell.look(Core::hedges_refused));
            let hedges_refused = service.metrics.hedges_refused.inner();
            hedges_refused.store(refused.sum(), Ordering::Relaxed);
            for (cell, layout) in &service.cells {
                cell.look(|core| {
                    for (group, &shard) in layout.shards.iter().enumerate() {
                        let waiting = core.waiting(GroupId(group as u32));
                        self.metrics.shard(at, shard).queue_length.set(i64::from(waiting));
                    }
                    for (id, &server) in layout.servers.iter().enumerate() {
                        let view = core.server(ServerId(id as u32));
                        let metrics = self.metrics.server(at, server);
                        metrics.up.set(i64::from(view.up));
                        metrics.busy.set(i64::from(view.outstanding));
                        metrics.slots.set(i64::from(view.limit));
                    }
                });
            }
        }
    }
}
