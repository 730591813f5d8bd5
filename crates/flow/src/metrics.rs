//! Exports the snapshot as Prometheus metrics named `curtail_flow_…`.
//!
//! Source: the text exposition of OpenMetrics. Values are read during a scrape, so the data path
//! maintains no time series.
//!
//! Cost: one snapshot per scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::snapshot::{ResourceSnapshot, WorkflowSnapshot};
use crate::{Flow, Snapshot};

/// Names (without the prefix and `_total`) and help texts.
const METRICS: [(&str, &str); 15] = [
    ("rate", "Limit on the requests that are admitted per second"),
    ("local_rate", "Requests per second that its own resources can serve"),
    ("downstream_rate", "Requests per second that the services that it calls can serve"),
    ("offered_rate", "Requests per second that arrive"),
    ("waiting", "Requests that wait for admission"),
    ("silent_instances", "Instances in use that announce no rates"),
    ("latency_seconds", "Mean time from admission to a good end"),
    ("admitted", "Requests that were admitted"),
    ("rejected", "Requests that were not admitted"),
    ("deadlines", "Ended requests that were admitted with a deadline"),
    ("resource_slots", "Sub-tasks that may hold the resource"),
    ("resource_running", "Sub-tasks that hold the resource"),
    ("resource_waiting", "Sub-tasks that wait for the resource"),
    ("resource_rejected", "Sub-tasks that did not start"),
    ("resource_load", "Load of a workflow, in slots"),
];

type Labels<'a> = Vec<(&'static str, &'a str)>;

#[derive(Clone, Copy, Debug)]
enum Value {
    Level(f64),
    Count(u64),
}

/// The series of a scrape, by metric.
#[derive(Default)]
struct Series<'a>([Vec<(Labels<'a>, Value)>; METRICS.len()]);

impl<'a> Series<'a> {
    fn add(&mut self, name: &str, labels: &[(&'static str, &'a str)], value: Value) {
        let at = METRICS.iter().position(|(known, _)| *known == name).expect("a metric of ours");
        self.0[at].push((labels.to_vec(), value));
    }

    fn workflow(&mut self, service: &'a str, of: &'a WorkflowSnapshot) {
        let labels = [("service", service), ("workflow", &*of.name)];
        let view = &of.view;
        let levels = [
            ("rate", view.rate),
            ("local_rate", view.local),
            ("downstream_rate", view.downstream),
            ("offered_rate", view.offered),
            ("waiting", f64::from(view.waiting)),
            ("silent_instances", f64::from(view.silent)),
            ("latency_seconds", view.latency_ns as f64 / 1e9),
        ];
        for (name, level) in levels {
            self.add(name, &labels, Value::Level(level));
        }
        self.add("admitted", &labels, Value::Count(of.admitted));
        let [service, workflow] = labels;
        let reason = |reason| [service, workflow, ("reason", reason)];
        self.add("rejected", &reason("late"), Value::Count(of.late));
        self.add("rejected", &reason("full"), Value::Count(of.full));
        let outcome = |outcome| [service, workflow, ("outcome", outcome)];
        self.add("deadlines", &outcome("met"), Value::Count(of.met));
        self.add("deadlines", &outcome("missed"), Value::Count(of.missed));
    }

    fn resource(
        &mut self,
        service: &'a str,
        of: &'a ResourceSnapshot,
        all: &'a [WorkflowSnapshot],
    ) {
        let labels = [("service", service), ("resource", &*of.name)];
        let levels = [
            ("resource_slots", of.slots),
            ("resource_running", of.running),
            ("resource_waiting", of.waiting),
        ];
        for (name, level) in levels {
            self.add(name, &labels, Value::Level(f64::from(level)));
        }
        let [service, resource] = labels;
        for (reason, count) in [("late", of.late), ("full", of.full)] {
            let labels = [service, resource, ("reason", reason)];
            self.add("resource_rejected", &labels, Value::Count(count));
        }
        for (workflow, &load) in all.iter().zip(&of.loads) {
            let labels = [service, resource, ("workflow", &*workflow.name)];
            self.add("resource_load", &labels, Value::Level(load));
        }
    }
}

#[derive(Debug)]
struct Metrics(Flow);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot { workflows, resources } = self.0.snapshot();
        let (mut all, service) = (Series::default(), self.0.service());
        workflows.iter().for_each(|of| all.workflow(service, of));
        resources.iter().for_each(|of| all.resource(service, of, &workflows));
        for ((name, help), series) in METRICS.iter().zip(&all.0) {
            let Some((_, first)) = series.first() else { continue };
            let kind = match first {
                Value::Level(_) => ConstGauge::new(0.0).metric_type(),
                Value::Count(_) => ConstCounter::new(0_u64).metric_type(),
            };
            let (name, help) = (format!("curtail_flow_{name}"), format!("{help}."));
            let mut family = encoder.encode_descriptor(&name, &help, None, kind)?;
            for (labels, value) in series {
                let encoder = family.encode_family(labels)?;
                match *value {
                    Value::Level(level) => ConstGauge::new(level).encode(encoder)?,
                    Value::Count(count) => ConstCounter::new(count).encode(encoder)?,
                }
            }
        }
        Ok(())
    }
}

impl Flow {
    /// Returns all metrics in the text format of Prometheus.
    #[must_use]
    pub fn render_prometheus(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(self.collector());
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// Returns a collector for a registry that also contains other metrics.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(Metrics(self.clone()))
    }
}
