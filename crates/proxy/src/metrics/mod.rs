//! What the proxy counts, in the text exposition of OpenMetrics, which Prometheus reads.
//!
//! [`Metrics::new`] makes every series of a configuration, so all of them are there from the start,
//! at zero, and the data path only adds to atomics. The handles are cheap to clone and to keep. A server that is a replica of
//! several shards has one [`ServerMetrics`], and one [`ReplicaMetrics`] in each of those shards.
//!
//! | metric | labels |
//! |---|---|
//! | `curtail_requests_total` | service, outcome |
//! | `curtail_responses_total` | service, code (`2xx` …) |
//! | `curtail_request_duration_seconds` | service |
//! | `curtail_queue_length` | service, shard |
//! | `curtail_queue_duration_seconds` | service, shard |
//! | `curtail_copies_started_total` | service, shard, server, reason |
//! | `curtail_copies_won_total` | service, shard, server, role |
//! | `curtail_copies_ended_total` | service, shard, server, outcome |
//! | `curtail_copy_duration_seconds` | service, shard, server |
//! | `curtail_wasted_seconds_total` | service, shard, server |
//! | `curtail_cancellations_total` | service, shard, server, reason |
//! | `curtail_rescue_threshold_seconds`, `curtail_rescue_suspects`, `curtail_rescue_fallbacks_total` | service |
//! | `curtail_rescues_total`, `curtail_explorations_total` | service, outcome |
//! | `curtail_rescue_state` | service, state |
//! | `curtail_server_up`, `curtail_server_busy`, `curtail_server_slots` | service, server |
//! | `curtail_ejections_total` | service, server, reason |
//! | `curtail_connections`, `curtail_connections_accepted_total` | |
//! | `curtail_rejected_total` | reason |

mod build;
mod kinds;
mod series;

use std::sync::atomic::Ordering;

use curtail_kernel::hedge::Learner;
use curtail_kernel::{NEVER_NS, Role, StartReason, StopReason};
use curtail_runtime::CopyEnd;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

pub use kinds::{
    CopyOutcome, EjectionReason, ExplorationOutcome, Kind, Rejection, RequestOutcome,
    RescueOutcome, RescueState, StatusClass,
};
pub use series::{Age, Counters, Durations, Seconds, State};

/// The `Content-Type` of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is counted. Indices are those of the configuration that it was made from.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    clients: ClientMetrics,
    services: Vec<ServiceParts>,
}

#[derive(Debug)]
struct ServiceParts {
    service: ServiceMetrics,
    shards: Vec<ShardParts>,
    servers: Vec<ServerMetrics>,
}

#[derive(Debug)]
struct ShardParts {
    shard: ShardMetrics,
    /// By server index; `None` where the server is no replica of this shard.
    replicas: Vec<Option<ReplicaMetrics>>,
}

/// What is counted about client connections.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    /// Open now.
    pub connections: Gauge,
    /// Accepted so far.
    pub accepted: Counter,
    /// Turned away, as a connection or a request.
    pub rejected: Counters<Rejection>,
}

/// What is counted about a service.
#[derive(Clone, Debug)]
pub struct ServiceMetrics {
    /// Requests that were handed to the service and ended, however they did.
    pub requests: Counters<RequestOutcome>,
    /// Whole responses to such requests, those that the proxy made itself included: see
    /// [`StatusClass::of`]. What was turned away before is in [`ClientMetrics::rejected`] alone.
    pub responses: Counters<StatusClass>,
    /// From the end of a request to the end of its response, however it ended.
    pub request_duration: Durations,
    /// Queries that the policy would have duplicated, had the hedge budget allowed it.
    pub hedges_refused: Counter,
    /// With the policy rescue.
    pub rescue: Option<RescueMetrics>,
}

impl ServiceMetrics {
    /// A request is handed to the service.
    #[must_use]
    pub fn started(&self, now: Instant) -> RunningRequest<'_> {
        RunningRequest { metrics: self, started: now, outcome: RequestOutcome::Abandoned }
    }

    /// Counts a whole response to a client by the class of its status.
    pub fn responded(&self, status: u16) {
        self.responses.inc(StatusClass::of(status));
    }
}

/// A request on its way. Whatever becomes of it, it is counted once: dropped without a word on how it
/// ended, it was abandoned.
#[derive(Debug)]
pub struct RunningRequest<'m> {
    metrics: &'m ServiceMetrics,
    started: Instant,
    outcome: RequestOutcome,
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

