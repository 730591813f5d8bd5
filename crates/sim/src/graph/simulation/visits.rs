//! Handles a visit to a process from arrival to return: admission, sub-tasks and calls to other
//! processes.

use curtail_kernel::Timestamp;
use curtail_kernel::flow::{Admission, CallerId, InstanceId, RequestId, ResourceId, Spent, Turn};
use curtail_kernel::schedule::Standing;
use curtail_kernel::stage::JobId;

use super::Simulation;
use crate::graph::guard::Ask;
use crate::graph::parts::{Event, Frame, Instance, NONE, ORPHAN, Task};
use crate::graph::plan::Act;

impl Simulation<'_> {
    pub(super) fn deliver(&mut self, frame: u32) {
        let (instance, workflow) = (self.instance_of(frame), self.workflow_of(frame));
        if self.roots[self.frames[frame].root].is_cancelled {
            return self.hop(Event::Return { frame, ok: false });
        }
        if self.is_down(instance) {
            // The connection is refused.
            return self.refuse(frame);
        }
        let (now, deadline) = (Timestamp(self.now), self.deadline(frame));
        let ask = self.ask_of(frame);
        let parent = self.frames[frame].parent;
        let caller = (parent < ORPHAN).then(|| CallerId(self.instance_of(parent)));
        let of = &mut self.instances[instance as usize];
        let service = of.service as usize;
        if of.guard.as_mut().is_some_and(|guard| !guard.admit(now.0, ask)) {
            self.services[service].admission += 1;
            return self.refuse(frame);
        }
        if let Some(caller) = caller {
            of.process.arrived_from(caller, workflow);
        }
        match of.process.arrive(now, RequestId(frame), workflow, deadline) {
            Admission::Admitted => {
                self.set_here(frame, true);
                self.begin(frame);
            }
            Admission::Queued => {
                self.set_here(frame, true);
                self.arm(instance);
            }
            Admission::Dropped(_) => {
                self.services[service].admission += 1;
                self.refuse(frame);
            }
        }
    }

    /// Sends a request back to its caller because the process does not admit it.
    pub(super) fn refuse(&mut self, frame: u32) {
        self.frames[frame].refused = true;
        self.hop(Event::Return { frame, ok: false });
    }

    /// Fails a sub-task that was not served in time or whose queue was full.
    pub(super) fn expired(&mut self, frame: u32) {
        self.frames[frame].refused = true;
        self.joined(frame, None);
    }

    pub(super) fn ask_of(&self, frame: u32) -> Ask {
        let root = &self.roots[self.frames[frame].root];
        let business = self.graph.workflows[root.workflow as usize].settings.priority;
        Ask { business, user: root.plan.user }
    }

    pub(super) fn begin(&mut self, frame: u32) {
        self.frames[frame].admitted = Timestamp(self.now);
        self.act(frame);
    }

    /// Sends a frame from its process back to its caller.
    pub(super) fn leave(&mut self, frame: u32, ok: bool) {
        let (instance, workflow) = (self.instance_of(frame), self.workflow_of(frame));
        let took_ns = self.now - self.frames[frame].admitted.0;
        self.set_here(frame, false);
        let of = &mut self.instances[instance as usize];
        if ok {
            of.process.completed(Timestamp(self.now), workflow, took_ns);
        }
        if let Some(guard) = &mut of.guard {
            guard.left(self.now, took_ns, ok);
        }
        self.hop(Event::Return { frame, ok });
    }

    /// Begins the next action of a frame, or ends the frame.
    pub(super) fn act(&mut self, frame: u32) {
        let Frame { root, node, step, .. } = self.frames[frame];
        let instance = self.instance_of(frame);
        match self.roots[root].plan.act(node, step) {
            None => self.leave(frame, true),
            Some(Act::Use { resource, ns }) => {
                self.frames[frame].pending = 1;
                self.submit(
                    instance,
                    ResourceId(resource),
                    Task { frame, ns, node: NONE, requested: self.now },
                );
            }
            Some(Act::Call { first, count, via }) => {
                let of = &mut self.frames[frame];
                (of.pending, of.sum) = (count, Spent::default());
                for node in first..first + count {
                    match via {
                        None => self.call(frame, node, None),
                        Some(resource) => {
                            self.submit(
                                instance,
                                ResourceId(resource),
                                Task { frame, ns: 0, node, requested: self.now },
                            );
                        }
                    }
                }
            }
        }
    }

    /// Queues a sub-task for a resource.
    pub(super) fn submit(&mut self, instance: u32, resource: ResourceId, task: Task) {
        let (now, workflow) = (Timestamp(self.now), self.workflow_of(task.frame));
        let progress = self.frames[task.frame].progress;
        let standing = Standing { deadline: self.deadline(task.frame), progress, priority: 0 };
        let of = &mut self.instances[instance as usize];
        let job = JobId(of.jobs[resource.0 as usize].add(task));
        if of.process.subtask(now, resource, job, workflow, &standing, None).is_err() {
            of.jobs[resource.0 as usize].free(job.0);
            self.expired(task.frame);
        } else {
            self.pump(instance, resource);
        }
    }

    /// Starts the sub-tasks that get the resource.
    pub(super) fn pump(&mut self, instance: u32, resource: ResourceId) {
        let now = Timestamp(self.now);
        while let Some(turn) = self.instances[instance as usize].process.schedule(now, resource) {
            let Instance { service, jobs, .. } = &mut self.instances[instance as usize];
            let (service, jobs) = (*service, &mut jobs[resource.0 as usize]);
            match turn {
                Turn::Late(job) => {
                    let of = &mut self.services[service as usize];
                    of.expired += 1;
                    let task = jobs[job.0];
                    jobs.free(job.0);
                    self.expired(task.frame);
                }
                Turn::Starts(job) => {
                    let Task { frame, ns, node, requested } = jobs[job.0];
                    let root = &self.roots[self.frames[frame].root];
                    let is_late = root.sent + root.deadline_ns < self.now;
                    if let Some(guard) = &mut self.instances[instance as usize].guard {
                        guard.waited(self.now, self.now - requested);
                    }
                    if root.is_cancelled || (is_late && self.drops_expired) {
                        let of = &mut self.instances[instance as usize];
                        of.process.give_back(now, resource, job);
                        of.jobs[resource.0 as usize].free(job.0);
                        self.frames[frame].refused |= is_late;
                        self.joined(frame, None);
                    } else if node == NONE {
                        let Instance { deaths, slower, .. } = self.instances[instance as usize];
                        let (resource, job) = (resource.0, job.0);
                        let ns = (ns as f64 * slower[0] * slower[1]) as u64;
                        self.at(self.now + ns, Event::Ends { instance, deaths, resource, job });
                    } else {
                        self.call(frame, node, Some((resource, job)));
                    }
                }
            }
        }
    }

    /// Handles a sub-task that has held its resource for the required time.
    pub(super) fn ended(&mut self, instance: u32, resource: ResourceId, job: JobId) {
        let frame = self.release(instance, resource, job);
        let of = &mut self.frames[frame.0];
        of.progress.served(frame.1);
        self.roots[of.root].work_ns += frame.1;
        self.pump(instance, resource);
        self.joined(frame.0, Some(Spent::default()));
    }

    pub(super) fn release(
        &mut self,
        instance: u32,
        resource: ResourceId,
        job: JobId,
    ) -> (u32, u64) {
        let of = &mut self.instances[instance as usize];
        let served_ns = of.process.done(Timestamp(self.now), resource, job).unwrap_or(0);
        let book = &mut self.services[of.service as usize];
        book.busy_ns[resource.0 as usize] += u128::from(served_ns);
        let jobs = &mut of.jobs[resource.0 as usize];
        jobs.free(job.0);
        (jobs[job.0].frame, served_ns)
    }

    pub(super) fn call(&mut self, parent: u32, node: u32, holds: Option<(ResourceId, JobId)>) {
        let Frame { root, progress, .. } = self.frames[parent];
        let (from, workflow) = (self.instance_of(parent), self.workflow_of(parent));
        let copy = self.pick(from, root, node);
        let to = self.roots[root].plan.nodes[node as usize].instance;
        let (link, ask, now) = (self.link(from, to), self.ask_of(parent), self.now);
        let of = &mut self.instances[from as usize];
        if of.guard.as_mut().is_some_and(|guard| !guard.call(now, to, ask)) {
            if let Some((resource, job)) = holds {
                self.release(from, resource, job);
            }
            if let Some(copy) = copy {
                self.unpick(from, to, copy, None);
            }
            return self.joined(parent, None);
        }
        of.process.called(link, workflow);
        let frame = self.frame(root, node, parent, progress.downstream(), holds);
        self.frames[frame].copy = copy;
        self.hop(Event::Deliver { frame });
    }

    pub(super) fn link(&mut self, from: u32, to: u32) -> InstanceId {
        let service = self.instances[to as usize].service;
        let Instance { process, links, .. } = &mut self.instances[from as usize];
        *links[to as usize].get_or_insert_with(|| process.add_instance(service))
    }

    /// Handles a frame that has returned to its caller.
    pub(super) fn returned(&mut self, frame: u32, ok: bool) {
        let visit = self.frames[frame];
        let Frame { root, parent, progress, holds, refused, .. } = visit;
        let (to, workflow) = (self.instance_of(frame), self.workflow_of(frame));
        self.frames.free(frame);
        self.frames[frame].root = NONE;
        if parent == ORPHAN {
            self.roots[root].orphans -= 1;
            return self.free_root(root);
        }
        if parent == NONE {
            if ok {
                self.totals[workflow.0 as usize].add(&progress);
            }
            return self.finish(root, ok);
        }
        let from = self.instance_of(parent);
        let link = self.link(from, to);
        if let Some(copy) = visit.copy {
            self.unpick(from, to, copy, Some((visit, ok)));
        }
        let signal = self.instances[to as usize].guard.as_mut().map(|guard| guard.signal(self.now));
        let of = &mut self.instances[from as usize];
        of.process.returned(link, workflow, ok);
        if let (Some(guard), Some(signal)) = (&mut of.guard, signal) {
            guard.returned(self.now, to, !refused, signal);
        }
        if let Some((resource, job)) = holds {
            self.release(from, resource, job);
            self.pump(from, resource);
        }
        self.joined(parent, ok.then_some(progress.here));
    }

    /// Handles the end of one part of the action that a frame is performing. `spent` is `None` if
    /// the part failed.
    pub(super) fn joined(&mut self, frame: u32, spent: Option<Spent>) {
        let of = &mut self.frames[frame];
        match spent {
            None => {
                of.failed = true;
                self.roots[of.root].is_cancelled |= self.cancels;
            }
            Some(Spent { service_ns, work_ns }) => {
                of.sum.service_ns += service_ns;
                of.sum.work_ns += work_ns;
            }
        }
        of.pending -= 1;
        if of.pending > 0 {
            return;
        }
        if of.failed {
            return self.leave(frame, false);
        }
        let Frame { root, node, step, sum, .. } = *of;
        if let Some(Act::Call { count, .. }) = self.roots[root].plan.act(node, step) {
            of.progress.joined(count, sum);
        }
        of.step += 1;
        self.act(frame);
    }
}
