//! The D-Stage: two queues of strict priority before the slots of a server, sans I/O, as a state machine that
//! meters itself.
//!
//! Source: document 003 §3, Tables 2 and 3. Simulated servers, the search leaf and `curtail stage` run this
//! code, so what a client hears from any of them means the same. Jobs are named by the caller, densely, and
//! free to be used again when they have left; a receiver of jobs over a network maps names that are
//! consistent across stages to these. Where no job has low priority it is first come, first served.
//!
//! **Feed one call that changes something, then call [`Stage::schedule`] until it is none.**
//!
//! | Table 2 | here |
//! |---|---|
//! | `dispatch(job, metadata)` | [`Stage::dispatch`]: a queue by priority, or the delay queue until `sched_time` |
//! | `schedule()` | [`Stage::schedule`]: the job that begins, or goes on, and the one that it pre-empts |
//! | `purge(jobs, cascade)` | [`Stage::purge`]: it says whether the job waited, runs, or is not here; only then does a purge go on to the next stage |
//! | `atStart()`, `atEnd()` | what the caller does when `schedule` names a job, and when it calls [`Stage::finish`] |
//!
//! A job that is pre-empted is first in line of its queue. What is left of its work is the caller's to keep, as
//! its work is; the stage keeps how long it was served.
//!
//! Cost: O(1) per call, O(log delayed jobs) for one that is delayed, O(jobs that wait) for a purge of one that
//! waits. Memory: O(jobs at once), bounded by the room of each queue.
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

/// A job at a stage: a dense index that the caller chooses, unique among those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(pub u32);

impl JobId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which jobs come first: strictly, whatever waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Of primaries, and of whatever has none.
    #[default]
    High,
    /// Of duplicates: they are served when nothing else is there.
    Low,
}

/// What a stage has to know of a job (document 003, Table 3, but for the start time: no stage decides by it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Which queue it waits in.
    pub priority: Priority,
    /// It does not start before that: a hedged request is a duplicate that is delayed.
    pub sched_time: Timestamp,
}

impl Metadata {
    /// A primary, which may start at once.
    pub const HIGH: Self = Self::of(Priority::High);
    /// A duplicate, which may start at once.
    pub const LOW: Self = Self::of(Priority::Low);

    /// A job of such a priority that may start at once.
    #[must_use]
    pub const fn of(priority: Priority) -> Self {
        Self { priority, sched_time: Timestamp(0) }
    }
}

/// As many jobs of its priority wait as may: the job is not there. A duplicate that is refused costs nothing,
/// for its primary is at another stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A job that takes a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// It runs from now on.
    pub job: JobId,
    /// It ran before, and goes on.
    pub resumes: bool,
    /// The job that runs no more: its slot is taken, and it is first in line.
    pub preempts: Option<JobId>,
}

/// What a purge found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// It waited, and has left.
    Waited,
    /// It runs: stop it, and then report [`Stage::finish`].
    Runs,
    /// It is not here: done, and maybe at the next stage, or never seen. A purge that cascades goes on.
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
    /// When it last took a slot; never, yet, where that is [`Timestamp::NEVER`].
    began: Timestamp,
    /// How long it had one before.
    served_ns: u64,
    /// Those that were there when it arrived, itself included.
    in_flight: u32,
    /// How it began, where what it takes is to be compared.
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
    /// Jobs of low priority run only while no more than this run in all.
    low_slots: u32,
    /// So many of each priority may wait.
    room: u32,
    preempts: bool,
    /// Where jobs that give way are given up: does the server stop them?
    stops: Option<Stops>,
    /// By priority.
    running: [u32; 2],
    /// By priority: those that wait, in order.
    queues: [Line; 2],
    /// By priority: how many are in the delay queue.
    held: [u32; 2],
    delayed: Heaps<Timestamp>,
    /// Those of low priority that run, the last that began at the end. Only where they can be pre-empted.
    preemptible: Vec<JobId>,
    jobs: Vec<Job>,
    latencies: Latencies,
}

impl Stage {
    /// With so many slots, at least one, and room for so many jobs of each priority that wait.
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

    /// The same, where a job of low priority gives its slot at once to one of high priority.
    #[must_use]
    pub fn preemptive(self) -> Self {
        Self { preempts: true, ..self }
    }

    /// The same, before a server that cannot be changed: a job that gives its slot is given up there, and does not go
    /// on. Where the server is found to work on it, no job of low priority starts for a while.
    #[must_use]
    pub fn gives_up(self) -> Self {
        Self { preempts: true, stops: Some(Stops::default()), ..self }
    }

