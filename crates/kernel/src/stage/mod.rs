//! The D-Stage: two queues with strict priority in front of the slots of a server, sans I/O. The
//! stage measures its own load.
//!
//! Source: document 003 §3, Tables 2 and 3. Simulated servers, the search leaf and `curtail stage`
//! run this code, so the feedback of all of them has the same meaning. The caller chooses the ids
//! of jobs: dense indices that it may reuse when the jobs have left. If jobs arrive over a network,
//! their names are consistent across stages, and the receiver maps the names to these ids. If no
//! job has low priority, jobs are served first come, first served.
//!
//! **Make one call that changes something, then call [`Stage::schedule`] until it returns `None`.**
//!
//! | Table 2 | here |
//! |---|---|
//! | `dispatch(job, metadata)` | [`Stage::dispatch`]: puts the job into the queue of its priority, or into the delay queue until `sched_time` |
//! | `schedule()` | [`Stage::schedule`]: returns the job that begins or resumes, and the job that it pre-empts |
//! | `purge(jobs, cascade)` | [`Stage::purge`]: returns whether the job was waiting, is running, or is not here; only in the last case does a purge continue at the next stage |
//! | `atStart()`, `atEnd()` | the caller's work when `schedule` returns a job, and when it calls [`Stage::finish`] |
//!
//! A pre-empted job returns to the head of its queue. The caller keeps track of the job's remaining
//! work, and the stage records how long the job was served.
//!
//! Cost: O(1) per call, O(log delayed jobs) for a delayed job, O(waiting jobs) for the purge of a
//! waiting job. Memory: O(jobs at the stage), bounded by the room in each queue.
//!
//! ```
//! use curtail_kernel::Timestamp;
//! use curtail_kernel::stage::{JobId, Metadata, Purged, Scheduled, Stage};
//!
//! let mut stage = Stage::new(1, 1).preemptive(); // one slot, and room for one of each priority that waits
//! let (copy, primary) = (JobId(0), JobId(1));
//! stage.dispatch(Timestamp(0), copy, Metadata::LOW).expect("there is room");
//! let begins = |job| Scheduled { job, resumes: false, preempts: None };
//! assert_eq!(stage.schedule(Timestamp(0)), Some(begins(copy)));
//! stage.dispatch(Timestamp(5), primary, Metadata::HIGH).expect("there is room");
//! let in_its_place = Scheduled { preempts: Some(copy), ..begins(primary) };
//! assert_eq!(stage.schedule(Timestamp(5)), Some(in_its_place));
//! let feedback = stage.finish(Timestamp(8), primary).expect("it ran");
//! assert_eq!((feedback.service_ns, feedback.queue), (3, 0));
//! assert_eq!(stage.schedule(Timestamp(8)), Some(Scheduled { resumes: true, ..begins(copy) }));
//! assert_eq!(stage.purge(copy), Purged::Runs, "stop it, and it has finished");
//! ```

mod latencies;
mod line;
mod stops;
mod throttler;

use alloc::vec::Vec;

use crate::event::Feedback;
use crate::heap::Heaps;
use crate::schedule::Queues;
use crate::time::Timestamp;
use latencies::Latencies;
use line::Line;
use stops::{Begins, Stops};

pub use throttler::Throttler;

/// A job at a stage: a dense index that the caller chooses, unique among the jobs at the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(pub u32);

impl JobId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The priority of a job. It is strict: no low-priority job starts while a high-priority one waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// The priority of primaries, which is the default.
    #[default]
    High,
    /// The priority of duplicates, which are served only if no other job waits.
    Low,
}

/// The metadata of a job (document 003, Table 3, without the start time, which no stage uses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The queue in which the job waits.
    pub priority: Priority,
    /// The earliest time at which the job may start. A hedged request is a delayed duplicate.
    pub sched_time: Timestamp,
}

impl Metadata {
    /// A primary that may start immediately.
    pub const HIGH: Self = Self::of(Priority::High);
    /// A duplicate that may start immediately.
    pub const LOW: Self = Self::of(Priority::Low);

    /// Returns the metadata of a job of this priority that may start immediately.
    #[must_use]
    pub const fn of(priority: Priority) -> Self {
        Self { priority, sched_time: Timestamp(0) }
    }
}

/// The queue of the job's priority is full, so the job was not accepted. Refusing a duplicate costs
/// nothing, because its primary is at another stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The reply to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The number of jobs that a new job may have to wait for.
    pub in_flight: u32,
    /// The recent latency from arrival to end with about that number of jobs, in ns. 0 before the
    /// first job.
    pub latency_ns: u64,
}

/// A job that takes a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The job that is running.
    pub job: JobId,
    /// Whether the job ran before and now resumes.
    pub resumes: bool,
    /// The job that lost its slot to this one. That job is at the head of its queue.
    pub preempts: Option<JobId>,
}

