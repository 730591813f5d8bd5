//! The events of a graph: requests come, visit processes, and go home. Every process is the kernel's
//! [`flow::Process`].
//!
//! A visit is a *frame*: it waits for admission, does its acts one after the other, and returns to the frame that
//! called it. What happens at the same time happens in the order in which it was decided. Cost: O(log events) per event;
//! memory: O(open frames).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

use curtail_dist::{Distribution, seed};
use curtail_kernel::Timestamp;
use curtail_kernel::flow::{
    Admission, CallerId, InstanceId, Process, Progress, RequestId, ResourceId, Spent, Totals, Turn,
    WorkflowId,
};
use curtail_kernel::schedule::Standing;
use curtail_kernel::stage::JobId;
use rand_pcg::Pcg64Mcg;

use crate::parallel;

use super::books::{Book, Ending, ServiceBook};
use super::clients::Senders;
use super::control::Control;
use super::guard::Ask;
use super::parts::{Event, Frame, Instance, Jobs, NONE, Root, Task, deadline_ns};
use super::plan::{Act, Plan};
use super::spec::Graph;

pub(super) struct World<'g> {
    graph: &'g Graph,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    instances: Vec<Instance>,
    frames: Vec<Frame>,
    free_frames: Vec<u32>,
    roots: Vec<Root>,
    free_roots: Vec<u32>,
    senders: Senders,
    /// By workflow, at the entry: shared by its processes, which would each learn the same.
    totals: Vec<Totals>,
    pub(super) books: Vec<Book>,
    pub(super) all: Book,
    pub(super) services: Vec<ServiceBook>,
    /// By workflow: after so long its requests are late.
    deadlines: Vec<u64>,
    network: Distribution,
    /// Whether a request that has failed, or was given up, is stopped everywhere.
    cancels: bool,
    /// Whether a sub-task of a request that is late is not served; flow control does so by itself.
    drops_expired: bool,
    rng: Pcg64Mcg,
    sampled: u64,
}

