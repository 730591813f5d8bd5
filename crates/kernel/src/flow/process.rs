//! One process: its limiters, resources, callers and downstream instances, and the loop that adapts
//! the rates.
//!
//! Source: document 002 §5.2.4, Algorithm 3.

use alloc::vec::Vec;

use super::downstream::{Bottleneck, Downstream};
use super::limiter::{Admission, Drop, Limiter};
use super::meter::{Meter, Weight};
use super::resource::{Resource, ResourceSpec, Turn};
use super::share::{Demand, Used, local_rates};
use super::upstream::Callers;
use super::{
    Announcement, CallerId, Config, InstanceId, RequestId, ResourceId, Via, Workflow, WorkflowId,
};
use crate::schedule::Standing;
use crate::stage::{JobId, Purged, Refused, Stage};
use crate::time::Timestamp;

/// A workflow at the process.
#[derive(Clone, Debug)]
struct State {
    limiter: Limiter,
    offered: Meter,
    /// σ, in requests per second.
    rate: f64,
    /// The rate that the process's own resources can sustain, in requests per second.
    local: f64,
    downstream: Bottleneck,
    /// L: the mean time from admission to completion, and the mean deviation from it, in ns.
    latency_ns: f64,
    deviation_ns: f64,
    completed: bool,
}

/// The state of a workflow, for metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// σ: the maximum admission rate, in requests per second.
    pub rate: f64,
    /// The rate that the process's own resources can sustain.
    pub local: f64,
    /// σ′: the rate that downstream services can sustain.
    pub downstream: f64,
    /// The arrival rate, in requests per second.
    pub offered: f64,
    /// Number of requests that wait for admission.
    pub waiting: u32,
    /// L, in ns.
    pub latency_ns: u64,
    /// Number of silent instances among those that the workflow uses.
    pub silent: u32,
}

/// A process of a service. See [the module](super) for the order of calls.
#[derive(Clone, Debug)]
pub struct Process {
    config: Config,
    service: u16,
    workflows: Vec<Workflow>,
    states: Vec<State>,
    /// Meters of admitted requests, by workflow. The slow meter is for costs per request. The other
    /// one is as fast as the load meters.
    admitted: Vec<Meter>,
    entered: Vec<Meter>,
    resources: Vec<Resource>,
    downstream: Downstream,
    callers: Callers,
    rates: Weight,
    next_tick: Timestamp,
    /// The earliest time at which a request can be released. [`Timestamp::NEVER`] if none is
    /// waiting. With this field, the cost of a request does not depend on the number of workflows.
    next_release: Timestamp,
    /// The workflow at which the next search for a request to release begins.
    turn: usize,
    used: Vec<Used>,
    /// The factor by which the weight of observations per request is multiplied in each interval,
    /// by workflow.
    keeps: Vec<f64>,
    local: Vec<f64>,
}

impl Process {
    /// Creates a process with these workflows and resources, and without downstream instances.
    #[must_use]
    pub fn new(config: Config, workflows: &[Workflow], resources: &[ResourceSpec]) -> Self {
        let count = workflows.len();
        let unknown = Bottleneck { rate: f64::INFINITY, via: Via::default(), silent: 0 };
        let state = State {
            limiter: Limiter::new(config.interval_ns, config.queue),
            offered: Meter::default(),
            rate: f64::INFINITY,
            local: f64::INFINITY,
            downstream: unknown,
            latency_ns: 0.0,
            deviation_ns: 0.0,
            completed: false,
        };
        let resource = |&spec: &ResourceSpec| {
            let mut resource = Resource::new(spec, count, &config);
            for (at, workflow) in workflows.iter().enumerate() {
                resource.set_weight(at, workflow.weight);
            }
            resource
        };
        Self {
            config,
            service: 0,
            workflows: workflows.to_vec(),
            states: alloc::vec![state; count],
            admitted: alloc::vec![Meter::default(); count],
            entered: alloc::vec![Meter::default(); count],
            resources: resources.iter().map(resource).collect(),
            downstream: Downstream::new(count),
            callers: Callers::new(count, &config),
            rates: Weight::new(config.decay, config.interval_ns),
            keeps: alloc::vec![0.0; count],
            next_tick: Timestamp(config.interval_ns),
            next_release: Timestamp::NEVER,
            turn: 0,
            used: alloc::vec![Used::default(); resources.len()],
            local: alloc::vec![f64::INFINITY; count],
        }
    }

