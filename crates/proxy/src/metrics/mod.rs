//! The metrics of the proxy, in the OpenMetrics text format, which Prometheus reads.
//!
//! [`Metrics::new`] creates all series of a configuration with the value zero. All series exist
//! from the start, and the data path only updates atomic variables. `docs/proxy.md` lists the
//! metrics and their labels. A server that is a replica of several shards has one
//! [`ServerMetrics`], and one [`ReplicaMetrics`] in each of those shards.

mod kinds;
mod series;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use curtail_kernel::hedge::rescue::Status;
use curtail_kernel::hedge::{AnyLearner, DelayLearner, Learner as _, RescueLearner};
use curtail_kernel::{NEVER_NS, Role, StartReason, StopReason};
use curtail_runtime::{Cause, CopyEnd};
use prometheus_client::collector::Collector;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::time::Instant;

use crate::config::{Config, Service};
use crate::log_limit::LogLimit;
pub(crate) use kinds::{
    CopyOutcome, EjectionReason, ExplorationOutcome, Kind, ProbeOutcome, Rejection, RequestOutcome,
    RescueOutcome, RescueState, StatusClass,
};
use series::{Age, ByKind, Durations, Families, Labels, Level, Seconds};

/// The `Content-Type` of [`Metrics::render`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics. Indices are those of the configuration.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    clients: ClientMetrics,
    pub(crate) buffered: Gauge,
    pub(crate) services: Vec<Arc<ServiceMetrics>>,
}

#[derive(Debug)]
struct ClientMetrics {
    connections: Gauge,
    accepted: Counter,
    rejected: ByKind<Rejection, Counter>,
    /// One per [`Rejection`].
    rejected_lines: Vec<LogLimit>,
}

#[derive(Debug)]
pub(crate) struct ServiceMetrics {
    pub(crate) requests: ByKind<RequestOutcome, Counter>,
    /// Responses to requests that reached the service. Requests that were rejected earlier are
    /// counted only as rejected.
    responses: ByKind<StatusClass, Counter>,
    request_duration: Durations,
    pub(crate) tunnels: Gauge,
    pub(crate) hedges_refused: Counter,
    /// The slots of the stage in front of the replica, the requests that wait in it, and whether
    /// duplicates are paused.
    pub(crate) stage: Option<[Gauge; 3]>,
    /// `None` unless the policy learns its delay.
    pub(crate) hedge_delay: Option<Age>,
    /// `None` unless the policy rescues.
    pub(crate) rescue: Option<RescueMetrics>,
    pub(crate) shards: Vec<ShardMetrics>,
    pub(crate) servers: Vec<ServerMetrics>,
}

#[derive(Debug)]
pub(crate) struct RescueMetrics {
    threshold: Age,
    pub(crate) suspects: Gauge,
    rescues: ByKind<RescueOutcome, Counter>,
    explorations: ByKind<ExplorationOutcome, Counter>,
    fallbacks: Counter,
    state: ByKind<RescueState, Gauge>,
}

/// Results of the second copies sent by a service that rescues queries, for the status page.
#[derive(Serialize)]
pub(crate) struct SecondCopies<'m> {
    rescues: &'m ByKind<RescueOutcome, Counter>,
    explorations: &'m ByKind<ExplorationOutcome, Counter>,
}

#[derive(Debug)]
pub(crate) struct ShardMetrics {
    pub(crate) queue_length: Gauge,
    pub(crate) queue_duration: Durations,
    /// By server index. `None` if the server is not a replica of this shard.
    replicas: Vec<Option<ReplicaMetrics>>,
}

#[derive(Debug)]
pub(crate) struct ReplicaMetrics {
    pub(crate) copies_started: ByKind<StartReason, Counter>,
    pub(crate) copies_won: ByKind<Role, Counter>,
    pub(crate) copies_ended: ByKind<CopyOutcome, Counter>,
    pub(crate) cancellations: ByKind<StopReason, Counter>,
    pub(crate) copy_failures: ByKind<Cause, Counter>,
    pub(crate) copy_duration: Durations,
    pub(crate) wasted: Seconds,
}

