//! The parts of a simulation ([`super::simulation`]): visits, requests, sub-tasks, processes and
//! events.

use curtail_dist::seed;
use curtail_kernel::flow::{
    Announcement, InstanceId, Process, Progress, ResourceId, Spent, WorkflowId,
};
use curtail_kernel::stage::JobId;
use curtail_kernel::{CopyId, Scheduler, Timestamp};

use super::books::Ending;
use super::guard::Guard;
use super::plan::Plan;
use super::spec::{Announces, Deadline, Graph, Workflow};
use crate::pool::Pool;

pub(super) const NONE: u32 = u32::MAX;
/// The parent of a frame whose caller has died.
pub(super) const ORPHAN: u32 = u32::MAX - 1;

/// A visit to a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// [`NONE`] if the frame is free.
    pub(super) root: u32,
    pub(super) node: u32,
    pub(super) parent: u32,
    pub(super) step: u32,
    /// The number of calls that have not returned.
    pub(super) pending: u32,
    pub(super) failed: bool,
    /// Whether the visit is at its process rather than on the network.
    pub(super) is_here: bool,
    /// Whether the visited process itself turned the visit away or let it expire in a queue.
    pub(super) refused: bool,
    /// The total time and work of the calls of this step that have returned.
    pub(super) sum: Spent,
    pub(super) progress: Progress,
    pub(super) admitted: Timestamp,
    /// The caller's resource that this call holds, and the caller's job for it.
    pub(super) holds: Option<(ResourceId, JobId)>,
    /// The copy in the caller's cell, if the caller picks processes.
    pub(super) copy: Option<CopyId>,
}

/// A request.
pub(super) struct Root {
    pub(super) plan: Plan,
    pub(super) workflow: u32,
    pub(super) sender: u32,
    pub(super) sent: u64,
    pub(super) deadline_ns: u64,
    pub(super) work_ns: u64,
    /// How the request ended for its client. `None` while the client waits.
    pub(super) ended: Option<Ending>,
    pub(super) is_good: bool,
    /// Whether its remaining work is skipped.
    pub(super) is_cancelled: bool,
    /// Whether its first frame has returned.
    pub(super) has_returned: bool,
    /// The number of frames whose callers have died.
    pub(super) orphans: u32,
}

/// The purpose of a sub-task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) frame: u32,
    /// The time for which the sub-task holds the resource. If `node` is not [`NONE`], the sub-task
    /// holds the resource during the call to that node instead.
    pub(super) ns: u64,
    pub(super) node: u32,
    pub(super) requested: u64,
}

pub(super) struct Instance {
    pub(super) service: u32,
    pub(super) process: Process,
    /// The initial process, for a restart.
    pub(super) blank: Process,
    pub(super) guard: Option<Box<dyn Guard>>,
    /// The sub-tasks of each resource.
    pub(super) jobs: Vec<Pool<Task>>,
    /// The links to the called processes, by instance.
    pub(super) links: Vec<Option<InstanceId>>,
    /// The cells that pick the called processes, by service.
    pub(super) picks: Vec<Option<Box<dyn Scheduler>>>,
    pub(super) due_at: u64,
    /// Frames at this process.
    pub(super) here: u32,
    /// The time at which the process went down, or [`u64::MAX`] while it is up.
    pub(super) down_at: u64,
    /// The number of times that the process has died.
    pub(super) deaths: u32,
    /// Factors by which work takes longer: one from a fault, and one from fluctuation.
    pub(super) slower: [f64; 2],
    pub(super) announces: Announces,
}

/// An announcement that is on its way.
pub(super) struct Mail {
    pub(super) to: u32,
    /// The receiver's `deaths` when the announcement was sent. A receiver that has restarted since
    /// then drops the announcement.
    pub(super) deaths: u32,
    pub(super) link: InstanceId,
    pub(super) workflow: WorkflowId,
    pub(super) announcement: Announcement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Send { sender: u32 },
    Deliver { frame: u32 },
    Return { frame: u32, ok: bool },
    Ends { instance: u32, deaths: u32, resource: u32, job: u32 },
    Due { instance: u32 },
    GiveUp { root: u32, sent: u64 },
    Change { instance: u32, change: u32 },
    Fluctuate { instance: u32 },
    Announcement,
}

/// The number of sample requests for estimating the mean time of a request that is alone in the
/// graph.
const SAMPLES: u64 = 400;

/// Returns the time in ns after which requests of a workflow are late.
#[must_use]
pub fn deadline_ns(graph: &Graph, workflow: &Workflow) -> u64 {
    match workflow.deadline {
        None => graph.timeout_ns,
        Some(Deadline::After(ns)) => ns,
        Some(Deadline::Times(times)) => {
            // The seed does not depend on the run, because a deadline is a property of the graph,
            // not of a run.
            let mut rng = seed::rng(seed::stream(1, &[b"isolated", workflow.name.as_bytes()]));
            let network_ns = graph.network.mean() as u64;
            let one = |_| Plan::draw(graph, workflow, &mut rng).isolated_ns(network_ns);
            (times * (0..SAMPLES).map(one).sum::<u64>() as f64 / SAMPLES as f64) as u64
        }
    }
}
