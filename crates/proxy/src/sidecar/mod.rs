//! Runs the proxy as the sidecar of one process in a graph of services. This makes Cicero available
//! to services in any language.
//!
//! Source: document 002 §5.2. `curtail_flow` implements the state of a process, and this module
//! holds one such state. `hop.rs` passes a request through it, and `traces.rs` finds the request
//! that a call belongs to.
//!
//! The application with its slots is the resource that requests share. The sidecar cannot see
//! inside the application. The time that a request spends there includes its calls, so their time
//! is not added again.
//!
//! Cost: the cost of `curtail_flow`, and one lock acquisition per request and per call for the
//! table of traces.

mod hop;
mod traces;

use std::sync::Arc;

use curtail_flow::{BuildError, Config as FlowConfig, Flow, ResourceSpec, Target};
use curtail_http::h1::RequestHead;

use crate::config::{self, Config, FlowRole, Key};
use crate::route;
pub(crate) use hop::{Fields, Hop, Refusal};
use traces::Traces;

/// A running sidecar.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) flow: Flow,
    config: config::Flow,
    /// Traces of the requests that are being served. `None` if the application calls no service
    /// through this proxy.
    traces: Option<Traces>,
}

impl Sidecar {
    /// Returns `None` if no service has a role.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, BuildError> {
        let has = |role| config.services.iter().any(|service| service.flow == Some(role));
        let (ingress, egress) = (has(FlowRole::Ingress), has(FlowRole::Egress));
        let Some(of) = config.flow.as_ref().filter(|_| ingress || egress) else { return Ok(None) };
        let interval_ns = of.interval.as_nanos() as u64;
        let parameters =
            FlowConfig { discipline: of.discipline, interval_ns, ..FlowConfig::default() };
        let mut builder = Flow::builder(&of.service).config(parameters);
        if let Some(key) = &of.key {
            builder = builder.key(key.clone());
        }
        for (name, spec) in &of.workflows {
            builder = builder.workflow(name, *spec);
        }
        let services = config.services.iter();
        for service in services.filter(|service| service.flow == Some(FlowRole::Ingress)) {
            let slots = service.slots_or_one().saturating_mul(service.servers.len() as u32);
            let queue = service.limits.queue.max(1);
            builder = builder.resource(&service.name, ResourceSpec { slots, queue });
        }
        let traces = egress.then(Traces::default);
        Ok(Some(Self { flow: builder.build()?, config: of.clone(), traces }))
    }

    /// Returns the servers of a cell as instances of a service that the application calls.
    pub(crate) fn targets(&self, service: &str, cell: &config::CellConfig) -> Arc<[Target]> {
        let target = |address| Target::new(self.flow.clone(), service, &format!("{address}"));
        cell.addresses.iter().map(target).collect()
    }

    /// Returns the workflow that a request without metadata names, if that workflow is configured.
    /// Clients cannot create workflows.
    fn workflow(&self, head: &RequestHead, target: &route::Target) -> Option<String> {
        let key: &Key = self.config.workflow_by.as_ref()?;
        let target = target.path_and_query(head);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let value = route::value(key, path, query, |name| head.values(name)).ok()??;
        let known = self.config.workflows.iter().map(|(name, _)| name);
        known.into_iter().find(|name| name.as_bytes() == &*value).cloned()
    }
}
