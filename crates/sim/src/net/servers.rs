//! The stages that copies pass through: the kernel's stage in front of slots whose speed changes
//! over time.
//!
//! A job has work, and a stage with speed s completes it after work / s. When the speed changes, a
//! running job performs the rest of its work at the new speed. A pre-empted job performs the rest
//! of its work when it resumes. Cost: O(log running jobs) per job, and O(slots) per speed change.

use curtail_dist::seed;
use curtail_kernel::stage::{JobId, Metadata, Priority, ProbeReply, Purged, Refused, Stage};
use curtail_kernel::{Feedback, Timestamp};
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::agenda::{Agenda, Due, NEVER};
use crate::part::Executed;
use crate::pool::Pool;
use crate::world::Speed;

/// The stages to create.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    pub(super) count: u32,
    /// Slots per stage.
    pub(super) slots: u32,
    /// The maximum number of waiting jobs per stage.
    pub(super) queue: u32,
    /// Interval, in ns, at which a low-priority job can be interrupted, counted from the time at
    /// which it began to run. The value 0 means that it can be interrupted at any time.
    pub(super) chunk_ns: u64,
    /// The time that it takes to stop a running job, in ns.
    pub(super) stop_ns: u64,
    pub(super) speed: Speed,
    /// The number of stages whose speed changes, if it does. They come first. The others have speed
    /// 1.
    pub(super) changing: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Job {
    copy: u32,
    /// Remaining work, in ns at speed 1. It was last updated when the job began to run, was ordered
    /// to stop, or was interrupted.
    left: f64,
    /// Whether the job is stopping. If so, `left` is the work that stopping takes.
    stopping: bool,
}

/// A job in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    name: u32,
    job: Job,
    /// The time to which `job.left` refers.
    since: u64,
    begun: u64,
    /// The time at which the job is done, unless it is interrupted first.
    end: u64,
    is_low: bool,
}

struct Server {
    stage: Stage,
    speed: f64,
    jobs: Pool<Job>,
}

/// The outcome of a job that was due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ended {
    /// Its copy is done at this stage.
    Done { copy: u32, feedback: Feedback },
    /// Its copy was stopped and has ended.
    Stopped { copy: u32 },
    /// The job was interrupted, or could have been interrupted.
    Nothing,
}

pub(super) struct Servers {
    stages: Stages,
    servers: Vec<Server>,
    /// Slots per stage.
    slots: usize,
    /// For each slot, the time at which its job ends or can be interrupted for a waiting job. The
    /// slots of a stage are adjacent.
    ends: Agenda,
    /// The job in each slot.
    running: Vec<Running>,
    /// Copies that began in the last call.
    pub(super) begun: Vec<u32>,
    rng: Pcg64Mcg,
    next_change: u64,
    /// For each stage, the time that its slots have spent on jobs that have ended.
    busy_ns: Vec<u128>,
}

impl Servers {
    pub(super) fn new(stages: Stages, seed: u64) -> Self {
        let Stages { count, slots, queue, chunk_ns, speed, .. } = stages;
        let stage = || {
            let stage = Stage::new(slots, queue);
            if chunk_ns == 0 { stage.preemptive() } else { stage }
        };
        let (base, next_change) = match speed {
            Speed::Constant(base) => (base, NEVER),
            Speed::Changing { .. } => (1.0, 0),
        };
        let server = |_| Server { stage: stage(), speed: base, jobs: Pool::new() };
        let all = count as usize * slots as usize;
        let mut servers = Self {
            stages,
            servers: (0..count).map(server).collect(),
            slots: slots as usize,
            ends: Agenda::new(all),
            running: vec![Running::default(); all],
            begun: Vec::new(),
            rng: seed::rng(seed),
            next_change,
            busy_ns: vec![0; count as usize],
        };
        servers.change(0);
        servers
    }

    /// Returns the next time at which a job ends or can be interrupted for another, or [`NEVER`] if
    /// none is running.
    #[inline(always)]
    pub(super) fn next_end(&self) -> u64 {
        self.ends.first().at
    }

    #[inline(always)]
    pub(super) fn next_change(&self) -> u64 {
        self.next_change
    }

    /// Returns the number of high-priority requests at a server. A further request may have to wait
    /// for them.
    pub(super) fn ahead(&self, server: u32) -> u32 {
        self.servers[server as usize].stage.ahead()
    }

    /// Returns the number of requests at a server.
    pub(super) fn outstanding(&self, server: u32) -> u32 {
        self.servers[server as usize].stage.outstanding()
    }

