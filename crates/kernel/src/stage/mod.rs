//! The server side: the queue before a server's slots, sans I/O, as a state machine that meters itself.
//!
//! Simulated servers and the search leaf run this code, so what a client hears from either means the same.
//! Jobs are named by the caller, densely, and free to be used again when they have left. First come, first
//! served. Cost: O(1) per call; memory: O(jobs at once).
//!
//! ```
//! use curtail_kernel::Timestamp;
//! use curtail_kernel::stage::{Admission, JobId, Stage};
//!
//! let mut stage = Stage::new(1, 1); // one slot, and room for one that waits
//! assert_eq!(stage.arrive(Timestamp(0), JobId(0)), Admission::Starts);
//! assert_eq!(stage.arrive(Timestamp(5), JobId(1)), Admission::Waits);
//! assert_eq!(stage.arrive(Timestamp(5), JobId(2)), Admission::Refused);
//! let left = stage.finish(Timestamp(8), JobId(0)).expect("it ran");
//! assert_eq!((left.feedback.service_ns, left.feedback.queue), (8, 1));
//! assert_eq!(left.next, Some(JobId(1)), "it starts now");
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::event::Feedback;
use crate::time::Timestamp;

/// A job at a stage: a dense index that the caller chooses, unique among those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(pub u32);

impl JobId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What became of a job that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It runs.
    Starts,
    /// It waits, and starts as the `next` of a job that leaves.
    Waits,
    /// As many wait as may; it is not there.
    Refused,
}

/// A job has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// What its response may say of the stage.
    pub feedback: Feedback,
    /// The job that starts in its place.
    pub next: Option<JobId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Gone,
    Waiting,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    state: State,
    arrived: Timestamp,
    began: Timestamp,
    /// Those that were there when it arrived, itself included.
    in_flight: u32,
}

/// The queue and the slots of a server.
#[derive(Clone, Debug)]
pub struct Stage {
    slots: u32,
    /// So many may wait.
    room: u32,
    running: u32,
    /// Those that wait, oldest first.
    queue: VecDeque<JobId>,
    waiting: u32,
    jobs: Vec<Job>,
    latencies: Latencies,
}

/// What jobs take from arrival to end, by how many were there: averages over the last few, by powers of two.
#[derive(Clone, Copy, Debug, Default)]
struct Latencies([f64; 24]);

impl Latencies {
    const WEIGHT: f64 = 0.2;

    fn class(in_flight: u32) -> usize {
        (in_flight.max(1).ilog2() as usize).min(23)
    }

    fn add(&mut self, in_flight: u32, took_ns: u64) {
        let (of, took) = (&mut self.0[Self::class(in_flight)], took_ns as f64);
        *of = if *of == 0.0 { took } else { *of + Self::WEIGHT * (took - *of) };
    }

    /// Of the class, or of the nearest that is known; 0 where none is.
    fn at(&self, in_flight: u32) -> u64 {
        let class = Self::class(in_flight);
        let known = (0..self.0.len()).filter(|&other| self.0[other] > 0.0);
        known.min_by_key(|other| other.abs_diff(class)).map_or(0, |at| self.0[at] as u64)
    }
}

impl Stage {
    /// With so many slots, at least one, and room for so many that wait.
    #[must_use]
    pub fn new(slots: u32, room: u32) -> Self {
        let (queue, jobs) = (VecDeque::new(), Vec::new());
        let latencies = Latencies::default();
        Self { slots: slots.max(1), room, running: 0, queue, waiting: 0, jobs, latencies }
    }

