//! The events of a graph: requests arrive, visit processes, and return. Every process is the
//! kernel's [`flow::Process`].
//!
//! A visit is a *frame*. A frame waits for admission, performs its actions one after the other, and
//! returns to the frame that called it. Simultaneous events happen in the order in which they were
//! scheduled. Cost: O(log events) per event. Memory: O(open frames).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;

use curtail_dist::{Distribution, seed};
use curtail_kernel::Timestamp;
use curtail_kernel::flow::{Process, Progress, ResourceId, Spent, Totals, WorkflowId};
use curtail_kernel::stage::JobId;
use rand_pcg::Pcg64Mcg;

use crate::parallel;
use crate::pool::Pool;

use super::books::{Book, Ending, ServiceBook};
use super::clients::{NewRequest, Senders};
use super::control::Control;
use super::guard::Guard;
use super::parts::{Event, Frame, Instance, Mail, NONE, Root, deadline_ns};
use super::plan::Plan;
use super::spec::{Announces, Graph};

mod faults;
mod intervals;
mod picks;
mod visits;

pub(super) struct Simulation<'g> {
    graph: &'g Graph,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    instances: Vec<Instance>,
    frames: Pool<Frame>,
    roots: Pool<Root>,
    senders: Senders,
    /// For each workflow, the totals at the entry. The processes of the entry share these totals,
    /// because all of them would learn the same values.
    totals: Vec<Totals>,
    pub(super) books: Vec<Book>,
    pub(super) all: Book,
    pub(super) services: Vec<ServiceBook>,
    /// For each workflow, the time after which its requests are late.
    deadlines: Vec<u64>,
    network: Distribution,
    /// Whether a request that has failed or was abandoned by its client stops everywhere.
    cancels: bool,
    /// Whether sub-tasks of late requests are skipped. Flow control always skips such sub-tasks.
    drops_expired: bool,
    rng: Pcg64Mcg,
    /// Generator for lost and nonsensical announcements, and for calls that avoid processes that
    /// are down.
    chance: Pcg64Mcg,
    /// The announcements that are on their way, the oldest first.
    mail: VecDeque<Mail>,
    /// The first process of each service.
    firsts: Vec<u32>,
    control: Control,
    seed: u64,
    sampled: u64,
}

impl<'g> Simulation<'g> {
    pub(super) fn new(graph: &'g Graph, control: Control, seed: u64) -> Self {
        let (instances, firsts) = instances(graph, control, seed);
        let samples = graph.samples() as usize;
        let mut simulation = Self {
            graph,
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            instances,
            frames: Pool::new(),
            roots: Pool::new(),
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
            chance: seed::rng(seed::stream(seed, &[b"chance"])),
            mail: VecDeque::new(),
            firsts,
            control,
            seed,
            sampled: 0,
        };
        for sender in 0..simulation.senders.count() {
            if let Some(at) = simulation.senders.first(sender) {
                simulation.at(at, Event::Send { sender });
            }
        }
        for instance in 0..simulation.instances.len() as u32 {
            simulation.arm(instance);
            simulation.expect_changes(instance);
        }
        simulation
    }

    fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    fn hop(&mut self, event: Event) {
        let ns = self.network.sample(&mut self.rng).max(0.0) as u64;
        self.at(self.now + ns, event);
    }

