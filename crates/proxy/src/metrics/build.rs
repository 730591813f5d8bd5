//! Makes every series of a configuration.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::series::{Age, Durations, Labels, Seconds, Series};
use super::{
    ClientMetrics, Metrics, ReplicaMetrics, RescueMetrics, RescueState, ServerMetrics,
    ServiceMetrics, ServiceParts, ShardMetrics, ShardParts,
};
use crate::config::{Config, Service};

/// All series, by metric.
#[derive(Default)]
struct Builder {
    requests: Series<Counter>,
    responses: Series<Counter>,
    request_duration: Series<Durations>,
    queue_length: Series<Gauge>,
    queue_duration: Series<Durations>,
    copies_started: Series<Counter>,
    copies_won: Series<Counter>,
    copies_ended: Series<Counter>,
    copy_duration: Series<Durations>,
    wasted: Series<Seconds>,
    hedges_refused: Series<Counter>,
    rescue: RescueSeries,
    cancellations: Series<Counter>,
    up: Series<Gauge>,
    busy: Series<Gauge>,
    slots: Series<Gauge>,
    ejections: Series<Counter>,
    connections: Series<Gauge>,
    accepted: Series<Counter>,
    rejected: Series<Counter>,
}

/// Of the services that rescue.
#[derive(Default)]
struct RescueSeries {
    threshold: Series<Age>,
    suspects: Series<Gauge>,
    rescues: Series<Counter>,
    explorations: Series<Counter>,
    fallbacks: Series<Counter>,
    state: Series<Gauge>,
}

impl Metrics {
    /// Makes every series of a configuration, at zero; `curtail_server_slots` has its value.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let mut builder = Builder::default();
        let clients = ClientMetrics {
            connections: builder.connections.add(&Labels::new()),
            accepted: builder.accepted.add(&Labels::new()),
            rejected: builder.rejected.each(&Labels::new(), "reason"),
        };
        let services = config.services.iter().map(|service| builder.service(service)).collect();
        Self { registry: builder.register(), clients, services }
    }
}

impl Builder {
    fn service(&mut self, spec: &Service) -> ServiceParts {
        let labels = vec![("service", spec.name.clone())];
        let service = ServiceMetrics {
            requests: self.requests.each(&labels, "outcome"),
            responses: self.responses.each(&labels, "code"),
            request_duration: self.request_duration.add(&labels),
            hedges_refused: self.hedges_refused.add(&labels),
            rescue: spec.policy.rescues().map(|_| self.rescue.of(&labels)),
        };
        let servers: Vec<String> = spec.servers.iter().map(ToString::to_string).collect();
        let shards = spec.shards.iter().map(|shard| {
            let labels = with(&labels, "shard", &shard.name);
            let mut replicas: Vec<_> = servers.iter().map(|_| None).collect();
            for &server in &shard.replicas {
                let labels = with(&labels, "server", &servers[server]);
                replicas[server] = Some(self.replica(&labels));
            }
            let shard = ShardMetrics {
                queue_length: self.queue_length.add(&labels),
                queue_duration: self.queue_duration.add(&labels),
            };
            ShardParts { shard, replicas }
        });
        let shards = shards.collect();
        let server = |server: &String| {
            let metrics = self.server(&with(&labels, "server", server));
            metrics.slots.set(spec.gate().into());
            metrics
        };
        ServiceParts { service, shards, servers: servers.iter().map(server).collect() }
    }

    fn replica(&mut self, labels: &Labels) -> ReplicaMetrics {
        ReplicaMetrics {
            copies_started: self.copies_started.each(labels, "reason"),
            copies_won: self.copies_won.each(labels, "role"),
            copies_ended: self.copies_ended.each(labels, "outcome"),
            cancellations: self.cancellations.each(labels, "reason"),
            copy_duration: self.copy_duration.add(labels),
            wasted: self.wasted.add(labels),
        }
    }

    fn server(&mut self, labels: &Labels) -> ServerMetrics {
        ServerMetrics {
            up: self.up.add(labels),
            busy: self.busy.add(labels),
            slots: self.slots.add(labels),
            ejections: self.ejections.each(labels, "reason"),
        }
    }

    /// The registry adds the prefix, the unit, `_total` and the full stop of each help text.
    fn register(self) -> Registry {
        let mut registry = Registry::with_prefix("curtail");
        let r = &mut registry;
        r.register("requests", "Requests that reached the service and ended", self.requests);
        let help = "Whole responses to requests that reached the service, the proxy's own included";
        r.register("responses", help, self.responses);
        let help = "From the end of a request to the end of its response, however it ended";
        r.register_with_unit("request_duration", help, Unit::Seconds, self.request_duration);
        r.register("queue_length", "Queries that wait", self.queue_length);
        let help = "From arrival to the start of the first copy";
        r.register_with_unit("queue_duration", help, Unit::Seconds, self.queue_duration);
        r.register("copies_started", "Copies sent to replicas", self.copies_started);
        r.register("copies_won", "Copies whose response the client got", self.copies_won);
        r.register("copies_ended", "Copies that ended", self.copies_ended);
        let help = "From the start of a copy to its end";
        r.register_with_unit("copy_duration", help, Unit::Seconds, self.copy_duration);
        let help = "Run time of copies that did not win";
        r.register_with_unit("wasted", help, Unit::Seconds, self.wasted);
        let help = "Queries to which the hedge budget refused a duplicate";
        r.register("hedges_refused", help, self.hedges_refused);
        self.rescue.register(r);
        r.register("cancellations", "Copies that were cancelled", self.cancellations);
        r.register("server_up", "May the server get queries", self.up);
        r.register("server_busy", "Copies that the server holds", self.busy);
        r.register("server_slots", "Copies that the server may hold", self.slots);
        r.register("ejections", "Times that the server was ejected", self.ejections);
        r.register("connections", "Client connections that are open", self.connections);
        r.register("connections_accepted", "Client connections so far", self.accepted);
        let help = "Connections and requests turned away before they reached a service";
        r.register("rejected", help, self.rejected);
        registry
    }
}

impl RescueSeries {
    fn of(&mut self, labels: &Labels) -> RescueMetrics {
        let state = self.state.states(labels);
        state.set(RescueState::Exploring);
        RescueMetrics {
            threshold: self.threshold.add(labels),
            suspects: self.suspects.add(labels),
            rescues: self.rescues.each(labels, "outcome"),
            explorations: self.explorations.each(labels, "outcome"),
            fallbacks: self.fallbacks.add(labels),
            state,
        }
    }

    fn register(self, r: &mut Registry) {
        let help = "Age from which on a query is taken for stuck; none as long as rescues are not known to pay";
        r.register_with_unit("rescue_threshold", help, Unit::Seconds, self.threshold);
        let help = "Queries that are taken for stuck and wait for a second copy";
        r.register("rescue_suspects", help, self.suspects);
        let help = "Second copies of queries that were taken for stuck, which have ended";
        r.register("rescues", help, self.rescues);
        let help = "Second copies that were tried in order to learn, and have ended";
        r.register("explorations", help, self.explorations);
        let help = "Times that rescues were found not to pay any more";
        r.register("rescue_fallbacks", help, self.fallbacks);
        let help =
            "1 for what it is about: exploring, until it knows that rescues pay, or rescuing";
        r.register("rescue_state", help, self.state);
    }
}

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.into()));
    labels
}
