//! The kernel's [`Process`], along with the waiting requests and the counters.
//!
//! All of this state is protected by one lock, which is held only briefly. Ids are indices into
//! slabs: one slab for waiting requests, and one per resource for sub-tasks. Verdicts are sent
//! while the lock is held, so a future that is being dropped can read its request's verdict under
//! the same lock.
//!
//! Cost: O(1) in addition to the kernel's cost, and one oneshot channel per waiting request or
//! sub-task.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{
    Admission, Announcement, CallerId, Config, Process, RequestId, ResourceId, ResourceSpec,
    Totals, Turn, Workflow, WorkflowId,
};
use curtail_kernel::schedule::Standing;
use curtail_kernel::stage::{JobId, Purged};
use slab::Slab;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::metadata::CallMeta;
use crate::recent::{Recent, Services};
use crate::reject::Reason;

/// The largest number of callers in the table.
const CALLERS_MAX: usize = 1_024;

/// The decision about a request or sub-task that waited.
pub(crate) type Verdict = Result<(), Reason>;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) process: Process,
    callers: Recent<u32, CallerId>,
    pub(crate) services: Services,
    /// By workflow.
    pub(crate) totals: Vec<Totals>,
    pub(crate) counts: Vec<Counts>,
    waiting: Slab<(WorkflowId, oneshot::Sender<Verdict>)>,
    pub(crate) resources: Vec<Jobs>,
    /// The time at which the time-keeping task runs next.
    pub(crate) armed: Timestamp,
    pub(crate) timer: Option<AbortHandle>,
}

/// The counters of one workflow since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    pub(crate) late: u64,
    pub(crate) full: u64,
    pub(crate) met: u64,
    pub(crate) missed: u64,
}

impl Counts {
    pub(crate) fn dropped(&mut self, reason: Reason) {
        match reason {
            Reason::Late => self.late += 1,
            Reason::Full => self.full += 1,
        }
    }
}

/// The sub-tasks at one resource.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Waiting sub-tasks have a sender.
    jobs: Slab<Option<oneshot::Sender<Verdict>>>,
    pub(crate) late: u64,
    pub(crate) full: u64,
}

/// The result of an arrival that was not rejected.
#[derive(Debug)]
pub(crate) enum Entry {
    Admitted,
    Waits(usize, oneshot::Receiver<Verdict>),
}

impl State {
    pub(crate) fn new(
        config: Config,
        service: u16,
        workflows: &[Workflow],
        resources: &[ResourceSpec],
    ) -> Self {
        Self {
            process: Process::new(config, workflows, resources).of_service(service),
            callers: Recent::new(CALLERS_MAX),
            services: Services::default(),
            totals: vec![Totals::default(); workflows.len()],
            counts: vec![Counts::default(); workflows.len()],
            waiting: Slab::new(),
            resources: resources.iter().map(|_| Jobs::default()).collect(),
            armed: Timestamp(0),
            timer: None,
        }
    }

