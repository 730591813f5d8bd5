//! Graphs of services: requests enter, call, use resources, and are controlled end to end, or are not.
//!
//! Source: document 002 §5.3, whose experiments are files of this kind (`eval/soa`). Every process is the kernel's
//! [`curtail_kernel::flow::Process`], which `curtail-flow` runs in real time.
//!
//! What is simulated exactly: admission, queues, resources, deadlines, and the loop that adapts rates. What is not:
//! the processes' own processing, and polls, which take no time and are not lost.

mod books;
mod clients;
mod control;
mod plan;
mod spec;
mod world;

use serde::Serialize;

pub use books::{Figures, Second, WorkflowOutcome};
pub use control::Control;
pub use spec::{
    ClientsFile, Graph, GraphError, GraphFile, ResourceFile, ServiceFile, WorkflowFile,
};

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct GraphOutcome {
    /// The way of control.
    pub control: String,
    /// Of the seed of this number.
    pub seed: u64,
    /// The part of all work that was done for requests without a response in time.
    pub wasted_work: f64,
    /// By workflow.
    pub workflows: Vec<WorkflowOutcome>,
}

/// Simulates a graph under a way of control.
#[must_use]
pub fn run(graph: &Graph, control: Control, seed: u64) -> GraphOutcome {
    let mut world = world::World::new(graph, control, seed);
    world.run();
    let seconds = (graph.duration_ns - graph.warmup_ns) as f64 / 1e9;
    let (work, wasted) = world
        .books
        .iter()
        .fold((0, 0), |(work, wasted), book| (work + book.work_ns, wasted + book.wasted_ns));
    GraphOutcome {
        control: control.to_string(),
        seed,
        wasted_work: wasted as f64 / work.max(1) as f64,
        workflows: world.books.iter_mut().map(|book| book.outcome(seconds)).collect(),
    }
}