/// The result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// The job was waiting, and has been removed.
    Waited,
    /// The job is running: stop it, then call [`Stage::finish`].
    Runs,
    /// The job is not here: it is done and may be at the next stage, or it never arrived. A
    /// cascading purge continues at the next stage.
    NotHere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Gone,
    Delayed,
    Waiting,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    state: State,
    meta: Metadata,
    arrived: Timestamp,
    /// When the job last took a slot. It is [`Timestamp::NEVER`] before the first time.
    began: Timestamp,
    /// How long the job held a slot before `began`.
    served_ns: u64,
    /// Number of high-priority jobs at the stage when it arrived, plus one for this job.
    in_flight: u32,
    /// How the job began, if its service time is used in a comparison.
    begins: Option<Begins>,
}

impl Job {
    const GONE: Self = Self {
        state: State::Gone,
        meta: Metadata::HIGH,
        arrived: Timestamp::NEVER,
        began: Timestamp::NEVER,
        served_ns: 0,
        in_flight: 0,
        begins: None,
    };
}

/// The queues and the slots of a server.
#[derive(Clone, Debug)]
pub struct Stage {
    slots: u32,
    /// Low-priority jobs run only while at most this number of jobs run.
    low_slots: u32,
    /// Number of jobs of each priority that may wait.
    room: u32,
    preempts: bool,
    /// Detects whether the server stops jobs that are given up. `None` if jobs that lose their slot
    /// resume later.
    stops: Option<Stops>,
    /// Running jobs, by priority.
    running: [u32; 2],
    /// Waiting jobs in order, by priority.
    queues: [Line; 2],
    /// Number of jobs in the delay queue, by priority.
    held: [u32; 2],
    delayed: Heaps<Timestamp>,
    /// Running low-priority jobs, in the order in which they began. The list is empty if they
    /// cannot be pre-empted.
    preemptible: Vec<JobId>,
    jobs: Vec<Job>,
    latencies: Latencies,
}

impl Stage {
    /// Creates a stage with `slots` slots, at least one, and room for `room` waiting jobs of each
    /// priority.
    #[must_use]
    pub fn new(slots: u32, room: u32) -> Self {
        Self {
            slots: slots.max(1),
            low_slots: u32::MAX,
            room,
            preempts: false,
            stops: None,
            running: [0; 2],
            queues: [Line::default(), Line::default()],
            held: [0; 2],
            delayed: Heaps::new(1),
            preemptible: Vec::new(),
            jobs: Vec::new(),
            latencies: Latencies::default(),
        }
    }

    /// Makes the stage pre-emptive: a low-priority job immediately gives its slot to a
    /// high-priority one.
    #[must_use]
    pub fn preemptive(self) -> Self {
        Self { preempts: true, ..self }
    }

    /// Makes the stage pre-emptive, for use in front of a server that cannot be changed: a job that
    /// loses its slot is given up, and does not resume. If the server is found to keep working on
    /// such jobs, no low-priority job starts for a while.
    #[must_use]
    pub fn gives_up(self) -> Self {
        Self { preempts: true, stops: Some(Stops::default()), ..self }
    }

    /// Makes high-priority jobs wait in these queues, which have their own bounds. They are never
    /// pre-empted or delayed, and arrive through [`Self::dispatch_ranked`].
    #[must_use]
    pub fn ranked(self, queues: Queues) -> Self {
        Self { room: u32::MAX, queues: [Line::Ranked(queues), Line::default()], ..self }
    }

    /// Sets the weight that determines a workflow's credits, if jobs are ranked.
    pub fn set_weight(&mut self, workflow: u32, weight: f64) {
        if let Line::Ranked(queues) = &mut self.queues[0] {
            queues.set_weight(workflow, weight);
        }
    }

