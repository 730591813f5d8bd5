//! The servers that clients share: the kernel's stage in front of slots whose speed changes with time.
//!
//! A job has work; on a server of speed s it is done after work / s. When the speed changes, what is left of a
//! job that runs is done at the new one. Cost: O(log jobs that run) per job, and O(slots) per change.

use curtail_dist::seed;
use curtail_kernel::stage::{Admission, JobId, Stage};
use curtail_kernel::{Feedback, Timestamp};
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::agenda::{Agenda, NEVER};
use crate::shared::Fluctuation;

/// A job in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    job: u32,
    copy: u32,
    /// Work left at `since`, in ns at speed 1.
    left: f64,
    since: u64,
    begun: u64,
}

struct Server {
    stage: Stage,
    speed: f64,
    /// By job: the copy that it is, and its work.
    jobs: Vec<(u32, f64)>,
    /// Names of jobs that may be used again.
    free: Vec<u32>,
}

pub(super) struct Servers {
    servers: Vec<Server>,
    slots: usize,
    /// By slot, those of a server together: when its job ends.
    ends: Agenda,
    /// By slot: its job.
    running: Vec<Running>,
    fluctuation: Option<Fluctuation>,
    rng: Pcg64Mcg,
    next_change: u64,
    /// Time that slots were busy, of jobs that have ended.
    pub(super) busy_ns: u128,
}

impl Servers {
    pub(super) fn new(
        (count, slots, room): (u32, u32, u32),
        speed: f64,
        fluctuation: Option<Fluctuation>,
        seed: u64,
    ) -> Self {
        let server = |_| Server {
            stage: Stage::new(slots, room),
            speed,
            jobs: Vec::new(),
            free: Vec::new(),
        };
        let all = count as usize * slots as usize;
        let mut servers = Self {
            servers: (0..count).map(server).collect(),
            slots: slots as usize,
            ends: Agenda::new(all),
            running: vec![Running::default(); all],
            fluctuation,
            rng: seed::rng(seed),
            next_change: if fluctuation.is_some() { 0 } else { NEVER },
            busy_ns: 0,
        };
        servers.change(0);
        servers
    }

    /// When a job ends next; [`NEVER`] where none runs.
    #[inline(always)]
    pub(super) fn next_end(&self) -> u64 {
        self.ends.first().0
    }

    #[inline(always)]
    pub(super) fn next_change(&self) -> u64 {
        self.next_change
    }

    /// Requests at a server.
    pub(super) fn outstanding(&self, server: u32) -> u32 {
        self.servers[server as usize].stage.outstanding()
    }

    /// What it answers to a probe.
    pub(super) fn probe(&self, server: u32) -> (u32, u64) {
        self.servers[server as usize].stage.probe()
    }

    pub(super) fn speed(&self, server: u32) -> f64 {
        self.servers[server as usize].speed
    }

    /// A copy with so much work arrives; its name there, as long as it is.
    pub(super) fn arrive(
        &mut self,
        now: u64,
        server: u32,
        copy: u32,
        work_ns: f64,
    ) -> (u32, Admission) {
        let of = &mut self.servers[server as usize];
        let job = of.free.pop().unwrap_or(of.jobs.len() as u32);
        if job as usize == of.jobs.len() {
            of.jobs.push((copy, work_ns));
        }
        of.jobs[job as usize] = (copy, work_ns);
        let admission = of.stage.arrive(Timestamp(now), JobId(job));
        match admission {
            Admission::Waits => {}
            Admission::Refused => of.free.push(job),
            Admission::Starts => {
                let mut slots = self.slots_of(server as usize);
                let slot = slots.find(|&slot| self.ends.due(slot) == NEVER).expect("one is free");
                let end = self.begin(now, slot, job);
                self.ends.add(slot, end);
            }
        }
        (job, admission)
    }

    fn slots_of(&self, server: usize) -> std::ops::Range<usize> {
        server * self.slots..(server + 1) * self.slots
    }

    /// A job begins in a slot; when it ends.
    fn begin(&mut self, now: u64, slot: usize, job: u32) -> u64 {
        let server = &self.servers[slot / self.slots];
        let (copy, left) = server.jobs[job as usize];
        self.running[slot] = Running { job, copy, left, since: now, begun: now };
        end(now, left, server.speed)
    }