    /// The same, where jobs of high priority wait in these queues, which have bounds of their own. They are never
    /// pre-empted or delayed, and come with [`Self::dispatch_ranked`].
    #[must_use]
    pub fn ranked(self, queues: Queues) -> Self {
        Self { room: u32::MAX, queues: [Line::Ranked(queues), Line::default()], ..self }
    }

    /// From now on a workflow gets credits by this weight, where the jobs are ranked.
    pub fn set_weight(&mut self, workflow: u32, weight: f64) {
        if let Line::Ranked(queues) = &mut self.queues[0] {
            queues.set_weight(workflow, weight);
        }
    }

    /// How many jobs wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waits(0) + self.waits(1)
    }

    /// How many jobs run.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running[0] + self.running[1]
    }

    /// How many jobs of high priority run.
    #[must_use]
    pub fn running_high(&self) -> u32 {
        self.running[0]
    }

    /// How many jobs are there.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.running() + self.waiting()
    }

    /// How many jobs of high priority are there: those that one more of them may wait for.
    #[must_use]
    pub fn ahead(&self) -> u32 {
        self.running[0] + self.waits(0)
    }

    /// How many jobs may run at once.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// From now on so many may run, at least one. Those that run beyond it run on.
    pub fn set_slots(&mut self, slots: u32) {
        if let Some(stops) = self.stops.as_mut().filter(|_| slots != self.slots) {
            stops.reset();
        }
        self.slots = slots.max(1);
    }

    /// From now on jobs of low priority run only while at most this number run in all: beyond it, one gives its slot
    /// to a job of high priority although others are free.
    pub fn set_low_slots(&mut self, slots: u32) {
        self.low_slots = slots.max(1);
    }

    /// Has the server been found to work on what is given up? Then jobs of low priority wait.
    #[must_use]
    pub fn works_on(&self, now: Timestamp) -> bool {
        self.stops.as_ref().is_some_and(|stops| stops.rests(now))
    }

    /// When a delayed job is due next; [`Timestamp::NEVER`] where none is. [`Self::schedule`] then, at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Timestamp {
        self.delayed.first(0).map_or(Timestamp::NEVER, |(at, _)| at)
    }

    /// What a probe is answered: how many jobs are there that one more may wait for, and what jobs of late took
    /// from arrival to end, in ns, where about as many were there; 0 before the first.
    #[must_use]
    pub fn probe(&self) -> (u32, u64) {
        let in_flight = self.ahead();
        (in_flight, self.latencies.at(in_flight + 1))
    }

    fn waits(&self, class: usize) -> u32 {
        self.queues[class].len() + self.held[class]
    }

    /// A job arrives. It takes a slot when [`Self::schedule`] names it.
    ///
    /// # Errors
    /// Its queue is full.
    ///
    /// # Panics
    /// When a job of this name is there: a bug of the caller's.
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

    /// A job of a workflow arrives, where jobs are ranked: with its key, and with the work that is expected of it.
    ///
    /// # Errors
    /// As many wait as may.
    ///
    /// # Panics
    /// When a job of this name is there, or jobs are not ranked: a bug of the caller's.
    pub fn dispatch_ranked(
        &mut self,
        now: Timestamp,
        id: JobId,
        (workflow, key, cost_ns): (u32, u64, u64),
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

    /// Would one more of this priority run at once?
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

    /// The next job that takes a slot; none where every slot is taken or nothing waits that may take one.
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
            // At the most slots that there were: a stage with fewer has no place for another.
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

    /// Delayed jobs whose time has come wait from now on.
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

    /// A job that runs has come to where it can be interrupted, between two chunks: is it to be? Then it has
    /// given its slot to a job of high priority that waits, and is first in line.
    pub fn yields(&mut self, now: Timestamp, id: JobId) -> bool {
        let runs = |job: &&Job| job.state == State::Running && job.meta.priority == Priority::Low;
        let yields = self.jobs.get(id.index()).filter(runs).is_some() && !self.queues[0].is_empty();
        if yields {
            self.suspend(now, id);
        }
        yields
    }

    /// Does a job of high priority wait that one of low priority could make room for?
    #[must_use]
    pub fn could_yield(&self) -> bool {
        self.running[1] > 0 && !self.queues[0].is_empty()
    }

    /// The priority of a job that is there.
    #[must_use]
    pub fn priority(&self, id: JobId) -> Priority {
        self.jobs[id.index()].meta.priority
    }

    /// How long a job that is there has had a slot, in ns.
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

    /// A job that ran is done, or was stopped: what its response may say of the stage. None where no such job
    /// has run. One that is pre-empted when it has just come to its end is done as well.
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

    /// A job is needed no more. Purging it again changes nothing.
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
            // Its name may be another's before its turn comes.
            State::Waiting => self.queues[class].remove(id),
        }
        self.jobs[id.index()].state = State::Gone;
        Purged::Waited
    }
}