/// Metrics of a server, across all of its shards.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    pub(crate) up: Gauge,
    pub(crate) busy: Gauge,
    pub(crate) slots: Gauge,
    /// `None` unless the policy limits rates.
    pub(crate) rate: Option<Level>,
    /// `None` unless the policy reads feedback.
    pub(crate) score: Option<Level>,
    /// `None` unless the policy sends load probes.
    pub(crate) load_probes: Option<ByKind<ProbeOutcome, Counter>>,
    pub(crate) probe_failures: ByKind<Cause, Counter>,
    pub(crate) ejections: ByKind<EjectionReason, Counter>,
}

impl Metrics {
    /// Creates all series of a configuration. Their values are zero, except that of
    /// `curtail_server_slots`, which is already known.
    pub(crate) fn new(config: &Config) -> Self {
        let mut families = Families::default();
        let none = Labels::new();
        let clients = ClientMetrics {
            connections: families.add("connections", &none),
            accepted: families.add("connections_accepted", &none),
            rejected: families.each("rejected", &none, "reason"),
            rejected_lines: Rejection::ALL.iter().map(|_| LogLimit::new()).collect(),
        };
        let buffered = families.add("buffered_bytes", &none);
        let service = |service| Arc::new(ServiceMetrics::new(&mut families, service));
        let services = config.services.iter().map(service).collect();
        let mut registry = Registry::with_prefix("curtail");
        registry.register_collector(Box::new(families));
        Self { registry, clients, buffered, services }
    }

    /// Adds metrics whose series are not fixed.
    pub(crate) fn add(&mut self, collector: impl Collector) {
        self.registry.register_collector(Box::new(collector));
    }

    /// Counts a client connection as open until the guard is dropped.
    pub(crate) fn client_connected(&self) -> OpenConnection {
        self.clients.accepted.inc();
        self.clients.connections.inc();
        OpenConnection(self.clients.connections.clone())
    }

    /// Counts a connection or request that is rejected, and logs rejections at a limited rate.
    pub(crate) fn rejected(&self, reason: Rejection, status: u16, why: &dyn fmt::Display) {
        self.clients.rejected.inc(reason);
        if let Some(left_out) = self.clients.rejected_lines[reason.index()].allow() {
            let reason = reason.text();
            tracing::warn!(status, reason, %why, left_out, "request refused");
        }
    }

    /// Returns all metrics in the OpenMetrics text format. See [`CONTENT_TYPE`].
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a string does not fail");
        text
    }
}

impl ServiceMetrics {
    fn new(families: &mut Families, spec: &Service) -> Self {
        let labels = vec![("service", spec.name.clone())];
        let servers: Vec<String> = spec.servers.iter().map(ToString::to_string).collect();
        let shards = spec.shards.iter().map(|shard| {
            let labels = with(&labels, "shard", &shard.name);
            let mut replicas: Vec<_> = servers.iter().map(|_| None).collect();
            for &server in &shard.replicas {
                let labels = with(&labels, "server", &servers[server]);
                replicas[server] = Some(ReplicaMetrics::new(families, &labels));
            }
            ShardMetrics {
                queue_length: families.add("queue_length", &labels),
                queue_duration: families.add("queue_duration", &labels),
                replicas,
            }
        });
        let shards = shards.collect();
        let server = |server: &String| {
            let labels = with(&labels, "server", server);
            let slots: Gauge = families.add("server_slots", &labels);
            slots.set(spec.gate().into());
            ServerMetrics {
                up: families.add("server_up", &labels),
                busy: families.add("server_busy", &labels),
                slots,
                rate: spec.policy.rate().map(|_| families.add("server_rate", &labels)),
                score: spec.policy.needs().feedback.then(|| families.add("server_score", &labels)),
                load_probes: (spec.probe.as_ref())
                    .map(|_| families.each("load_probes", &labels, "outcome")),
                probe_failures: families.each("probe_failures", &labels, "cause"),
                ejections: families.each("ejections", &labels, "reason"),
            }
        };
        let servers = servers.iter().map(server).collect();
        Self {
            requests: families.each("requests", &labels, "outcome"),
            responses: families.each("responses", &labels, "code"),
            request_duration: families.add("request_duration", &labels),
            tunnels: families.add("tunnels", &labels),
            hedges_refused: families.add("hedges_refused", &labels),
            stage: (spec.throttle).map(|_| {
                ["stage_slots", "stage_waiting", "stage_duplicates_rest"]
                    .map(|name| families.add(name, &labels))
            }),
            hedge_delay: spec.policy.learns_delay().then(|| families.add("hedge_delay", &labels)),
            rescue: spec.policy.rescues().map(|_| RescueMetrics::new(families, &labels)),
            shards,
            servers,
        }
    }