    /// Runs to the end of the simulated time. Returns false if the simulation was stopped earlier.
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
                Event::Ends { instance, deaths, resource, job } => {
                    if self.instances[instance as usize].deaths == deaths {
                        self.ended(instance, ResourceId(resource), JobId(job));
                    }
                }
                Event::Due { instance } => self.due(instance),
                Event::GiveUp { root, sent } => {
                    let of = &self.roots[root];
                    if of.sent == sent && of.ended.is_none() {
                        self.close(root, Ending::TimedOut);
                    }
                }
                Event::Change { instance, change } => self.change(instance, change),
                Event::Fluctuate { instance } => self.fluctuate(instance),
                Event::Announcement => self.receive_announcement(),
            }
        }
        true
    }

    /// Sends a client's request.
    fn send(&mut self, sender: u32) {
        let NewRequest { workflow, mut rng } = self.senders.request(sender);
        if let Some(next) = self.senders.next_open(sender, self.now) {
            self.at(next, Event::Send { sender });
        }
        let of = &self.graph.workflows[workflow as usize];
        let plan = Plan::draw(self.graph, of, &mut rng);
        let deadline_ns = self.deadlines[workflow as usize];
        let (sent, progress) = (self.now, Progress::begin(&self.totals[workflow as usize]));
        let name = self.roots.add(Root {
            plan,
            workflow,
            sender,
            sent,
            deadline_ns,
            work_ns: 0,
            ended: None,
            is_good: false,
            is_cancelled: false,
            has_returned: false,
            orphans: 0,
        });
        self.reroute(name, 0);
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
        self.frames.add(Frame {
            root,
            node,
            parent,
            step: 0,
            pending: 0,
            failed: false,
            is_here: false,
            refused: false,
            sum: Spent::default(),
            progress,
            admitted: Timestamp(0),
            holds,
            copy: None,
        })
    }

    fn instance_of(&self, frame: u32) -> u32 {
        let Frame { root, node, .. } = self.frames[frame];
        self.roots[root].plan.nodes[node as usize].instance
    }

    fn workflow_of(&self, frame: u32) -> WorkflowId {
        WorkflowId(self.roots[self.frames[frame].root].workflow)
    }

    /// Returns the time at which the request is late.
    fn deadline(&self, frame: u32) -> Timestamp {
        let root = &self.roots[self.frames[frame].root];
        Timestamp(root.sent + root.deadline_ns)
    }

    /// Handles a request that has left the graph.
    fn finish(&mut self, root: u32, ok: bool) {
        if self.roots[root].ended.is_none() {
            self.close(root, if ok { Ending::Responded } else { Ending::Dropped });
        }
        self.roots[root].has_returned = true;
        self.free_root(root);
    }

    /// Frees a request that has returned and has no orphaned frames left.
    fn free_root(&mut self, root: u32) {
        let Root { workflow, work_ns, is_good, has_returned, orphans, .. } = self.roots[root];
        if !has_returned || orphans > 0 {
            return;
        }
        for book in [&mut self.books[workflow as usize], &mut self.all] {
            book.work_ns += u128::from(work_ns);
            book.wasted_ns += if is_good { 0 } else { u128::from(work_ns) };
        }
        self.roots.free(root);
    }

    /// Ends a request for its client.
    fn close(&mut self, root: u32, ending: Ending) {
        let now = self.now;
        let of = &mut self.roots[root];
        let took_ns = now - of.sent;
        of.ended = Some(ending);
        of.is_cancelled |= self.cancels && ending != Ending::Responded;
        of.is_good = ending == Ending::Responded && took_ns <= of.deadline_ns;
        let counts = self.graph.counted_ns().contains(&of.sent);
        let at = (now / self.graph.sample_ns) as usize;
        for book in [&mut self.books[of.workflow as usize], &mut self.all] {
            book.ended(at, ending, took_ns, of.deadline_ns, counts);
        }
        let sender = of.sender;
        if let Some(next) = self.senders.next_closed(sender, now, ending) {
            self.at(next, Event::Send { sender });
        }
    }
}

/// Makes all processes. Also returns the first process of each service.
fn instances(graph: &Graph, control: Control, seed: u64) -> (Vec<Instance>, Vec<u32>) {
    let config = control.config(graph.flow);
    let settings: Vec<_> = graph.workflows.iter().map(|of| of.settings).collect();
    let count: u32 = graph.services.iter().map(|service| service.instances).sum();
    let mut rng = seed::rng(seed::stream(seed, &[b"phases"]));
    let (mut instances, mut firsts) = (Vec::new(), Vec::new());
    for (at, service) in graph.services.iter().enumerate() {
        firsts.push(instances.len() as u32);
        for _ in 0..service.instances {
            let phase = (seed::unit(&mut rng) * config.interval_ns as f64) as u64;
            let process = Process::new(config, &settings, &service.resources);
            let process = process.of_service(at as u16).phased(phase);
            instances.push(Instance {
                service: at as u32,
                guard: guard(control, count, seed, instances.len() as u32),
                blank: process.clone(),
                process,
                jobs: service.resources.iter().map(|_| Pool::new()).collect(),
                links: vec![None; count as usize],
                picks: graph.services.iter().map(|_| None).collect(),
                due_at: u64::MAX,
                here: 0,
                down_at: u64::MAX,
                deaths: 0,
                slower: [1.0; 2],
                announces: Announces::Rates,
            });
        }
    }
    (instances, firsts)
}

fn guard(control: Control, count: u32, seed: u64, instance: u32) -> Option<Box<dyn Guard>> {
    let name = u64::from(instance).to_le_bytes();
    control.guard(count as usize, seed::stream(seed, &[b"guard", &name]))
}