impl<'g> World<'g> {
    pub(super) fn new(graph: &'g Graph, control: Control, seed: u64) -> Self {
        let config = control.config(graph.flow);
        let settings: Vec<_> = graph.workflows.iter().map(|of| of.settings).collect();
        let count: u32 = graph.services.iter().map(|service| service.instances).sum();
        let mut rng = seed::rng(seed::stream(seed, &[b"phases"]));
        let mut instances = Vec::new();
        for (at, service) in graph.services.iter().enumerate() {
            for _ in 0..service.instances {
                let phase = (seed::unit(&mut rng) * config.interval_ns as f64) as u64;
                let process = Process::new(config, &settings, &service.resources);
                instances.push(Instance {
                    service: at as u32,
                    guard: {
                        let name = (instances.len() as u64).to_le_bytes();
                        control.guard(count as usize, seed::stream(seed, &[b"guard", &name]))
                    },
                    process: process.of_service(at as u16).phased(phase),
                    jobs: service.resources.iter().map(|_| Jobs::default()).collect(),
                    links: vec![None; count as usize],
                    due_at: u64::MAX,
                });
            }
        }
        let samples = graph.samples() as usize;
        let mut world = Self {
            graph,
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            instances,
            frames: Vec::new(),
            free_frames: Vec::new(),
            roots: Vec::new(),
            free_roots: Vec::new(),
            senders: Senders::new(graph, seed),
            totals: vec![Totals::default(); graph.workflows.len()],
            books: graph.workflows.iter().map(|of| Book::new(&of.name, samples)).collect(),
            all: Book::new("all", samples),
            services: graph.services.iter().map(ServiceBook::new).collect(),
            deadlines: graph.workflows.iter().map(|of| deadline_ns(graph, of)).collect(),
            network: graph.network.clone(),
            cancels: control.rates || control.guard.is_some(),
            drops_expired: control.guard.is_some(),
            rng: seed::rng(seed::stream(seed, &[b"network"])),
            sampled: 0,
        };
        for sender in 0..world.senders.count() {
            if let Some(at) = world.senders.first(sender) {
                world.at(at, Event::Send { sender });
            }
        }
        for instance in 0..count {
            world.arm(instance);
            let service = &graph.services[world.instances[instance as usize].service as usize];
            for &(at, resource, slots) in &service.changes {
                world.at(at, Event::Slots { instance, resource, slots });
            }
        }
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    fn hop(&mut self, event: Event) {
        let ns = self.network.sample(&mut self.rng).max(0.0) as u64;
        self.at(self.now + ns, event);
    }

    /// Until the end; false where it was stopped before.
    pub(super) fn run(&mut self, plan: &parallel::Plan<'_>) -> bool {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            while (self.sampled + 1) * self.graph.sample_ns <= at.min(self.graph.duration_ns) {
                self.sample();
                plan.progress.fetch_add(1, Ordering::Relaxed);
                if plan.stop.load(Ordering::Relaxed) {
                    return false;
                }
            }
            if at > self.graph.duration_ns {
                break;
            }
            self.now = at;
            match event {
                Event::Send { sender } => self.send(sender),
                Event::Deliver { frame } => self.deliver(frame),
                Event::Return { frame, ok } => self.returned(frame, ok),
                Event::Ends { instance, resource, job } => {
                    self.ended(instance, ResourceId(resource), JobId(job));
                }
                Event::Due { instance } => self.due(instance),
                Event::GiveUp { root, sent } => {
                    let of = &self.roots[root as usize];
                    if of.sent == sent && of.ended.is_none() {
                        self.close(root, Ending::TimedOut);
                    }
                }
                Event::Slots { instance, resource, slots } => {
                    let of = &mut self.instances[instance as usize];
                    of.process.set_slots(ResourceId(resource), slots);
                    self.pump(instance, ResourceId(resource));
                }
            }
        }
        true
    }

    /// The rates at the end of a sample.
    fn sample(&mut self) {
        let at = self.sampled as usize;
        self.sampled += 1;
        for (workflow, book) in self.books.iter_mut().enumerate() {
            let Some(second) = book.series.get_mut(at) else { continue };
            second.rates = vec![0.0; self.graph.services.len()];
            for of in &self.instances {
                let rate = of.process.view(WorkflowId(workflow as u32)).rate;
                second.rates[of.service as usize] += rate;
            }
            // JSON has no infinity.
            second.rates.iter_mut().filter(|rate| !rate.is_finite()).for_each(|rate| *rate = -1.0);
        }
    }

    /// A client sends a request.
    fn send(&mut self, sender: u32) {
        let (workflow, mut rng) = self.senders.request(sender);
        if let Some(next) = self.senders.next_open(sender, self.now) {
            self.at(next, Event::Send { sender });
        }
        let of = &self.graph.workflows[workflow as usize];
        let plan = Plan::draw(self.graph, of, &mut rng);
        let deadline_ns = self.deadlines[workflow as usize];
        let (sent, progress) = (self.now, Progress::begin(&self.totals[workflow as usize]));
        let root = Root {
            plan,
            workflow,
            sender,
            sent,
            deadline_ns,
            work_ns: 0,
            ended: None,
            is_good: false,
            is_cancelled: false,
        };
        let name = self.free_roots.pop().unwrap_or(self.roots.len() as u32);
        if name as usize == self.roots.len() {
            self.roots.push(root);
        } else {
            self.roots[name as usize] = root;
        }
        let frame = self.frame(name, 0, NONE, progress, None);
        self.hop(Event::Deliver { frame });
        self.at(sent + self.graph.timeout_ns, Event::GiveUp { root: name, sent });
    }

    fn frame(
        &mut self,
        root: u32,
        node: u32,
        parent: u32,
        progress: Progress,
        holds: Option<(ResourceId, JobId)>,
    ) -> u32 {
        let frame = Frame {
            root,
            node,
            parent,
            step: 0,
            pending: 0,
            failed: false,
            refused: false,
            sum: Spent::default(),
            progress,
            admitted: Timestamp(0),
            holds,
        };
        let name = self.free_frames.pop().unwrap_or(self.frames.len() as u32);
        if name as usize == self.frames.len() {
            self.frames.push(frame);
        }
        self.frames[name as usize] = frame;
        name
    }

    fn instance_of(&self, frame: u32) -> u32 {
        let Frame { root, node, .. } = self.frames[frame as usize];
        self.roots[root as usize].plan.nodes[node as usize].instance
    }

    fn workflow_of(&self, frame: u32) -> WorkflowId {
        WorkflowId(self.roots[self.frames[frame as usize].root as usize].workflow)
    }

    /// When the request is late.
    fn deadline(&self, frame: u32) -> Timestamp {
        let root = &self.roots[self.frames[frame as usize].root as usize];
        Timestamp(root.sent + root.deadline_ns)
    }

    fn deliver(&mut self, frame: u32) {
        let (instance, workflow) = (self.instance_of(frame), self.workflow_of(frame));
        if self.roots[self.frames[frame as usize].root as usize].is_cancelled {
            return self.hop(Event::Return { frame, ok: false });
        }
        let (now, deadline) = (Timestamp(self.now), self.deadline(frame));
        let ask = self.ask_of(frame);
        let of = &mut self.instances[instance as usize];
        let service = of.service as usize;
        if of.guard.as_mut().is_some_and(|guard| !guard.admit(now.0, ask)) {
            self.services[service].admission += 1;
            return self.refuse(frame);
        }
        match of.process.arrive(now, RequestId(frame), workflow, deadline) {
            Admission::Admitted => self.begin(frame),
            Admission::Queued => self.arm(instance),
            Admission::Dropped(_) => {
                self.services[service].admission += 1;
                self.refuse(frame);
            }
        }
    }

    /// A process does not let a request in.
    fn refuse(&mut self, frame: u32) {
        self.frames[frame as usize].refused = true;
        self.hop(Event::Return { frame, ok: false });
    }

    /// A sub-task is not served: no room, or no time.
    fn expired(&mut self, frame: u32) {
        self.frames[frame as usize].refused = true;
        self.joined(frame, None);
    }

    fn ask_of(&self, frame: u32) -> Ask {
        let root = &self.roots[self.frames[frame as usize].root as usize];
        let business = self.graph.workflows[root.workflow as usize].settings.priority;
        Ask { business, user: root.plan.user }
    }

    fn begin(&mut self, frame: u32) {
        self.frames[frame as usize].admitted = Timestamp(self.now);
        self.act(frame);
    }

    /// A frame goes home from its process.
    fn leave(&mut self, frame: u32, ok: bool) {
        let (instance, workflow) = (self.instance_of(frame), self.workflow_of(frame));
        let took_ns = self.now - self.frames[frame as usize].admitted.0;
        let of = &mut self.instances[instance as usize];
        if ok {
            of.process.completed(Timestamp(self.now), workflow, took_ns);
        }
        if let Some(guard) = &mut of.guard {
            guard.left(self.now, took_ns, ok);
        }
        self.hop(Event::Return { frame, ok });
    }

    /// The next act of a frame begins, or its end.
    fn act(&mut self, frame: u32) {
        let Frame { root, node, step, .. } = self.frames[frame as usize];
        let instance = self.instance_of(frame);
        match self.roots[root as usize].plan.act(node, step) {
            None => self.leave(frame, true),
            Some(Act::Use { resource, ns }) => {
                self.frames[frame as usize].pending = 1;
                self.ask(
                    instance,
                    ResourceId(resource),
                    Task { frame, ns, node: NONE, asked: self.now },
                );
            }
            Some(Act::Call { first, count, via }) => {
                let of = &mut self.frames[frame as usize];
                (of.pending, of.sum) = (count, Spent::default());
                for node in first..first + count {
                    match via {
                        None => self.call(frame, node, None),
                        Some(resource) => {
                            self.ask(
                                instance,
                                ResourceId(resource),
                                Task { frame, ns: 0, node, asked: self.now },
                            );
                        }
                    }
                }
            }
        }
    }

    /// A sub-task asks for a resource.
    fn ask(&mut self, instance: u32, resource: ResourceId, task: Task) {
        let (now, workflow) = (Timestamp(self.now), self.workflow_of(task.frame));
        let progress = self.frames[task.frame as usize].progress;
        let standing = Standing { deadline: self.deadline(task.frame), progress, priority: 0 };
        let of = &mut self.instances[instance as usize];
        let job = of.jobs[resource.0 as usize].add(task);
        if of.process.subtask(now, resource, job, workflow, &standing, None).is_err() {
            of.jobs[resource.0 as usize].free.push(job.0);
            self.expired(task.frame);
        } else {
            self.pump(instance, resource);
        }
    }

    /// Whatever gets the resource begins.
    fn pump(&mut self, instance: u32, resource: ResourceId) {
        let now = Timestamp(self.now);
        while let Some(turn) = self.instances[instance as usize].process.schedule(now, resource) {
            let Instance { service, jobs, .. } = &mut self.instances[instance as usize];
            let (service, jobs) = (*service, &mut jobs[resource.0 as usize]);
            match turn {
                Turn::Late(job) => {
                    let of = &mut self.services[service as usize];
                    of.expired += 1;
                    let task = jobs.tasks[job.0 as usize];
                    jobs.free.push(job.0);
                    self.expired(task.frame);
                }
                Turn::Starts(job) => {
                    let Task { frame, ns, node, asked } = jobs.tasks[job.0 as usize];
                    let root = &self.roots[self.frames[frame as usize].root as usize];
                    let is_late = root.sent + root.deadline_ns < self.now;
                    if let Some(guard) = &mut self.instances[instance as usize].guard {
                        guard.waited(self.now, self.now - asked);
                    }
                    if root.is_cancelled || (is_late && self.drops_expired) {
                        let of = &mut self.instances[instance as usize];
                        of.process.give_back(now, resource, job);
                        of.jobs[resource.0 as usize].free.push(job.0);
                        self.frames[frame as usize].refused |= is_late;
                        self.joined(frame, None);
                    } else if node == NONE {
                        let (resource, job) = (resource.0, job.0);
                        self.at(self.now + ns, Event::Ends { instance, resource, job });
                    } else {
                        self.call(frame, node, Some((resource, job)));
                    }
                }
            }
        }
    }

    /// A resource has been held for long enough.
    fn ended(&mut self, instance: u32, resource: ResourceId, job: JobId) {
        let frame = self.release(instance, resource, job);
        let of = &mut self.frames[frame.0 as usize];
        of.progress.served(frame.1);
        self.roots[of.root as usize].work_ns += frame.1;
        self.pump(instance, resource);
        self.joined(frame.0, Some(Spent::default()));
    }

    fn release(&mut self, instance: u32, resource: ResourceId, job: JobId) -> (u32, u64) {
        let of = &mut self.instances[instance as usize];
        let served_ns = of.process.done(Timestamp(self.now), resource, job).unwrap_or(0);
        let book = &mut self.services[of.service as usize];
        book.busy_ns[resource.0 as usize] += u128::from(served_ns);
        let jobs = &mut of.jobs[resource.0 as usize];
        jobs.free.push(job.0);
        (jobs.tasks[job.0 as usize].frame, served_ns)
    }

    fn call(&mut self, parent: u32, node: u32, holds: Option<(ResourceId, JobId)>) {
        let Frame { root, progress, .. } = self.frames[parent as usize];
        let (from, workflow) = (self.instance_of(parent), self.workflow_of(parent));
        let to = self.roots[root as usize].plan.nodes[node as usize].instance;
        let (link, ask, now) = (self.link(from, to), self.ask_of(parent), self.now);
        let of = &mut self.instances[from as usize];
        if of.guard.as_mut().is_some_and(|guard| !guard.call(now, to, ask)) {
            if let Some((resource, job)) = holds {
                self.release(from, resource, job);
            }
            return self.joined(parent, None);
        }
        of.process.called(link, workflow);
        let frame = self.frame(root, node, parent, progress.downstream(), holds);
        self.hop(Event::Deliver { frame });
    }

    fn link(&mut self, from: u32, to: u32) -> InstanceId {
        let service = self.instances[to as usize].service;
        let Instance { process, links, .. } = &mut self.instances[from as usize];
        *links[to as usize].get_or_insert_with(|| process.add_instance(service))
    }

    /// A frame has come back to its caller.
    fn returned(&mut self, frame: u32, ok: bool) {
        let Frame { root, parent, progress, holds, refused, .. } = self.frames[frame as usize];
        let (to, workflow) = (self.instance_of(frame), self.workflow_of(frame));
        self.free_frames.push(frame);
        if parent == NONE {
            if ok {
                self.totals[workflow.0 as usize].add(&progress);
            }
            return self.home(root, ok);
        }
        let from = self.instance_of(parent);
        let link = self.link(from, to);
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

    /// A part of the present act of a frame has ended, well or not.
    fn joined(&mut self, frame: u32, spent: Option<Spent>) {
        let of = &mut self.frames[frame as usize];
        match spent {
            None => {
                of.failed = true;
                self.roots[of.root as usize].is_cancelled |= self.cancels;
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
        if let Some(Act::Call { count, .. }) = self.roots[root as usize].plan.act(node, step) {
            of.progress.joined(count, sum);
        }
        of.step += 1;
        self.act(frame);
    }

    /// A request has left the graph.
    fn home(&mut self, root: u32, ok: bool) {
        if self.roots[root as usize].ended.is_none() {
            self.close(root, if ok { Ending::Responded } else { Ending::Dropped });
        }
        let Root { workflow, work_ns, is_good, .. } = self.roots[root as usize];
        for book in [&mut self.books[workflow as usize], &mut self.all] {
            book.work_ns += u128::from(work_ns);
            book.wasted_ns += if is_good { 0 } else { u128::from(work_ns) };
        }
        self.free_roots.push(root);
    }

    /// The client of a request knows how it ended.
    fn close(&mut self, root: u32, ending: Ending) {
        let now = self.now;
        let of = &mut self.roots[root as usize];
        let took_ns = now - of.sent;
        of.ended = Some(ending);
        of.is_cancelled |= self.cancels && ending != Ending::Responded;
        of.is_good = ending == Ending::Responded && took_ns <= of.deadline_ns;
        let counts = self.graph.counted_ns().contains(&of.sent);
        let times = (took_ns, of.deadline_ns);
        for book in [&mut self.books[of.workflow as usize], &mut self.all] {
            book.ended((now / self.graph.sample_ns) as usize, ending, times, counts);
        }
        let sender = of.sender;
        if let Some(next) = self.senders.next_closed(sender, now, ending) {
            self.at(next, Event::Send { sender });
        }
    }

    /// Sets the timer of a process to when it next has something to do.
    fn arm(&mut self, instance: u32) {
        let of = &mut self.instances[instance as usize];
        let at = of.process.next_deadline().0.max(self.now);
        if at < of.due_at {
            of.due_at = at;
            self.at(at, Event::Due { instance });
        }
    }

    fn due(&mut self, instance: u32) {
        if self.instances[instance as usize].due_at != self.now {
            return;
        }
        let now = Timestamp(self.now);
        self.instances[instance as usize].due_at = u64::MAX;
        self.exchange(instance);
        self.instances[instance as usize].process.tick(now);
        while let Some((RequestId(frame), outcome)) =
            self.instances[instance as usize].process.release(now)
        {
            match outcome {
                Ok(()) => self.begin(frame),
                Err(_) => {
                    let service = self.instances[instance as usize].service;
                    self.services[service as usize].admission += 1;
                    self.hop(Event::Return { frame, ok: false });
                }
            }
        }
        self.arm(instance);
    }

    /// A process polls those that it calls (Algorithm 3, lines 1 and 2), once per interval.
    fn exchange(&mut self, from: u32) {
        let now = Timestamp(self.now);
        if !self.instances[from as usize].process.ticks(now) {
            return;
        }
        for to in 0..self.instances.len() {
            let Some(link) = self.instances[from as usize].links[to] else { continue };
            for workflow in (0..self.books.len() as u32).map(WorkflowId) {
                let caller = CallerId(from);
                let wants = self.instances[from as usize].process.wants(link, workflow);
                let callee = &mut self.instances[to].process;
                if wants > 0.0 {
                    callee.wanted(now, caller, workflow, wants);
                }
                let announcement = callee.announce(caller, workflow);
                let process = &mut self.instances[from as usize].process;
                process.announced(now, link, workflow, announcement);
            }
        }
    }
}