    /// Copies the state of the service's learner.
    pub(crate) fn learned(&self, learner: &AnyLearner) {
        if let (Some(delay), Some(learner)) = (&self.hedge_delay, learner.get::<DelayLearner>()) {
            delay.set_ns(learner.snapshot().delay_ns);
        }
        if let (Some(rescue), Some(learner)) = (&self.rescue, learner.get::<RescueLearner>()) {
            rescue.learned(&learner.status());
        }
    }

    /// Starts measuring a request that is handed to the service.
    pub(crate) fn started(&self, now: Instant) -> RunningRequest<'_> {
        RunningRequest { metrics: self, started: now, outcome: RequestOutcome::Abandoned }
    }

    /// Counts a complete response to a client by its status class.
    pub(crate) fn responded(&self, status: u16) {
        self.responses.inc(StatusClass::of(status));
    }

    /// Returns the metrics of the copies that a server runs for a shard.
    pub(crate) fn replica(&self, shard: usize, server: usize) -> &ReplicaMetrics {
        let replica = &self.shards[shard].replicas[server];
        replica.as_ref().expect("a copy runs on a replica of its shard")
    }
}

impl ReplicaMetrics {
    fn new(families: &mut Families, labels: &Labels) -> Self {
        Self {
            copies_started: families.each("copies_started", labels, "reason"),
            copies_won: families.each("copies_won", labels, "role"),
            copies_ended: families.each("copies_ended", labels, "outcome"),
            cancellations: families.each("cancellations", labels, "reason"),
            copy_failures: families.each("copy_failures", labels, "cause"),
            copy_duration: families.add("copy_duration", labels),
            wasted: families.add("wasted", labels),
        }
    }
}

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.into()));
    labels
}

/// A running request. Dropping this value counts the request as abandoned, unless another outcome
/// has already been recorded.
#[derive(Debug)]
pub(crate) struct RunningRequest<'m> {
    metrics: &'m ServiceMetrics,
    started: Instant,
    outcome: RequestOutcome,
}

impl RunningRequest<'_> {
    /// Ends the request, and records its outcome.
    pub(crate) fn ended(mut self, outcome: RequestOutcome) {
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

impl RescueMetrics {
    fn new(families: &mut Families, labels: &Labels) -> Self {
        let metrics = Self {
            threshold: families.add("rescue_threshold", labels),
            suspects: families.add("rescue_suspects", labels),
            rescues: families.each("rescues", labels, "outcome"),
            explorations: families.each("explorations", labels, "outcome"),
            fallbacks: families.add("rescue_fallbacks", labels),
            state: families.each("rescue_state", labels, "state"),
        };
        metrics.state.set(RescueState::Exploring);
        metrics
    }

    pub(crate) fn second_copies(&self) -> SecondCopies<'_> {
        SecondCopies { rescues: &self.rescues, explorations: &self.explorations }
    }

    /// Counts a copy that has ended, if it was a rescue or an exploration.
    pub(crate) fn ended(&self, why: StartReason, end: CopyEnd, won: bool) {
        match why {
            StartReason::Rescue => self.rescues.inc(match end {
                _ if won => RescueOutcome::Won,
                CopyEnd::Stopped(Some(StopReason::GiveUp)) => RescueOutcome::GivenUp,
                _ => RescueOutcome::Lost,
            }),
            StartReason::Explore => self.explorations.inc(match end {
                _ if won => ExplorationOutcome::Won,
                CopyEnd::Stopped(Some(StopReason::Preemption)) => ExplorationOutcome::Displaced,
                _ => ExplorationOutcome::Lost,
            }),
            _ => {}
        }
    }

    /// Copies the state of the service's learner.
    pub(crate) fn learned(&self, status: &Status) {
        let threshold_ns = status.threshold_ns;
        self.threshold.set_ns(threshold_ns.unwrap_or(NEVER_NS));
        let state = threshold_ns.map_or(RescueState::Exploring, |_| RescueState::Rescuing);
        self.state.set(state);
        // The learner maintains the count. Several readers may store the same value.
        self.fallbacks.inner().store(status.fallbacks, Ordering::Relaxed);
    }
}

/// An open client connection.
#[derive(Debug)]
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests;