    /// Returns a server's response to a probe.
    pub(super) fn probe(&self, server: u32) -> ProbeReply {
        self.servers[server as usize].stage.probe()
    }

    pub(super) fn speed(&self, server: u32) -> f64 {
        self.servers[server as usize].speed
    }

    /// Adds a copy to a stage and returns the number of its job, valid while the job is there.
    pub(super) fn arrive(
        &mut self,
        now: u64,
        server: u32,
        copy: u32,
        work_ns: f64,
        priority: Priority,
    ) -> Result<u32, Refused> {
        let of = &mut self.servers[server as usize];
        let job = of.jobs.add(Job { copy, left: work_ns, stopping: false });
        self.begun.clear();
        if let Err(refused) = of.stage.dispatch(Timestamp(now), JobId(job), Metadata::of(priority))
        {
            of.jobs.free(job);
            return Err(refused);
        }
        self.schedule(now, server as usize);
        Ok(job)
    }

    fn slots_of(&self, server: usize) -> std::ops::Range<usize> {
        server * self.slots..(server + 1) * self.slots
    }

    /// Starts all jobs that may run.
    fn schedule(&mut self, now: u64, server: usize) {
        while let Some(scheduled) = self.servers[server].stage.schedule(Timestamp(now)) {
            let mut slots = self.slots_of(server);
            let is_place = |&slot: &usize| match scheduled.preempts {
                Some(low) => self.ends.due(slot) != NEVER && self.running[slot].name == low.0,
                None => self.ends.due(slot) == NEVER,
            };
            let slot = slots.find(is_place).expect("the stage counts its slots");
            if scheduled.preempts.is_some() {
                self.interrupt(now, slot);
            }
            let JobId(name) = scheduled.job;
            let of = &self.servers[server];
            let job = of.jobs[name];
            let is_low = of.stage.priority(scheduled.job) == Priority::Low;
            let end = end(now, job.left, of.speed);
            self.running[slot] = Running { name, job, since: now, begun: now, end, is_low };
            self.place(slot, end);
            if !scheduled.resumes {
                self.begun.push(job.copy);
            }
        }
        let waits = self.stages.chunk_ns != 0 && self.servers[server].stage.could_yield();
        if waits {
            self.request_yield(now, server);
        }
    }

    fn place(&mut self, slot: usize, due: u64) {
        match self.ends.due(slot) {
            NEVER => self.ends.add(slot, due),
            _ => self.ends.set(slot, due),
        }
    }

    /// Makes each low-priority job stop at the end of its current chunk, because another job is
    /// waiting for a slot.
    fn request_yield(&mut self, now: u64, server: usize) {
        let chunk = self.stages.chunk_ns;
        for slot in self.slots_of(server) {
            let Running { begun, end, is_low, job, .. } = self.running[slot];
            if self.ends.due(slot) != NEVER && is_low && !job.stopping {
                let chunks = (now - begun).div_ceil(chunk).max(1);
                let border = begun.saturating_add(chunks.saturating_mul(chunk));
                self.ends.set(slot, end.min(border));
            }
        }
    }

    /// Removes a job from its slot and stores its remaining work.
    fn interrupt(&mut self, now: u64, slot: usize) {
        let Running { name, job, since, begun, .. } = self.running[slot];
        let server = slot / self.slots;
        let of = &mut self.servers[server];
        let left = (job.left - (now - since) as f64 * of.speed).max(0.0);
        of.jobs[name] = Job { left, ..job };
        self.busy_ns[server] += u128::from(now - begun);
        self.ends.set(slot, NEVER);
    }

    /// Handles the first due slot. Returns its stage and the outcome of its job.
    pub(super) fn end_first(&mut self, now: u64) -> Option<(u32, Ended)> {
        let Due { at, place: slot } = self.ends.first();
        if at == NEVER {
            return None;
        }
        self.begun.clear();
        let server = slot / self.slots;
        let Running { name, job: Job { copy, stopping, .. }, end, .. } = self.running[slot];
        if now < end {
            if self.servers[server].stage.yields(Timestamp(now), JobId(name)) {
                self.interrupt(now, slot);
                self.schedule(now, server);
            } else {
                self.ends.set(slot, end);
            }
            return Some((server as u32, Ended::Nothing));
        }
        let feedback = self.leave(now, slot);
        let ended = if stopping { Ended::Stopped { copy } } else { Ended::Done { copy, feedback } };
        Some((server as u32, ended))
    }