    /// Returns the number of waiting jobs.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waits(0) + self.waits(1)
    }

    /// Returns the number of running jobs.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running[0] + self.running[1]
    }

    /// Returns the number of running high-priority jobs.
    #[must_use]
    pub fn running_high(&self) -> u32 {
        self.running[0]
    }

    /// Returns the number of jobs at the stage.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.running() + self.waiting()
    }

    /// Returns the number of high-priority jobs at the stage. One more such job may have to wait
    /// for all of them.
    #[must_use]
    pub fn ahead(&self) -> u32 {
        self.running[0] + self.waits(0)
    }

    /// Returns the number of jobs that may run at the same time.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Sets the number of slots, at least one. If more jobs than that are running, they continue.
    pub fn set_slots(&mut self, slots: u32) {
        if let Some(stops) = self.stops.as_mut().filter(|_| slots != self.slots) {
            stops.reset();
        }
        self.slots = slots.max(1);
    }

    /// Lets low-priority jobs run only while at most `slots` jobs run. Beyond that, a low-priority
    /// job gives its slot to a high-priority one even if other slots are free.
    pub fn set_low_slots(&mut self, slots: u32) {
        self.low_slots = slots.max(1);
    }

    /// Whether the server was found to keep working on jobs that are given up. If so, low-priority
    /// jobs wait.
    #[must_use]
    pub fn works_on(&self, now: Timestamp) -> bool {
        self.stops.as_ref().is_some_and(|stops| stops.rests(now))
    }

    /// Returns the latest time at which to call [`Self::schedule`], when the next delayed job is
    /// due. It returns [`Timestamp::NEVER`] if there is none.
    #[must_use]
    pub fn next_deadline(&self) -> Timestamp {
        self.delayed.first(0).map_or(Timestamp::NEVER, |(at, _)| at)
    }

    /// Returns the reply to a probe.
    #[must_use]
    pub fn probe(&self) -> ProbeReply {
        let in_flight = self.ahead();
        ProbeReply { in_flight, latency_ns: self.latencies.at(in_flight + 1) }
    }

    fn waits(&self, class: usize) -> u32 {
        self.queues[class].len() + self.held[class]
    }

    /// Accepts a job. The job takes a slot when [`Self::schedule`] returns it.
    ///
    /// # Errors
    /// Its queue is full.
    ///
    /// # Panics
    /// If a job with this id is at the stage, which is a bug in the caller.
    pub fn dispatch(&mut self, now: Timestamp, id: JobId, meta: Metadata) -> Result<(), Refused> {
        let class = meta.priority as usize;
        self.name(id);
        let is_due = meta.sched_time <= now;
        if !(is_due && self.takes(now, class)) && self.waits(class) >= self.room {
            return Err(Refused);
        }
        let in_flight = self.ahead() + 1;
        let state = if is_due { State::Waiting } else { State::Delayed };
        self.jobs[id.index()] = Job { state, meta, arrived: now, in_flight, ..Job::GONE };
        if is_due {
            self.queues[class].push_back(id);
        } else {
            self.held[class] += 1;
            self.delayed.insert(0, meta.sched_time, id.0);
        }
        Ok(())
    }

    /// Accepts a job of a workflow, with its key and its expected work, if jobs are ranked.
    ///
    /// # Errors
    /// Its queue is full.
    ///
    /// # Panics
    /// If a job with this id is at the stage, or if jobs are not ranked, which are bugs in the
    /// caller.
    pub fn dispatch_ranked(
        &mut self,
        now: Timestamp,
        id: JobId,
        workflow: u32,
        key: u64,
        cost_ns: u64,
    ) -> Result<(), Refused> {
        self.name(id);
        let in_flight = self.ahead() + 1;
        let Line::Ranked(queues) = &mut self.queues[0] else { panic!("jobs are not ranked here") };
        queues.push(id.0, workflow, key, cost_ns).map_err(|_| Refused)?;
        let state = State::Waiting;
        self.jobs[id.index()] = Job { state, arrived: now, in_flight, ..Job::GONE };
        Ok(())
    }

    fn name(&mut self, id: JobId) {
        if id.index() >= self.jobs.len() {
            self.jobs.resize(id.index() + 1, Job::GONE);
        }
        assert!(self.jobs[id.index()].state == State::Gone, "job {} is there already", id.0);
    }

    /// Whether one more job of this priority would run immediately.
    fn takes(&self, now: Timestamp, class: usize) -> bool {
        let takes_slot = match class {
            0 => self.running() < self.slots || !self.preemptible.is_empty(),
            _ => self.queues[0].is_empty() && self.takes_low(now),
        };
        takes_slot && self.queues[class].is_empty()
    }

    fn takes_low(&self, now: Timestamp) -> bool {
        let starts = self.stops.as_ref().is_none_or(|stops| stops.allow(now));
        starts && self.running() < self.slots.min(self.low_slots)
    }

    /// Returns the next job that takes a slot. `None` if no slot is free, or if no waiting job may
    /// take one.
    pub fn schedule(&mut self, now: Timestamp) -> Option<Scheduled> {
        if !self.delayed.are_empty() {
            self.release(now);
        }
        let mut preempts = None;
        if self.queues[0].is_empty() {
            if self.queues[1].is_empty() || !self.takes_low(now) {
                return None;
            }
        } else if self.running() >= self.slots.min(self.low_slots) {
            preempts = self.preemptible.last().copied();
            // If there is no job to pre-empt, a job can start only if a slot is free. After the
            // number of slots is reduced, more jobs may be running than there are slots.
            if preempts.is_none() && self.running() >= self.slots {
                return None;
            }
            preempts.into_iter().for_each(|low| self.suspend(now, low));
        }
        let id = self.queues[0].pop_front().or_else(|| self.queues[1].pop_front())?;
        let is_last = self.running() + 1 == self.slots;
        let begins = self.stops.as_ref().and_then(|stops| stops.begins(now, is_last));
        let job = &mut self.jobs[id.index()];
        job.begins = begins;
        let resumes = job.began != Timestamp::NEVER;
        (job.state, job.began) = (State::Running, now);
        let priority = job.meta.priority;
        self.running[priority as usize] += 1;
        if priority == Priority::Low && self.preempts {
            self.preemptible.push(id);
        }
        Some(Scheduled { job: id, resumes, preempts })
    }

    /// Moves delayed jobs that are due into the queues.
    fn release(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.delayed.first(0)
            && at <= now
        {
            self.delayed.remove(0, id);
            let job = &mut self.jobs[id as usize];
            job.state = State::Waiting;
            self.held[job.meta.priority as usize] -= 1;
            self.queues[job.meta.priority as usize].push_back(JobId(id));
        }
    }

    /// Interrupts a running low-priority job between two chunks of its work, if a high-priority job
    /// waits. Returns true if the job has lost its slot. It is then at the head of its queue.
    pub fn yields(&mut self, now: Timestamp, id: JobId) -> bool {
        let runs = |job: &&Job| job.state == State::Running && job.meta.priority == Priority::Low;
        let yields = self.jobs.get(id.index()).filter(runs).is_some() && !self.queues[0].is_empty();
        if yields {
            self.suspend(now, id);
        }
        yields
    }

    /// Whether a high-priority job waits while a low-priority one runs.
    #[must_use]
    pub fn could_yield(&self) -> bool {
        self.running[1] > 0 && !self.queues[0].is_empty()
    }

    /// Returns the priority of a job at the stage.
    #[must_use]
    pub fn priority(&self, id: JobId) -> Priority {
        self.jobs[id.index()].meta.priority
    }

    /// Returns how long a job at the stage has held a slot, in ns.
    #[must_use]
    pub fn served_ns(&self, now: Timestamp, id: JobId) -> u64 {
        let job = &self.jobs[id.index()];
        job.served_ns + if job.state == State::Running { now.since(job.began) } else { 0 }
    }

    fn suspend(&mut self, now: Timestamp, id: JobId) {
        let job = &mut self.jobs[id.index()];
        job.state = State::Waiting;
        job.served_ns += now.since(job.began);
        let class = job.meta.priority as usize;
        if let Some(stops) = &mut self.stops {
            stops.gave_up(now, job.served_ns);
        }
        self.queues[class].push_front(id);
        self.vacate(class, id);
    }

    fn vacate(&mut self, class: usize, id: JobId) {
        self.running[class] -= 1;
        if class == 1 && self.preempts {
            self.preemptible.retain(|&other| other != id);
        }
    }

    /// Ends a running job that is done or was stopped. Returns the feedback for its response.
    /// `None` if the job is not here or has not started. A job that was pre-empted just as it ended
    /// also counts as done.
    pub fn finish(&mut self, now: Timestamp, id: JobId) -> Option<Feedback> {
        let job = self.jobs.get_mut(id.index())?;
        let class = job.meta.priority as usize;
        let has_slot = match job.state {
            State::Running => true,
            State::Waiting if job.began != Timestamp::NEVER => false,
            State::Waiting | State::Delayed | State::Gone => return None,
        };
        job.state = State::Gone;
        let service_ns = job.served_ns + if has_slot { now.since(job.began) } else { 0 };
        if class == 0 {
            self.latencies.add(job.in_flight, now.since(job.arrived));
            if let Some(stops) = &mut self.stops {
                stops.ended(now, self.slots, job.begins.map(|begins| (begins, service_ns)));
            }
        }
        if has_slot {
            self.vacate(class, id);
        } else {
            self.queues[class].remove(id);
        }
        Some(Feedback { queue: self.ahead(), service_ns })
    }

    /// Removes a job that is no longer needed. A second purge of the same job has no effect.
    pub fn purge(&mut self, id: JobId) -> Purged {
        let Some(job) = self.jobs.get_mut(id.index()) else { return Purged::NotHere };
        let class = job.meta.priority as usize;
        match job.state {
            State::Gone => return Purged::NotHere,
            State::Running => return Purged::Runs,
            State::Delayed => {
                self.delayed.remove(0, id.0);
                self.held[class] -= 1;
            }
            // The job is removed now, because the caller may reuse its id before its turn would
            // come.
            State::Waiting => self.queues[class].remove(id),
        }
        self.jobs[id.index()].state = State::Gone;
        Purged::Waited
    }
}
