//! What a process knows and has counted, for people and for Prometheus.
//!
//! Source: document 002 Table 5.1, *GetResourceUtilization* and *GetWorkflowArrivalRate*.
//!
//! Cost: one lock, O(workflows · resources), whenever it is asked for. Nothing on the way of a request.

use curtail_kernel::flow::{ResourceId, View, WorkflowId};

use crate::Flow;

/// A workflow, now and since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowSnapshot {
    /// Its name.
    pub name: String,
    /// What the kernel knows of it: rates, latency, and how many requests wait for admission.
    pub view: View,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were rejected because they could not meet their deadlines.
    pub late: u64,
    /// Requests that were rejected because as many waited as may.
    pub full: u64,
    /// Requests that ended well, within their deadlines.
    pub met: u64,
    /// Admitted requests with deadlines that ended later, or not well.
    pub missed: u64,
}

/// A resource, now and since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSnapshot {
    /// Its name.
    pub name: String,
    /// How many sub-tasks may hold it.
    pub slots: u32,
    /// How many hold it.
    pub running: u32,
    /// How many wait.
    pub waiting: u32,
    /// The load of each workflow, in slots.
    pub loads: Vec<f64>,
    /// Sub-tasks that were rejected because their requests were late.
    pub late: u64,
    /// Sub-tasks that were rejected because as many waited as may.
    pub full: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// By workflow; the first one is the default.
    pub workflows: Vec<WorkflowSnapshot>,
    /// By resource.
    pub resources: Vec<ResourceSnapshot>,
}

impl Snapshot {
    /// A workflow by its name.
    #[must_use]
    pub fn workflow(&self, name: &str) -> Option<&WorkflowSnapshot> {
        self.workflows.iter().find(|workflow| workflow.name == name)
    }

    /// A resource by its name.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<&ResourceSnapshot> {
        self.resources.iter().find(|resource| resource.name == name)
    }
}

impl Flow {
    /// What is known now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (state, _) = self.0.lock();
        let ids = || (0..self.0.workflows.len() as u32).map(WorkflowId);
        let workflow = |id: WorkflowId| {
            let counts = state.counts[id.0 as usize];
            WorkflowSnapshot {
                name: self.0.workflows[id.0 as usize].0.to_string(),
                view: state.process.view(id),
                admitted: counts.admitted,
                late: counts.late,
                full: counts.full,
                met: counts.met,
                missed: counts.missed,
            }
        };
        let resource = |(at, name): (usize, &String)| {
            let id = ResourceId(at as u32);
            let stage = state.process.stage(id);
            ResourceSnapshot {
                name: name.clone(),
                slots: stage.slots(),
                running: stage.running(),
                waiting: stage.waiting(),
                loads: ids().map(|workflow| state.process.load(id, workflow)).collect(),
                late: state.resources[at].late,
                full: state.resources[at].full,
            }
        };
        Snapshot {
            workflows: ids().map(workflow).collect(),
            resources: self.0.resources.iter().enumerate().map(resource).collect(),
        }
    }
}
