//! A resource of a process: a server-side stage whose jobs are sub-tasks of workflows, with
//! measured costs.
//!
//! Source: document 002 §5.2.4, *Measuring workflow and resource properties*. A resource is a
//! semaphore, and the service time is the time for which a sub-task holds it.

use alloc::vec::Vec;

use super::meter::{Meter, Weight};
use super::share::Used;
use super::{Config, WorkflowId};
use crate::schedule::{Queues, Standing};
use crate::stage::{JobId, Refused, Scheduled, Stage};
use crate::time::Timestamp;

/// The size of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceSpec {
    /// Number of sub-tasks that may hold the resource at the same time, at least 1.
    pub slots: u32,
    /// Number of sub-tasks that may wait, at least 1: per workflow if queues are fair, in total if
    /// not.
    pub queue: u32,
}

/// The decision about a waiting sub-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The sub-task gets a slot.
    Starts(JobId),
    /// The sub-task is dropped, because its request is late or would become late.
    Late(JobId),
}

#[derive(Clone, Copy, Debug)]
struct Job {
    workflow: u32,
    deadline: Timestamp,
}

/// A workflow at the resource.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Sub-tasks that arrived. The fast meter is for the load, and the slow one is for the number
    /// of sub-tasks per request.
    came: Meter,
    came_slowly: Meter,
    served: Meter,
    served_ns: Meter,
    waiting: u32,
}

impl Load {
    /// Returns the mean service time of a sub-task, in ns.
    fn cost_ns(&self) -> f64 {
        let served = self.served.sum();
        if served > 0.0 { self.served_ns.sum() / served } else { 0.0 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Resource {
    stage: Stage,
    loads: Vec<Load>,
    /// The waiting and running sub-tasks, by job.
    jobs: Vec<Job>,
    drops_late: bool,
    expiry: f64,
}

impl Resource {
    /// The assumed cost of a sub-task until one has been measured.
    const UNKNOWN_COST_NS: u64 = 1_000_000;

    pub(super) fn new(spec: ResourceSpec, workflows: usize, config: &Config) -> Self {
        let queues = Queues::new(config.discipline, config.is_fair, spec.queue.max(1));
        Self {
            stage: Stage::new(spec.slots, spec.queue).ranked(queues),
            loads: alloc::vec![Load::default(); workflows],
            jobs: Vec::new(),
            drops_late: config.drops_late && config.expiry >= 0.0,
            expiry: config.expiry,
        }
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(super) fn set_slots(&mut self, slots: u32) {
        self.stage.set_slots(slots);
    }

    pub(super) fn set_weight(&mut self, workflow: usize, weight: f64) {
        self.stage.set_weight(workflow as u32, weight);
    }

    pub(super) fn arrive(
        &mut self,
        now: Timestamp,
        job: JobId,
        WorkflowId(workflow): WorkflowId,
        standing: &Standing,
        hint_ns: Option<u64>,
        key: u64,
    ) -> Result<(), Refused> {
        let load = &mut self.loads[workflow as usize];
        load.came.add(1.0);
        load.came_slowly.add(1.0);
        let known = load.cost_ns() as u64;
        let cost = hint_ns.unwrap_or(if known > 0 { known } else { Self::UNKNOWN_COST_NS });
        self.stage.dispatch_ranked(now, job, workflow, key, cost)?;
        load.waiting += 1;
        if job.0 as usize >= self.jobs.len() {
            let gone = Job { workflow: 0, deadline: Timestamp::NEVER };
            self.jobs.resize(job.0 as usize + 1, gone);
        }
        self.jobs[job.0 as usize] = Job { workflow, deadline: standing.deadline };
        Ok(())
    }

    pub(super) fn schedule(&mut self, now: Timestamp) -> Option<Turn> {
        let Scheduled { job, .. } = self.stage.schedule(now)?;
        let Job { workflow, deadline } = self.jobs[job.0 as usize];
        self.loads[workflow as usize].waiting -= 1;
        // If other sub-tasks are waiting, they can make better use of the time.
        let least_ns = match self.stage.waiting() {
            0 => 0.0,
            _ => self.expiry * self.loads[workflow as usize].cost_ns(),
        };
        if self.drops_late && deadline < now.after(least_ns as u64) {
            self.stage.finish(now, job);
            return Some(Turn::Late(job));
        }
        Some(Turn::Starts(job))
    }

    pub(super) fn done(&mut self, now: Timestamp, job: JobId) -> Option<u64> {
        let service_ns = self.stage.finish(now, job)?.service_ns;
        let load = &mut self.loads[self.jobs[job.0 as usize].workflow as usize];
        load.served.add(1.0);
        load.served_ns.add(service_ns as f64);
        Some(service_ns)
    }

    pub(super) fn give_back(&mut self, now: Timestamp, job: JobId) {
        self.stage.finish(now, job);
    }

    pub(super) fn purge(&mut self, job: JobId) -> crate::stage::Purged {
        let purged = self.stage.purge(job);
        if purged == crate::stage::Purged::Waited {
            self.loads[self.jobs[job.0 as usize].workflow as usize].waiting -= 1;
        }
        purged
    }

    pub(super) fn roll(&mut self, config: &Config, slowly: &[f64]) {
        for (load, slowly) in self.loads.iter_mut().zip(slowly) {
            load.came.roll(config.decay);
            load.came_slowly.roll(*slowly);
            // If there are few sub-tasks, each one influences the average for a longer time, so
            // that the cost is an average over enough of them.
            let keeps = (1.0 - load.served.present() / config.memory).max(config.decay);
            load.served.roll(keeps);
            load.served_ns.roll(keeps);
        }
    }

    /// Fills in the data that a sharing policy needs. `admitted` is the slow meter of requests, by
    /// workflow.
    pub(super) fn used(
        &self,
        rates: &Weight,
        admitted: &[Meter],
        config: &Config,
        into: &mut Used,
    ) {
        into.loads.clear();
        into.costs.clear();
        let mut waiting_s = 0.0;
        for (load, admitted) in self.loads.iter().zip(admitted) {
            let cost_s = load.cost_ns() / 1e9;
            into.loads.push(rates.rate(&load.came) * cost_s);
            waiting_s += f64::from(load.waiting) * cost_s;
            let per_request = load.came_slowly.sum() / admitted.sum();
            into.costs.push(if per_request.is_finite() { per_request * cost_s } else { 0.0 });
        }
        let slots = f64::from(self.stage.slots());
        // Less than one interval of waiting work does not count as a backlog, because random
        // arrivals alone can cause that much waiting work. At most half of the capacity is reserved
        // for the backlog, so that new work still progresses.
        let excess_s = (waiting_s - slots * config.interval_ns as f64 / 1e9).max(0.0);
        let backlog = excess_s / (config.drain_ns as f64 / 1e9);
        into.capacity = (slots * config.target - backlog).max(slots * config.target / 2.0);
    }

    /// Returns the load of a workflow, in slots.
    pub(super) fn load(&self, rates: &Weight, workflow: usize) -> f64 {
        rates.rate(&self.loads[workflow].came) * self.loads[workflow].cost_ns() / 1e9
    }
}