/// What is counted about a service that rescues.
#[derive(Clone, Debug)]
pub struct RescueMetrics {
    /// The age T from which on a query is taken for stuck.
    pub threshold: Age,
    /// Queries that are, and wait for a second copy.
    pub suspects: Gauge,
    /// Second copies of such queries that have ended.
    pub rescues: Counters<RescueOutcome>,
    /// Second copies that were tried in order to learn, and have ended.
    pub explorations: Counters<ExplorationOutcome>,
    /// How often rescues were found not to pay any more.
    pub fallbacks: Counter,
    /// Is it known that rescues pay?
    pub state: State<RescueState>,
}

impl RescueMetrics {
    /// Counts a copy that has ended, if it was a rescue or an exploration.
    pub fn ended(&self, why: StartReason, end: CopyEnd, won: bool) {
        match why {
            StartReason::Rescue => self.rescues.inc(RescueOutcome::of(end, won)),
            StartReason::Explore => self.explorations.inc(ExplorationOutcome::of(end, won)),
            _ => {}
        }
    }

    /// Takes over where the learner of the service stands.
    pub fn learned(&self, learner: &Learner) {
        let suspect_ns = learner.snapshot().suspect_ns;
        self.threshold.set_ns(suspect_ns);
        let exploring = suspect_ns == NEVER_NS;
        self.state.set(if exploring { RescueState::Exploring } else { RescueState::Rescuing });
        // The learner counts them; several readers may store the same.
        self.fallbacks.inner().store(learner.status().fallbacks, Ordering::Relaxed);
    }
}

/// A client connection that is open.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What is counted about a shard.
#[derive(Clone, Debug)]
pub struct ShardMetrics {
    /// Queries that wait now.
    pub queue_length: Gauge,
    /// From arrival to the start of the first copy.
    pub queue_duration: Durations,
}

/// What is counted about the copies that a server runs for a shard.
#[derive(Clone, Debug)]
pub struct ReplicaMetrics {
    /// Copies that started.
    pub copies_started: Counters<StartReason>,
    /// Copies whose response the client got.
    pub copies_won: Counters<Role>,
    /// Copies that ended.
    pub copies_ended: Counters<CopyOutcome>,
    /// Copies that were cancelled.
    pub cancellations: Counters<StopReason>,
    /// From start to end of a copy.
    pub copy_duration: Durations,
    /// The run time of copies that did not win.
    pub wasted: Seconds,
}

/// What is counted about a server, whatever shard it works for.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    /// 1 if it may get queries, else 0.
    pub up: Gauge,
    /// Copies that it holds now.
    pub busy: Gauge,
    /// Copies that it may hold: the policy's gate.
    pub slots: Gauge,
    /// How often it was taken down.
    pub ejections: Counters<EjectionReason>,
}

impl Metrics {
    /// What is counted about client connections.
    #[must_use]
    pub fn clients(&self) -> &ClientMetrics {
        &self.clients
    }

    /// Counts a client connection as open until the guard is dropped.
    #[must_use]
    pub fn client_connected(&self) -> OpenConnection {
        self.clients.accepted.inc();
        self.clients.connections.inc();
        OpenConnection(self.clients.connections.clone())
    }

    /// Counts a connection or request that is turned away.
    pub fn rejected(&self, why: impl Into<Rejection>) {
        self.clients.rejected.inc(why.into());
    }

    /// What is counted about a service.
    ///
    /// # Panics
    /// If the configuration has no such service.
    #[must_use]
    pub fn service(&self, service: usize) -> &ServiceMetrics {
        &self.services[service].service
    }

    /// What is counted about a shard of a service.
    ///
    /// # Panics
    /// If the configuration has no such service or shard.
    #[must_use]
    pub fn shard(&self, service: usize, shard: usize) -> &ShardMetrics {
        &self.services[service].shards[shard].shard
    }

    /// What is counted about a server of a service, by its place in
    /// [`Service::servers`](crate::config::Service::servers).
    ///
    /// # Panics
    /// If the configuration has no such service or server.
    #[must_use]
    pub fn server(&self, service: usize, server: usize) -> &ServerMetrics {
        &self.services[service].servers[server]
    }

    /// What is counted about the copies that a server runs for a shard. `server` is the place in
    /// [`Service::servers`](crate::config::Service::servers), not among the shard's replicas.
    ///
    /// # Panics
    /// If the configuration has no such service or shard, or the server is no replica of the shard.
    #[must_use]
    pub fn replica(&self, service: usize, shard: usize, server: usize) -> &ReplicaMetrics {
        let replica = &self.services[service].shards[shard].replicas[server];
        replica.as_ref().expect("a copy runs on a replica of its shard")
    }

    /// Everything in the text exposition of OpenMetrics, see [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a string does not fail");
        text
    }
}

#[cfg(test)]
mod tests;
