//! What a world of [`super::world`] is made of: visits, requests, sub-tasks, processes and events.

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

pub(super) const NONE: u32 = u32::MAX;
/// The parent of a frame whose caller has died.
pub(super) const ORPHAN: u32 = u32::MAX - 1;

/// A visit of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// None: the frame is free.
    pub(super) root: u32,
    pub(super) node: u32,
    pub(super) parent: u32,
    pub(super) step: u32,
    /// Calls that have not come back.
    pub(super) pending: u32,
    pub(super) failed: bool,
    /// It is at its process, and not on the way.
    pub(super) is_here: bool,
    /// By its own process: turned away, or expired in a queue.
    pub(super) refused: bool,
    /// What the calls of this step spent.
    pub(super) sum: Spent,
    pub(super) progress: Progress,
    pub(super) admitted: Timestamp,
    /// The caller's resource and job that the call holds.
    pub(super) holds: Option<(ResourceId, JobId)>,
    /// Of the caller's pick.
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
    /// Its client has heard how it ended.
    pub(super) ended: Option<Ending>,
    pub(super) is_good: bool,
    /// What is still to be done for it is not done any more.
    pub(super) is_cancelled: bool,
    /// Its first frame has returned.
    pub(super) is_home: bool,
    /// Frames whose callers have died.
    pub(super) orphans: u32,
}

/// What a sub-task is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) frame: u32,
    /// It holds the resource for so long, or while this node is called.
    pub(super) ns: u64,
    pub(super) node: u32,
    pub(super) asked: u64,
}

#[derive(Default)]
pub(super) struct Jobs {
    pub(super) tasks: Vec<Task>,
    pub(super) free: Vec<u32>,
}

impl Jobs {
    pub(super) fn add(&mut self, task: Task) -> JobId {
        let job = self.free.pop().unwrap_or(self.tasks.len() as u32);
        if job as usize == self.tasks.len() {
            self.tasks.push(task);
        }
        self.tasks[job as usize] = task;
        JobId(job)
    }
}

pub(super) struct Instance {
    pub(super) service: u32,
    pub(super) process: Process,
    /// What it was at first, for when it begins anew.
    pub(super) blank: Process,
    pub(super) guard: Option<Box<dyn Guard>>,
    /// By resource.
    pub(super) jobs: Vec<Jobs>,
    /// What it calls, by instance.
    pub(super) links: Vec<Option<InstanceId>>,
    /// How it picks, by service.
    pub(super) picks: Vec<Option<Box<dyn Scheduler>>>,
    pub(super) due_at: u64,
    /// Frames that are here.
    pub(super) here: u32,
    /// Since when it is down; [`u64::MAX`] while it is up.
    pub(super) down_at: u64,
    /// How often it has died.
    pub(super) deaths: u32,
    /// Work takes so many times as long, by a fault, and as it fluctuates.
    pub(super) slower: [f64; 2],
    pub(super) announces: Announces,
}

/// An announcement on its way.
pub(super) struct Mail {
    pub(super) to: u32,
    /// Of the one that it was for.
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
    Hear,
}

/// Requests whose time in isolation is averaged.
const SAMPLES: u64 = 400;

/// After how long the requests of a workflow are late, in ns.
#[must_use]
pub fn deadline_ns(graph: &Graph, workflow: &Workflow) -> u64 {
    match workflow.deadline {
        None => graph.timeout_ns,
        Some(Deadline::After(ns)) => ns,
        Some(Deadline::Times(times)) => {
            // Of a seed of its own: a deadline is part of the graph, and not of a run.
            let mut rng = seed::rng(seed::stream(1, &[b"isolated", workflow.name.as_bytes()]));
            let network_ns = graph.network.mean() as u64;
            let one = |_| Plan::draw(graph, workflow, &mut rng).isolated_ns(network_ns);
            (times * (0..SAMPLES).map(one).sum::<u64>() as f64 / SAMPLES as f64) as u64
        }
    }
}