    fn leave(&mut self, now: u64, slot: usize) -> Feedback {
        let Running { name, begun, .. } = self.running[slot];
        let at = slot / self.slots;
        let server = &mut self.servers[at];
        let feedback = server.stage.finish(Timestamp(now), JobId(name)).expect("it runs");
        server.jobs.free(name);
        self.busy_ns[at] += u128::from(now - begun);
        self.ends.set(slot, NEVER);
        self.schedule(now, at);
        feedback
    }

    /// Purges a copy that is no longer needed. Returns whether it left immediately. A running copy
    /// may leave later, as [`Ended::Stopped`]. A copy that is not at this stage does not leave.
    pub(super) fn purge(&mut self, now: u64, server: u32, job: u32, copy: u32) -> bool {
        self.begun.clear();
        let of = &mut self.servers[server as usize];
        // The number may belong to another job or to no job yet.
        if of.jobs.get(job).is_none_or(|of| of.copy != copy) {
            return false;
        }
        match of.stage.purge(JobId(job)) {
            Purged::NotHere => false,
            Purged::Waited => {
                of.jobs.free(job);
                true
            }
            Purged::Runs => {
                let runs =
                    |&slot: &usize| self.ends.due(slot) != NEVER && self.running[slot].name == job;
                let slot = self.slots_of(server as usize).find(runs).expect("it has a slot");
                let stop_ns = self.stages.stop_ns;
                if stop_ns == 0 {
                    self.leave(now, slot);
                } else if !self.running[slot].job.stopping {
                    let left = stop_ns as f64 * self.servers[server as usize].speed;
                    let running = &mut self.running[slot];
                    running.job = Job { copy, left, stopping: true };
                    (running.since, running.end) = (now, now.saturating_add(stop_ns));
                    self.ends.set(slot, running.end);
                }
                stop_ns == 0
            }
        }
    }

    /// Returns the time at which a running copy ends if nothing interferes, or [`NEVER`] if it is
    /// not running.
    pub(super) fn end_of(&self, server: u32, copy: u32) -> u64 {
        let mut slots = self.slots_of(server as usize);
        let is_it =
            |&slot: &usize| self.ends.due(slot) != NEVER && self.running[slot].job.copy == copy;
        slots.find(is_it).map_or(NEVER, |slot| self.running[slot].end)
    }

    /// Returns the number of slots per stage.
    pub(super) fn slots(&self) -> u128 {
        self.slots as u128
    }

    /// Returns the time that the slots of these stages have spent on jobs.
    pub(super) fn executed(&self, now: u64, stages: std::ops::Range<usize>) -> Executed {
        let slots = stages.start * self.slots..stages.end * self.slots;
        let running = slots.filter(|&slot| self.ends.due(slot) != NEVER);
        let running = running.map(|slot| u128::from(now.saturating_sub(self.running[slot].begun)));
        Executed { ended_ns: self.busy_ns[stages].iter().sum(), running_ns: running.sum() }
    }

    /// Draws a speed for every server that fluctuates.
    pub(super) fn change(&mut self, now: u64) {
        let Speed::Changing { factor, period_ns } = self.stages.speed else { return };
        self.next_change = now + period_ns;
        for at in 0..self.stages.changing as usize {
            let fast = self.rng.next_u64() >> 63 == 1;
            self.set_speed(now, at, if fast { factor } else { 1.0 });
        }
    }

    /// Sets the speed of a server from now on.
    pub(super) fn set_speed(&mut self, now: u64, at: usize, speed: f64) {
        let before = std::mem::replace(&mut self.servers[at].speed, speed);
        if before == speed {
            return;
        }
        for slot in self.slots_of(at) {
            let running = &mut self.running[slot];
            if self.ends.due(slot) != NEVER && !running.job.stopping {
                let yields_early = self.ends.due(slot) < running.end;
                let left = &mut running.job.left;
                *left = (*left - (now - running.since) as f64 * before).max(0.0);
                running.since = now;
                running.end = end(now, *left, speed);
                let due =
                    if yields_early { self.ends.due(slot).min(running.end) } else { running.end };
                self.ends.set(slot, due);
            }
        }
    }
}

