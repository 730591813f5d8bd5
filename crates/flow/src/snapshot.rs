//! The state and the counters of a process, for operators and for Prometheus.
//!
//! Source: document 002 Table 5.1, *GetResourceUtilization* and *GetWorkflowArrivalRate*.
//!
//! Cost: per snapshot, one lock acquisition and O(workflows · resources) time. Requests pay
//! nothing.

use curtail_kernel::flow::{ResourceId, View, WorkflowId};

use crate::flow::Flow;

/// The current state of a workflow, and its counters since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowSnapshot {
    /// Its name.
    pub name: String,
    /// Its state in the kernel: rates, latency, and the number of requests that wait for admission.
    pub view: View,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were rejected because they could not meet their deadlines.
    pub late: u64,
    /// Requests that were rejected because the queue was full.
    pub full: u64,
    /// Requests that succeeded within their deadlines.
    pub met: u64,
    /// Admitted requests that had a deadline but did not meet it, because they failed or ended too
    /// late.
    pub missed: u64,
}

impl WorkflowSnapshot {
    /// Combines two buckets. Keeps the lower of two rates, because the lower rate is the effective
    /// limit. Keeps the longer of two times.
    fn add(&mut self, other: &Self) {
        let (view, with) = (self.view, other.view);
        self.view = View {
            rate: view.rate.min(with.rate),
            local: view.local.min(with.local),
            downstream: view.downstream.min(with.downstream),
            offered: view.offered + with.offered,
            waiting: view.waiting + with.waiting,
            latency_ns: view.latency_ns.max(with.latency_ns),
            silent: view.silent.max(with.silent),
        };
        self.admitted += other.admitted;
        self.late += other.late;
        self.full += other.full;
        self.met += other.met;
        self.missed += other.missed;
    }
}

/// The current state of a resource, and its counters since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSnapshot {
    /// Its name.
    pub name: String,
    /// Number of sub-tasks that may hold the resource at the same time.
    pub slots: u32,
    /// Number of sub-tasks that hold it.
    pub running: u32,
    /// Number of sub-tasks that wait for it.
    pub waiting: u32,
    /// The load of each workflow, in slots.
    pub loads: Vec<f64>,
    /// Sub-tasks that were rejected because their requests were late.
    pub late: u64,
    /// Sub-tasks that were rejected because the queue was full.
    pub full: u64,
}

/// The current state of a process, and its counters since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// By workflow. The first workflow is the default workflow, and includes all of its buckets.
    pub workflows: Vec<WorkflowSnapshot>,
    /// By resource.
    pub resources: Vec<ResourceSnapshot>,
}

impl Snapshot {
    /// Returns a workflow by its name.
    #[must_use]
    pub fn workflow(&self, name: &str) -> Option<&WorkflowSnapshot> {
        self.workflows.iter().find(|workflow| workflow.name == name)
    }

    /// Returns a resource by its name.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<&ResourceSnapshot> {
        self.resources.iter().find(|resource| resource.name == name)
    }
}

impl Flow {
    /// Returns the current state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (state, _) = self.0.lock();
        let ids = || (0..state.counts.len() as u32).map(WorkflowId);
        let workflow = |id: WorkflowId| {
            let counts = state.counts[id.0 as usize];
            WorkflowSnapshot {
                name: self.0.workflows[self.0.at(id)].0.to_string(),
                view: state.process.view(id),
                admitted: counts.admitted,
                late: counts.late,
                full: counts.full,
                met: counts.met,
                missed: counts.missed,
            }
        };
        let named = self.0.workflows.len();
        let mut workflows: Vec<_> = ids().take(named).map(workflow).collect();
        ids().skip(named).for_each(|bucket| workflows[0].add(&workflow(bucket)));
        let resource = |(at, name): (usize, &String)| {
            let id = ResourceId(at as u32);
            let stage = state.process.stage(id);
            let mut loads = vec![0.0; named];
            ids().for_each(|of| loads[self.0.at(of)] += state.process.load(id, of));
            ResourceSnapshot {
                name: name.clone(),
                slots: stage.slots(),
                running: stage.running(),
                waiting: stage.waiting(),
                loads,
                late: state.resources[at].late,
                full: state.resources[at].full,
            }
        };
        Snapshot {
            workflows,
            resources: self.0.resources.iter().enumerate().map(resource).collect(),
        }
    }
}
