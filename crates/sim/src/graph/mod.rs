//! Simulates graphs of services, in which requests call other services and use resources, with or
//! without end-to-end control.
//!
//! Source: document 002 §5.3. The experiments in that document are available as such graphs
//! (`lab/soa`). Every process is the kernel's [`curtail_kernel::flow::Process`], which
//! `curtail-flow` runs in real time.
//!
//! The following is simulated exactly, even under faults ([`FaultKind`]): admission, queues,
//! resources, deadlines, and the loop that adapts rates. Other aspects are simplified: the
//! processes' own processing takes no time. The only messages that can be lost or late are the
//! announcements that answer polls. Cancellation is immediate: with rate control, a request that
//! has failed or was abandoned by its client stops everywhere at the same time, as if its futures
//! were dropped.

mod books;
mod clients;
mod control;
mod file;
mod guard;
mod parts;
mod plan;
mod replicate;
mod simulation;
mod spec;

use serde::{Deserialize, Serialize};

use crate::parallel::Plan;

pub use books::{Book, Ending, Figures, Rates, Sample, ServiceOutcome, WorkflowOutcome};
pub use clients::{NewRequest, Senders};
pub use control::Control;
pub use file::{
    ClientsFile, FaultFile, FaultKind, FluctuationFile, GraphFile, ResourceFile, ServiceFile,
    WorkflowFile,
};
pub use guard::{Ask, Guard};
pub use parts::deadline_ns;
pub use plan::{Act, Node, Plan as RequestPlan};
pub use replicate::{Replicated, replicate};
pub use spec::{Graph, GraphError, Service, Workflow};

/// The result of one run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct GraphOutcome {
    /// The name of the control.
    pub control: String,
    /// The share of all work that was done for requests without a response by their deadline.
    pub wasted_work: f64,
    /// By workflow.
    pub workflows: Vec<WorkflowOutcome>,
    /// All workflows together.
    pub all: WorkflowOutcome,
    /// The results of each service for the whole run, including the warm-up.
    pub services: Vec<ServiceOutcome>,
}

/// Simulates a graph under a control. Returns `None` if it was stopped. `plan.progress` counts
/// samples.
#[must_use]
pub fn run(graph: &Graph, control: Control, seed: u64, plan: &Plan<'_>) -> Option<GraphOutcome> {
    let mut simulation = simulation::Simulation::new(graph, control, seed);
    if !simulation.run(plan) {
        return None;
    }
    Some(GraphOutcome {
        control: control.to_string(),
        wasted_work: simulation.all.wasted_ns as f64 / simulation.all.work_ns.max(1) as f64,
        workflows: simulation.books.iter_mut().map(|book| book.outcome(graph)).collect(),
        all: simulation.all.outcome(graph),
        services: (simulation.services.iter().zip(&graph.services))
            .map(|(book, service)| book.outcome(service, graph.duration_ns))
            .collect(),
    })
}
