//! The snapshot as metrics of Prometheus, named `curtail_flow_…`.
//!
//! Source: the text exposition of OpenMetrics. Values are read when they are asked for, so the data path holds no
//! series.
//!
//! Cost: that of a snapshot per scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::snapshot::{ResourceSnapshot, WorkflowSnapshot};
use crate::{Flow, Snapshot};

type Labels = Vec<(&'static str, String)>;
type Level<T> = (&'static str, &'static str, fn(&T) -> f64);
type Count<T> = (&'static str, &'static str, &'static str, fn(&T) -> u64);

/// Gauges by workflow.
const WORKFLOW_LEVELS: [Level<WorkflowSnapshot>; 7] = [
    ("rate", "Requests per second that are admitted at most", |of| of.view.rate),
    ("local_rate", "Requests per second that its own resources bear", |of| of.view.local),
    ("downstream_rate", "Requests per second that its calls downstream bear", |of| {
        of.view.downstream
    }),
    ("offered_rate", "Requests per second that arrive", |of| of.view.offered),
    ("waiting", "Requests that wait for admission", |of| f64::from(of.view.waiting)),
    ("silent_instances", "Instances in use that announce nothing", |of| f64::from(of.view.silent)),
    ("latency_seconds", "From admission to a good end, on average", |of| {
        of.view.latency_ns as f64 / 1e9
    }),
];

/// Counters by workflow, with a value of the label `kind` where several are one metric.
const WORKFLOW_COUNTS: [Count<WorkflowSnapshot>; 5] = [
    ("admitted", "Requests that were admitted", "", |of| of.admitted),
    ("rejected", "Requests that were not admitted", "late", |of| of.late),
    ("rejected", "", "full", |of| of.full),
    ("deadlines", "Admitted requests with deadlines that have ended", "met", |of| of.met),
    ("deadlines", "", "missed", |of| of.missed),
];

/// Gauges by resource.
const RESOURCE_LEVELS: [Level<ResourceSnapshot>; 3] = [
    ("resource_slots", "Sub-tasks that may hold the resource", |of| f64::from(of.slots)),
    ("resource_running", "Sub-tasks that hold the resource", |of| f64::from(of.running)),
    ("resource_waiting", "Sub-tasks that wait for the resource", |of| f64::from(of.waiting)),
];

/// Counters by resource.
const RESOURCE_COUNTS: [Count<ResourceSnapshot>; 2] = [
    ("resource_rejected", "Sub-tasks that did not start", "late", |of| of.late),
    ("resource_rejected", "", "full", |of| of.full),
];

impl Flow {
    /// All metrics as text, as Prometheus reads it.
    #[must_use]
    pub fn render_prometheus(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(self.collector());
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// The metrics for a registry that has others, too.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(Metrics(self.clone()))
    }
}

#[derive(Debug)]
struct Metrics(Flow);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot { workflows, resources } = self.0.snapshot();
        let service = || ("service", self.0.service().to_owned());
        let of_workflow = |of: &WorkflowSnapshot| vec![service(), ("workflow", of.name.clone())];
        let of_resource = |of: &ResourceSnapshot| vec![service(), ("resource", of.name.clone())];
        levels(&mut encoder, &WORKFLOW_LEVELS, &workflows, of_workflow)?;
        counts(&mut encoder, (&WORKFLOW_COUNTS, "kind"), &workflows, of_workflow)?;
        levels(&mut encoder, &RESOURCE_LEVELS, &resources, of_resource)?;
        counts(&mut encoder, (&RESOURCE_COUNTS, "kind"), &resources, of_resource)?;
        let load = |of: &ResourceSnapshot| {
            let labels = |(workflow, &load): (&WorkflowSnapshot, &f64)| {
                let mut labels = of_resource(of);
                labels.push(("workflow", workflow.name.clone()));
                (labels, load)
            };
            workflows.iter().zip(&of.loads).map(labels).collect::<Vec<_>>()
        };
        let loads: Vec<(Labels, f64)> = resources.iter().flat_map(load).collect();
        gauge(&mut encoder, ("resource_load", "Load of a workflow, in slots"), &loads)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: &[(Labels, f64)],
) -> fmt::Result {
    let Some((_, first)) = series.first() else { return Ok(()) };
    let (name, help) = (format!("curtail_flow_{name}"), format!("{help}."));
    let kind = ConstGauge::new(*first).metric_type();
    let mut family = encoder.encode_descriptor(&name, &help, None, kind)?;
    for (labels, value) in series {
        ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

fn levels<T>(
    encoder: &mut DescriptorEncoder<'_>,
    levels: &[Level<T>],
    of: &[T],
    labels: impl Fn(&T) -> Labels,
) -> fmt::Result {
    for &(name, help, value) in levels {
        let series: Vec<(Labels, f64)> = of.iter().map(|of| (labels(of), value(of))).collect();
        gauge(encoder, (name, help), &series)?;
    }
    Ok(())
}

fn counts<T>(
    encoder: &mut DescriptorEncoder<'_>,
    (counts, by): (&[Count<T>], &'static str),
    of: &[T],
    labels: impl Fn(&T) -> Labels,
) -> fmt::Result {
    if of.is_empty() {
        return Ok(());
    }
    for kinds in counts.chunk_by(|a, b| a.0 == b.0) {
        let (name, help) = (format!("curtail_flow_{}", kinds[0].0), format!("{}.", kinds[0].1));
        let kind = ConstCounter::new(0_u64).metric_type();
        let mut family = encoder.encode_descriptor(&name, &help, None, kind)?;
        for of in of {
            for &(_, _, kind, value) in kinds {
                let mut labels = labels(of);
                if !kind.is_empty() {
                    labels.push((by, kind.to_owned()));
                }
                ConstCounter::new(value(of)).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}
