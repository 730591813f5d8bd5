//! Graphs of services: requests enter, call, use resources, and are controlled end to end, or are not.
//!
//! Source: document 002 §5.3, whose experiments are files of this kind (`eval/soa`). Every process is the kernel's
//! [`curtail_kernel::flow::Process`], which `curtail-flow` runs in real time.
//!
//! What is simulated exactly: admission, queues, resources, deadlines, and the loop that adapts rates, with
//! faults ([`FaultKind`]). What is not: the processes' own processing; polls, of which only the announcements are lost or
//! late; and cancellation: with rate control, a
//! request that has failed or was given up is stopped everywhere at once, as when its futures are dropped.

mod books;
mod clients;
mod control;
mod file;
mod guard;
mod parts;
mod plan;
mod replicate;
mod spec;
mod world;

use serde::{Deserialize, Serialize};

use crate::parallel::Plan;

pub use books::{Book, Ending, Figures, Rates, Sample, ServiceOutcome, WorkflowOutcome};
pub use clients::Senders;
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

/// One run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct GraphOutcome {
    /// The way of control.
    pub control: String,
    /// The part of all work that was done for requests without a response in time.
    pub wasted_work: f64,
    /// By workflow.
    pub workflows: Vec<WorkflowOutcome>,
    /// All of them together.
    pub all: WorkflowOutcome,
    /// By service, of the whole run, the warmup included.
    pub services: Vec<ServiceOutcome>,
}

/// Simulates a graph under a way of control; none where it was stopped. Progress counts samples.
#[must_use]
pub fn run(graph: &Graph, control: Control, seed: u64, plan: &Plan<'_>) -> Option<GraphOutcome> {
    let mut world = world::World::new(graph, control, seed);
    if !world.run(plan) {
        return None;
    }
    Some(GraphOutcome {
        control: control.to_string(),
        wasted_work: world.all.wasted_ns as f64 / world.all.work_ns.max(1) as f64,
        workflows: world.books.iter_mut().map(|book| book.outcome(graph)).collect(),
        all: world.all.outcome(graph),
        services: (world.services.iter().zip(&graph.services))
            .map(|(book, service)| book.outcome(service, graph.duration_ns))
            .collect(),
    })
}