    /// Advances time: updates the rates, and admits the requests that are due.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.process.tick(now);
        while let Some((RequestId(request), outcome)) = self.process.release(now) {
            let (workflow, sender) = self.waiting.remove(request as usize);
            let verdict = outcome.map_err(Reason::from);
            let counts = &mut self.counts[workflow.0 as usize];
            match verdict {
                Ok(()) => counts.admitted += 1,
                Err(reason) => counts.dropped(reason),
            }
            // A future that is being dropped reads the verdict while it holds the lock.
            let _ = sender.send(verdict);
        }
    }

    pub(crate) fn arrive(
        &mut self,
        now: Timestamp,
        workflow: WorkflowId,
        deadline: Timestamp,
    ) -> Result<Entry, Reason> {
        let key = self.waiting.vacant_key();
        let counts = &mut self.counts[workflow.0 as usize];
        match self.process.arrive(now, RequestId(key as u32), workflow, deadline) {
            Admission::Queued => {
                let (sender, receiver) = oneshot::channel();
                self.waiting.insert((workflow, sender));
                Ok(Entry::Waits(key, receiver))
            }
            Admission::Admitted => {
                counts.admitted += 1;
                Ok(Entry::Admitted)
            }
            Admission::Dropped(why) => {
                counts.dropped(why.into());
                Err(why.into())
            }
        }
    }

    /// Records a call from a caller.
    pub(crate) fn record_call(&mut self, now: Timestamp, workflow: WorkflowId, call: &CallMeta) {
        let caller = self.callers.touch(now, &call.caller).unwrap_or_else(|| {
            let added = self.callers.add(now, call.caller, |count| CallerId(count as u32));
            if added.is_replaced {
                self.process.forget_caller(added.id);
            }
            added.id
        });
        self.process.arrived_from(caller, workflow);
        self.process.wanted(now, caller, workflow, call.wanted);
    }

    /// Returns the announcement for a caller. `None` if the caller is not in the table.
    pub(crate) fn announcement(&self, workflow: WorkflowId, number: u32) -> Option<Announcement> {
        let caller = self.callers.id(&number)?;
        Some(self.process.announce(caller, workflow))
    }

    /// Withdraws a request that is still waiting.
    pub(crate) fn withdraw(&mut self, key: usize) {
        let (workflow, _) = self.waiting.remove(key);
        self.process.withdraw(RequestId(key as u32), workflow);
    }

    /// Queues a sub-task for a resource. If the result has no receiver, the sub-task starts
    /// immediately.
    pub(crate) fn subtask(
        &mut self,
        now: Timestamp,
        resource: ResourceId,
        workflow: WorkflowId,
        standing: &Standing,
        hint_ns: Option<u64>,
    ) -> Result<(JobId, Option<oneshot::Receiver<Verdict>>), Reason> {
        let at = resource.0 as usize;
        let key = self.resources[at].jobs.insert(None);
        let job = JobId(key as u32);
        if self.process.subtask(now, resource, job, workflow, standing, hint_ns).is_err() {
            self.resources[at].jobs.remove(key);
            self.resources[at].full += 1;
            return Err(Reason::Full);
        }
        match self.schedule(now, resource, Some(job)) {
            Some(verdict) => verdict.map(|()| (job, None)),
            None => {
                let (sender, receiver) = oneshot::channel();
                self.resources[at].jobs[key] = Some(sender);
                Ok((job, Some(receiver)))
            }
        }
    }

    /// Removes a running or waiting sub-task. Returns how long it held the resource, in ns.
    pub(crate) fn leave(&mut self, now: Timestamp, resource: ResourceId, job: JobId) -> u64 {
        let held_ns = match self.process.purge(resource, job) {
            Purged::Runs => self.process.done(now, resource, job),
            Purged::Waited | Purged::NotHere => None,
        };
        self.resources[resource.0 as usize].jobs.remove(job.0 as usize);
        self.schedule(now, resource, None);
        held_ns.unwrap_or(0)
    }

    /// Starts the sub-tasks that can start. Returns the verdict on the new sub-task, which has no
    /// channel yet.
    fn schedule(
        &mut self,
        now: Timestamp,
        resource: ResourceId,
        newcomer: Option<JobId>,
    ) -> Option<Verdict> {
        let mut of_newcomer = None;
        let Jobs { jobs, late, .. } = &mut self.resources[resource.0 as usize];
        while let Some(turn) = self.process.schedule(now, resource) {
            let (job, verdict, sender) = match turn {
                Turn::Starts(job) => (job, Ok(()), jobs[job.0 as usize].take()),
                Turn::Late(job) => {
                    *late += 1;
                    (job, Err(Reason::Late), jobs.remove(job.0 as usize))
                }
            };
            if newcomer == Some(job) {
                of_newcomer = Some(verdict);
            }
            if let Some(sender) = sender {
                let _ = sender.send(verdict);
            }
        }
        of_newcomer
    }
}