    /// Sets the service of the process, as the hash of its name.
    #[must_use]
    pub fn of_service(self, service: u16) -> Self {
        Self { service, ..self }
    }

    /// Sets the end of the first interval, in ns since time 0. Announcements spread faster if
    /// processes adapt at different times.
    #[must_use]
    pub fn phased(self, ns: u64) -> Self {
        Self { next_tick: Timestamp(ns.max(1)), ..self }
    }

    /// Adds an instance of a downstream service. The caller chooses the dense number of the
    /// service.
    pub fn add_instance(&mut self, service: u32) -> InstanceId {
        self.downstream.add(service)
    }

    /// Returns the latest time at which to call [`Self::tick`] and [`Self::release`].
    #[must_use]
    pub fn next_deadline(&self) -> Timestamp {
        self.next_release.min(self.next_tick)
    }

    /// Updates the time of the next release. It must be called whenever the first waiting request
    /// of a workflow may have changed.
    fn waits(&mut self, workflow: usize) {
        let next = self.states[workflow].limiter.next_deadline();
        self.next_release = self.next_release.min(next);
    }

    /// Decides whether an arriving request is admitted, waits, or is dropped. `deadline` is the
    /// time, by the clock of this process, after which the request is late.
    pub fn arrive(
        &mut self,
        now: Timestamp,
        request: RequestId,
        workflow: WorkflowId,
        deadline: Timestamp,
    ) -> Admission {
        let at = workflow.0 as usize;
        // If L were only the mean, as in the source, about half of the requests that wait for the
        // longest allowed time would be late. So requests keep a margin where they enter, as TCP
        // does in its retransmission timeout (RFC 6298). Further downstream there is no margin,
        // because the request has already spent its margin on the way, and because work has already
        // been done for it.
        let margin = if self.callers.are_known(at) { 0.0 } else { self.config.margin };
        let state = &mut self.states[at];
        let margin_ns = (margin * state.deviation_ns) as u64;
        state.offered.add(1.0);
        let latest = match deadline {
            _ if !self.config.drops_late => Timestamp::NEVER,
            Timestamp::NEVER => deadline,
            Timestamp(ns) => match ns.checked_sub(state.latency_ns as u64) {
                Some(latest) => Timestamp(latest),
                None => return Admission::Dropped(Drop::Late),
            },
        };
        let admission = state.limiter.arrive(now, request, latest, margin_ns);
        match admission {
            Admission::Admitted => self.enters(at),
            Admission::Queued => self.waits(at),
            Admission::Dropped(_) => {}
        }
        admission
    }