fn end(now: u64, work_ns: f64, speed: f64) -> u64 {
    // If a job had no end, its slot would look idle.
    now.saturating_add((work_ns / speed) as u64).min(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Stages = Stages {
        count: 1,
        slots: 1,
        queue: 9,
        chunk_ns: 0,
        stop_ns: 0,
        speed: Speed::Constant(1.0),
        changing: 0,
    };
    const HIGH: Priority = Priority::High;
    const LOW: Priority = Priority::Low;

    fn busy(servers: &Servers, now: u64) -> [u128; 2] {
        let Executed { ended_ns, running_ns } = servers.executed(now, 0..1);
        [ended_ns, running_ns]
    }

    fn done(copy: u32, queue: u32, service_ns: u64) -> Option<(u32, Ended)> {
        Some((0, Ended::Done { copy, feedback: Feedback { queue, service_ns } }))
    }

    #[test]
    fn remaining_work_continues_at_the_new_speed() {
        let mut servers = Servers::new(Stages { slots: 2, ..ONE }, 1);
        servers.arrive(0, 0, 5, 100.0, HIGH).expect("it runs");
        servers.arrive(10, 0, 2, 30.0, HIGH).expect("it runs");
        assert_eq!(servers.begun, [2]);
        let waits = servers.arrive(10, 0, 7, 40.0, HIGH).expect("it waits");
        assert_eq!((servers.begun.len(), servers.next_end()), (0, 40));
        servers.set_speed(20, 0, 2.0);
        assert_eq!(servers.next_end(), 30, "20 of 30 are left");
        assert_eq!(servers.end_first(30), done(2, 2, 20));
        assert_eq!((&servers.begun[..], servers.next_end()), (&[7][..], 50));
        assert_eq!(servers.end_first(50), done(7, 1, 20));
        assert_eq!(servers.next_end(), 60, "80 of 100 were left at 20");
        assert!(!servers.purge(55, 0, waits, 7), "it is gone");
        assert!(servers.purge(55, 0, 0, 5) && !servers.purge(55, 0, 0, 5));
        assert_eq!((servers.next_end(), busy(&servers, 60)), (NEVER, [20 + 20 + 55, 0]));
    }

    #[test]
    fn a_duplicate_gives_way_at_once_and_goes_on_where_it_was() {
        let mut servers = Servers::new(ONE, 1);
        servers.arrive(0, 0, 1, 100.0, LOW).expect("it runs");
        servers.arrive(30, 0, 2, 50.0, HIGH).expect("it runs");
        assert_eq!((&servers.begun[..], servers.next_end()), (&[2][..], 80));
        assert_eq!(servers.end_first(80), done(2, 0, 50));
        assert!(servers.begun.is_empty(), "it has begun before");
        assert_eq!(servers.next_end(), 150, "70 of 100 were left");
        assert_eq!(servers.end_first(150), done(1, 0, 100));
        assert_eq!(busy(&servers, 150), [150, 0]);
    }

    #[test]
    fn between_chunks_it_gives_way_and_without_chunks_never() {
        for (chunk_ns, first) in [(40, 40), (u64::MAX, 100)] {
            let mut servers = Servers::new(Stages { chunk_ns, ..ONE }, 1);
            servers.arrive(0, 0, 1, 100.0, LOW).expect("it runs");
            servers.arrive(10, 0, 2, 50.0, HIGH).expect("it waits");
            assert_eq!(servers.next_end(), first);
            let is_done = first == 100;
            let ended = servers.end_first(first);
            assert_eq!(ended == Some((0, Ended::Nothing)), !is_done);
            assert_eq!((&servers.begun[..], servers.next_end()), (&[2][..], first + 50));
            servers.end_first(first + 50).expect("it ends");
            assert_eq!(servers.next_end(), if is_done { NEVER } else { 150 });
        }
    }

    #[test]
    fn stopping_takes_time_and_happens_once() {
        let mut servers = Servers::new(Stages { stop_ns: 5, ..ONE }, 1);
        let job = servers.arrive(0, 0, 1, 100.0, HIGH).expect("it runs");
        assert!(!servers.purge(10, 0, job, 1) && !servers.purge(12, 0, job, 1));
        assert_eq!(servers.next_end(), 15);
        assert_eq!(servers.end_first(15), Some((0, Ended::Stopped { copy: 1 })));
        assert_eq!((servers.next_end(), servers.outstanding(0)), (NEVER, 0));
    }

    #[test]
    fn a_duplicate_that_is_stopping_stops_after_it_was_pre_empted() {
        let mut servers = Servers::new(Stages { stop_ns: 10, ..ONE }, 1);
        let job = servers.arrive(0, 0, 1, 100.0, LOW).expect("it runs");
        assert!(!servers.purge(20, 0, job, 1));
        servers.arrive(24, 0, 2, 50.0, HIGH).expect("it runs");
        assert_eq!(servers.end_first(74), done(2, 0, 50));
        assert_eq!(servers.next_end(), 80, "6 of 10 were left");
        assert_eq!(servers.end_first(80), Some((0, Ended::Stopped { copy: 1 })));
    }
}