    /// How many jobs wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// How many jobs run.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running
    }

    /// How many jobs are there.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.running + self.waiting
    }

    /// What a probe is answered: how many jobs are there, and what jobs of late took from arrival to end,
    /// in ns, where about as many were there; 0 before the first.
    #[must_use]
    pub fn probe(&self) -> (u32, u64) {
        let in_flight = self.outstanding();
        (in_flight, self.latencies.at(in_flight + 1))
    }

    /// A job arrives.
    ///
    /// # Panics
    /// When a job of this name is there: a bug of the caller's.
    pub fn arrive(&mut self, now: Timestamp, id: JobId) -> Admission {
        const GONE: Job = Job {
            state: State::Gone,
            arrived: Timestamp::NEVER,
            began: Timestamp::NEVER,
            in_flight: 0,
        };
        let in_flight = self.outstanding() + 1;
        if id.index() >= self.jobs.len() {
            self.jobs.resize(id.index() + 1, GONE);
        }
        let job = &mut self.jobs[id.index()];
        assert!(job.state == State::Gone, "job {} is there already", id.0);
        let starts = self.running < self.slots;
        if !starts && self.waiting >= self.room {
            return Admission::Refused;
        }
        let state = if starts { State::Running } else { State::Waiting };
        *job = Job { state, arrived: now, began: now, in_flight };
        if starts {
            self.running += 1;
            return Admission::Starts;
        }
        self.waiting += 1;
        self.queue.push_back(id);
        Admission::Waits
    }

    /// A job that ran is done, or was stopped; none where no such job runs.
    pub fn finish(&mut self, now: Timestamp, id: JobId) -> Option<Left> {
        let job = self.jobs.get_mut(id.index()).filter(|job| job.state == State::Running)?;
        job.state = State::Gone;
        let service_ns = now.since(job.began);
        self.latencies.add(job.in_flight, now.since(job.arrived));
        self.running -= 1;
        let feedback = Feedback { queue: self.outstanding(), service_ns };
        Some(Left { feedback, next: self.start_next(now) })
    }

    /// A job that waits leaves unserved; false where no such job waits. O(jobs that wait).
    pub fn withdraw(&mut self, id: JobId) -> bool {
        let job = self.jobs.get_mut(id.index()).filter(|job| job.state == State::Waiting);
        let Some(job) = job else { return false };
        job.state = State::Gone;
        self.waiting -= 1;
        // Its name may be another's before its turn comes.
        self.queue.retain(|&other| other != id);
        true
    }

    fn start_next(&mut self, now: Timestamp) -> Option<JobId> {
        let next = self.queue.pop_front()?;
        let job = &mut self.jobs[next.index()];
        (job.state, job.began) = (State::Running, now);
        self.waiting -= 1;
        self.running += 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);

    #[test]
    fn jobs_are_served_in_order_and_names_may_be_used_again() {
        let mut stage = Stage::new(2, 10);
        for id in 0..5 {
            let starts = stage.arrive(Timestamp(id.into()), JobId(id)) == Admission::Starts;
            assert_eq!(starts, id < 2);
        }
        assert!(stage.withdraw(JobId(3)) && !stage.withdraw(JobId(3)), "it leaves once");
        assert!(!stage.withdraw(JobId(0)), "it runs");
        assert_eq!(stage.arrive(NOW, JobId(3)), Admission::Waits);
        let mut order = Vec::new();
        let mut ends = Vec::from([JobId(1), JobId(0)]);
        while let Some(id) = ends.pop() {
            let left = stage.finish(Timestamp(10), id).expect("it runs");
            assert_eq!(
                left.feedback.queue,
                stage.outstanding(),
                "with those that it makes room for"
            );
            order.extend(left.next);
            ends.extend(left.next);
        }
        assert_eq!(order, [JobId(2), JobId(4), JobId(3)]);
        assert_eq!(stage.outstanding(), 0);
        assert_eq!(stage.finish(NOW, JobId(0)), None, "a late report changes nothing");
    }

    #[test]
    fn a_probe_says_what_jobs_took_at_that_load() {
        let mut stage = Stage::new(1, 10);
        assert_eq!(stage.probe(), (0, 0));
        stage.arrive(Timestamp(0), JobId(0));
        stage.finish(Timestamp(100), JobId(0)).expect("it runs");
        assert_eq!(stage.probe(), (0, 100));
        for id in 0..8 {
            stage.arrive(Timestamp(100), JobId(id));
        }
        for id in 0..8 {
            stage.finish(Timestamp(200 + 100 * u64::from(id)), JobId(id)).expect("it runs");
        }
        assert_eq!(stage.probe(), (0, 100), "alone");
        for id in 0..7 {
            stage.arrive(Timestamp(1_000), JobId(id));
        }
        let (in_flight, latency_ns) = stage.probe();
        assert!(in_flight == 7 && latency_ns > 700, "{latency_ns}: in line");
    }

    #[test]
    fn feedback_leaves_the_wait_out() {
        let mut stage = Stage::new(1, 10);
        stage.arrive(Timestamp(0), JobId(0));
        stage.arrive(Timestamp(1), JobId(1));
        stage.arrive(Timestamp(2), JobId(2));
        let left = stage.finish(Timestamp(100), JobId(0)).expect("it runs");
        assert_eq!(left.feedback, Feedback { queue: 2, service_ns: 100 });
        let left = stage.finish(Timestamp(130), JobId(1)).expect("it runs");
        assert_eq!(left.feedback, Feedback { queue: 1, service_ns: 30 });
    }
}