    /// Returns a request that waited and is now admitted or dropped.
    pub fn release(&mut self, now: Timestamp) -> Option<(RequestId, Result<(), Drop>)> {
        if now < self.next_release {
            return None;
        }
        let count = self.states.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            if let Some((request, outcome)) = self.states[at].limiter.release(now) {
                if outcome.is_ok() {
                    self.enters(at);
                }
                self.turn = at;
                return Some((request, outcome));
            }
        }
        let next = self.states.iter().map(|state| state.limiter.next_deadline()).min();
        self.next_release = next.unwrap_or(Timestamp::NEVER);
        None
    }

    /// Returns the arrival rate, or the rate at which callers want to send, whichever is higher, in
    /// requests per second.
    fn wanted_of(&self, workflow: usize) -> f64 {
        let offered = self.rates.rate(&self.states[workflow].offered);
        self.callers.wants(workflow).max(offered)
    }

    fn enters(&mut self, workflow: usize) {
        self.admitted[workflow].add(1.0);
        self.entered[workflow].add(1.0);
    }

    /// Removes a waiting request. Returns false if it is not waiting.
    pub fn withdraw(&mut self, request: RequestId, workflow: WorkflowId) -> bool {
        let was_there = self.states[workflow.0 as usize].limiter.withdraw(request);
        self.waits(workflow.0 as usize);
        was_there
    }

    /// Records that an admitted request has ended successfully, `took_ns` after its admission.
    pub fn completed(&mut self, _: Timestamp, workflow: WorkflowId, took_ns: u64) {
        let state = &mut self.states[workflow.0 as usize];
        let weight = if state.latency_ns == 0.0 { 1.0 } else { 0.1 };
        let off = took_ns as f64 - state.latency_ns;
        state.deviation_ns += 0.1 * (off.abs() * (1.0 - weight) - state.deviation_ns);
        state.latency_ns += weight * off;
        state.completed = true;
    }

    /// Queues a sub-task for a resource. `hint_ns` is its expected work, if known.
    ///
    /// # Errors
    /// Its queue is full.
    pub fn subtask(
        &mut self,
        now: Timestamp,
        resource: ResourceId,
        job: JobId,
        workflow: WorkflowId,
        standing: &Standing,
        hint_ns: Option<u64>,
    ) -> Result<(), Refused> {
        let priority = self.workflows[workflow.0 as usize].priority;
        let key = self.config.discipline.key(now, &Standing { priority, ..*standing });
        let resource = &mut self.resources[resource.0 as usize];
        resource.arrive(now, job, workflow, standing, hint_ns, key)
    }

    /// Returns the next sub-task, which either gets the resource or is too late for it.
    pub fn schedule(&mut self, now: Timestamp, resource: ResourceId) -> Option<Turn> {
        self.resources[resource.0 as usize].schedule(now)
    }

    /// Ends a sub-task that holds the resource. Returns how long it held the resource, in ns, or
    /// `None` if it did not hold it.
    pub fn done(&mut self, now: Timestamp, resource: ResourceId, job: JobId) -> Option<u64> {
        self.resources[resource.0 as usize].done(now, job)
    }

    /// Frees the resource of a sub-task that did not use it. The time for which it held the
    /// resource does not count as a cost.
    pub fn give_back(&mut self, now: Timestamp, resource: ResourceId, job: JobId) {
        self.resources[resource.0 as usize].give_back(now, job);
    }

    /// Gives up a sub-task. If it is running, the caller still has to call [`Self::done`].
    pub fn purge(&mut self, resource: ResourceId, job: JobId) -> Purged {
        self.resources[resource.0 as usize].purge(job)
    }

    /// Sets the number of slots of a resource.
    pub fn set_slots(&mut self, resource: ResourceId, slots: u32) {
        self.resources[resource.0 as usize].set_slots(slots);
    }

    /// Returns the queue and the slots of a resource.
    #[must_use]
    pub fn stage(&self, resource: ResourceId) -> &Stage {
        self.resources[resource.0 as usize].stage()
    }

    /// Returns the load of a workflow on a resource, in slots.
    #[must_use]
    pub fn load(&self, resource: ResourceId, workflow: WorkflowId) -> f64 {
        self.resources[resource.0 as usize].load(&self.rates, workflow.0 as usize)
    }

    /// Records that a copy of a call was sent to an instance, for a request of the workflow.
    pub fn called(&mut self, instance: InstanceId, workflow: WorkflowId) {
        self.downstream.called(instance, workflow.0 as usize);
    }

    /// Records that the call has returned.
    pub fn returned(&mut self, instance: InstanceId, workflow: WorkflowId, good: bool) {
        self.downstream.returned(instance, workflow.0 as usize, good);
    }

    /// Records a rate that an instance announced.
    pub fn announced(
        &mut self,
        _: Timestamp,
        instance: InstanceId,
        workflow: WorkflowId,
        announcement: Announcement,
    ) {
        self.downstream.announced(instance, workflow.0 as usize, announcement);
    }

    /// Forgets the state of an instance that is gone or has restarted.
    pub fn forget(&mut self, instance: InstanceId) {
        self.downstream.forget(instance);
    }

    /// Returns the rate at which this process wants to send to an instance, before its own limits
    /// apply, in requests per second.
    #[must_use]
    pub fn wants(&self, instance: InstanceId, workflow: WorkflowId) -> f64 {
        let at = workflow.0 as usize;
        let alpha = self.downstream.amplification(instance, at, &self.admitted[at]);
        self.wanted_of(at) * alpha
    }

    /// Records a request from a caller. [`Self::arrive`] follows. A caller's claims count only in
    /// proportion to these requests.
    pub fn arrived_from(&mut self, caller: CallerId, workflow: WorkflowId) {
        self.callers.arrived(caller, workflow.0 as usize);
    }

    /// Forgets a caller, because its dense id now belongs to another process.
    pub fn forget_caller(&mut self, caller: CallerId) {
        self.callers.forget(caller);
    }

    /// Records the rate at which a caller wants to send, in requests per second.
    pub fn wanted(&mut self, now: Timestamp, caller: CallerId, workflow: WorkflowId, rate: f64) {
        self.callers.wanted(now, caller, workflow.0 as usize, rate);
    }

    /// Returns the caller's part of the rate that this process admits.
    #[must_use]
    pub fn announce(&self, caller: CallerId, workflow: WorkflowId) -> Announcement {
        let at = workflow.0 as usize;
        let state = &self.states[at];
        let part = |rate| self.callers.part(caller, at, rate);
        Announcement { rate: part(state.rate), local: part(state.local), via: state.downstream.via }
    }

    /// Returns the state of a workflow.
    #[must_use]
    pub fn view(&self, workflow: WorkflowId) -> View {
        let state = &self.states[workflow.0 as usize];
        View {
            rate: state.rate,
            local: state.local,
            downstream: state.downstream.rate,
            offered: self.rates.rate(&state.offered),
            waiting: state.limiter.waiting() as u32,
            latency_ns: state.latency_ns as u64,
            silent: state.downstream.silent,
        }
    }

    /// Whether an interval is over. If so, poll the downstream instances, then call [`Self::tick`].
    #[must_use]
    pub fn ticks(&self, now: Timestamp) -> bool {
        now >= self.next_tick
    }

    /// Runs Algorithm 3, once per interval. Returns false if the interval is not over yet. Call
    /// [`Self::release`] afterwards.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        if !self.ticks(now) {
            return false;
        }
        // Skips the intervals that were missed.
        let interval_ns = self.config.interval_ns;
        let missed = now.since(self.next_tick) / interval_ns;
        self.next_tick = self.next_tick.after((missed + 1) * interval_ns);
        self.roll();
        let rates: Vec<f64> = self.states.iter().map(|state| state.rate).collect();
        self.callers.tick(now, &rates, 10 * self.config.stale_ns);
        if self.config.rate_control {
            self.adapt(now);
        }
        true
    }

    fn roll(&mut self) {
        self.rates.roll();
        // If there are few requests, each one influences the averages for a longer time.
        for (keeps, admitted) in self.keeps.iter_mut().zip(&self.admitted) {
            let memory = 4.0 * self.config.memory;
            *keeps = (1.0 - admitted.present() / memory).max(self.config.slow_decay);
        }
        self.downstream.roll(&self.config, &self.keeps, &self.rates);
        self.resources.iter_mut().for_each(|resource| resource.roll(&self.config, &self.keeps));
        self.entered.iter_mut().for_each(|of| of.roll(self.config.decay));
        for (admitted, keeps) in self.admitted.iter_mut().zip(&self.keeps) {
            admitted.roll(*keeps);
        }
        for state in &mut self.states {
            state.offered.roll(self.config.decay);
            // If no request completes, L decays. Otherwise one slow period could cause all later
            // requests to be rejected.
            if !core::mem::take(&mut state.completed) {
                state.latency_ns *= 0.9;
                state.deviation_ns *= 0.9;
            }
        }
    }

    fn adapt(&mut self, now: Timestamp) {
        let config = &self.config;
        for (resource, used) in self.resources.iter().zip(&mut self.used) {
            resource.used(&self.rates, &self.admitted, config, used);
        }
        let demand = |at: usize| Demand {
            admitted: self.rates.rate(&self.entered[at]),
            is_limited: self.wanted_of(at) > self.states[at].rate,
        };
        let demands: Vec<Demand> = (0..self.states.len()).map(demand).collect();
        local_rates(&self.used, &demands, &self.workflows, config, &mut self.local);
        self.next_release = Timestamp::NEVER;
        for (at, state) in self.states.iter_mut().enumerate() {
            let (service, admitted) = (self.service, &self.admitted[at]);
            state.downstream =
                self.downstream.bottleneck(at, service, admitted, &self.rates, config);
            state.local = self.local[at];
            let rate = state.local.min(state.downstream.rate).max(config.least_rate);
            state.rate = rate.min(self.workflows[at].limit);
            let slack = if self.callers.are_known(at) { config.slack } else { 0.0 };
            state.limiter.set_rate(now, state.rate * (1.0 + slack));
            self.next_release = self.next_release.min(state.limiter.next_deadline());
        }
    }
}