    /// The copy that ends first, which ends now; what its response says, and the copy that begins.
    pub(super) fn end_first(&mut self, now: u64) -> Option<(u32, Feedback, Option<u32>)> {
        let (at, slot) = self.ends.first();
        (at != NEVER).then(|| {
            let copy = self.running[slot].copy;
            let (feedback, next) = self.leave(now, slot);
            (copy, feedback, next)
        })
    }

    /// A copy leaves, whether it is done or not; none if it does not run.
    pub(super) fn stop(
        &mut self,
        now: u64,
        server: u32,
        copy: u32,
    ) -> Option<(Feedback, Option<u32>)> {
        let is_it = |&slot: &usize| self.ends.due(slot) != NEVER && self.running[slot].copy == copy;
        let slot = self.slots_of(server as usize).find(is_it)?;
        Some(self.leave(now, slot))
    }

    fn leave(&mut self, now: u64, slot: usize) -> (Feedback, Option<u32>) {
        let Running { job, begun, .. } = self.running[slot];
        let server = &mut self.servers[slot / self.slots];
        let left = server.stage.finish(Timestamp(now), JobId(job)).expect("it runs");
        server.free.push(job);
        self.busy_ns += u128::from(now - begun);
        let end = left.next.map_or(NEVER, |next| self.begin(now, slot, next.0));
        self.ends.set(slot, end);
        (left.feedback, left.next.map(|_| self.running[slot].copy))
    }

    /// A copy that waits leaves; false if it does not wait.
    pub(super) fn withdraw(&mut self, server: u32, job: u32, copy: u32) -> bool {
        let server = &mut self.servers[server as usize];
        // The name may be another's, or not given yet.
        let is_it = server.jobs.get(job as usize).is_some_and(|of| of.0 == copy);
        let waits = is_it && server.stage.withdraw(JobId(job));
        if waits {
            server.free.push(job);
        }
        waits
    }

    /// Time that slots have been busy with jobs that run, in ns.
    pub(super) fn running_ns(&self, now: u64) -> u128 {
        let slots = self.running.iter().enumerate();
        let running = slots.filter(|&(slot, _)| self.ends.due(slot) != NEVER);
        running.map(|(_, job)| u128::from(now.saturating_sub(job.begun))).sum()
    }

    /// Every server draws its speed.
    pub(super) fn change(&mut self, now: u64) {
        let Some(Fluctuation { factor, period_ns }) = self.fluctuation else { return };
        self.next_change = now + period_ns;
        for at in 0..self.servers.len() {
            let fast = self.rng.next_u64() >> 63 == 1;
            self.set_speed(now, at, if fast { factor } else { 1.0 });
        }
    }

    /// A server works at another speed from now on.
    pub(super) fn set_speed(&mut self, now: u64, at: usize, speed: f64) {
        let before = std::mem::replace(&mut self.servers[at].speed, speed);
        if before == speed {
            return;
        }
        for slot in self.slots_of(at) {
            if self.ends.due(slot) != NEVER {
                let running = &mut self.running[slot];
                running.left = (running.left - (now - running.since) as f64 * before).max(0.0);
                running.since = now;
                self.ends.set(slot, end(now, running.left, speed));
            }
        }
    }
}

fn end(now: u64, work_ns: f64, speed: f64) -> u64 {
    now.saturating_add((work_ns / speed) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_done_at_the_new_speed() {
        let mut servers = Servers::new((1, 2, 9), 1.0, None, 1);
        assert_eq!(servers.arrive(0, 0, 5, 100.0).1, Admission::Starts);
        assert_eq!(servers.arrive(10, 0, 2, 30.0).1, Admission::Starts);
        let (waits, admission) = servers.arrive(10, 0, 7, 40.0);
        assert_eq!((admission, servers.next_end()), (Admission::Waits, 40));
        servers.set_speed(20, 0, 2.0);
        assert_eq!(servers.next_end(), 30, "20 of 30 are left");
        let feedback = Feedback { queue: 2, service_ns: 20 };
        assert_eq!(servers.end_first(30), Some((2, feedback, Some(7))));
        assert!(!servers.withdraw(0, waits, 7), "it runs");
        assert_eq!(servers.next_end(), 50, "at the speed that it begins with");
        assert_eq!(servers.end_first(50).expect("it ends").0, 7);
        assert_eq!(servers.next_end(), 60, "80 of 100 were left at 20");
        assert!(servers.stop(55, 0, 5).is_some() && servers.stop(55, 0, 5).is_none());
        assert_eq!((servers.next_end(), servers.busy_ns), (NEVER, 20 + 20 + 55));
    }
}
