//! Makes every series of a configuration.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::series::{Durations, Labels, Seconds, Series};
use super::{
    ClientMetrics, Metrics, ReplicaMetrics, ServerMetrics, ServiceMetrics, ServiceParts,
    ShardMetrics, ShardParts,
};
use crate::config::{Config, Service};

/// All series, by metric.
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
    cancellations: Series<Counter>,
    up: Series<Gauge>,
    busy: Series<Gauge>,
    slots: Series<Gauge>,
    ejections: Series<Counter>,
    connections: Series<Gauge>,
    accepted: Series<Counter>,
    rejected: Series<Counter>,
}

impl Metrics {
    /// Makes every series of a configuration, at zero; `curtail_server_slots` has its value.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let mut builder = Builder::new();
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
    fn new() -> Self {
        Self {
            requests: Series::new(),
            responses: Series::new(),
            request_duration: Series::new(),
            queue_length: Series::new(),
            queue_duration: Series::new(),
            copies_started: Series::new(),
            copies_won: Series::new(),
            copies_ended: Series::new(),
            copy_duration: Series::new(),
            wasted: Series::new(),
            cancellations: Series::new(),
            up: Series::new(),
            busy: Series::new(),
            slots: Series::new(),
            ejections: Series::new(),
            connections: Series::new(),
            accepted: Series::new(),
            rejected: Series::new(),
        }
    }

    fn service(&mut self, spec: &Service) -> ServiceParts {
        let labels = vec![("service", spec.name.clone())];
        let service = ServiceMetrics {
            requests: self.requests.each(&labels, "outcome"),
            responses: self.responses.each(&labels, "code"),
            request_duration: self.request_duration.add(&labels),
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
        let help = "Whole answers to requests that reached the service, the proxy's own included";
        r.register("responses", help, self.responses);
        let help = "From the end of a request to the end of its answer, however it ended";
        r.register_with_unit("request_duration", help, Unit::Seconds, self.request_duration);
        r.register("queue_length", "Queries that wait", self.queue_length);
        let help = "From arrival to the start of the first copy";
        r.register_with_unit("queue_duration", help, Unit::Seconds, self.queue_duration);
        r.register("copies_started", "Copies sent to replicas", self.copies_started);
        r.register("copies_won", "Copies whose answer the client got", self.copies_won);
        r.register("copies_ended", "Copies that ended", self.copies_ended);
        let help = "From the start of a copy to its end";
        r.register_with_unit("copy_duration", help, Unit::Seconds, self.copy_duration);
        let help = "Run time of copies that did not win";
        r.register_with_unit("wasted", help, Unit::Seconds, self.wasted);
        r.register("cancellations", "Copies that were told to stop", self.cancellations);
        r.register("server_up", "May the server get queries", self.up);
        r.register("server_busy", "Copies that the server holds", self.busy);
        r.register("server_slots", "Copies that the server may hold", self.slots);
        r.register("ejections", "Times that the server was taken out", self.ejections);
        r.register("connections", "Client connections that are open", self.connections);
        r.register("connections_accepted", "Client connections so far", self.accepted);
        let help = "Connections and requests turned away before they reached a service";
        r.register("rejected", help, self.rejected);
        registry
    }
}

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.into()));
    labels
}
