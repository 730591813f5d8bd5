//! Which sub-task a resource serves next: the disciplines of a queue that several workflows share.
//!
//! Source: document 002 §5.2.5, Algorithm 5 and Table 5.3. A discipline turns what is known of a request into a key,
//! and the least key is served first. Keys do not change while a sub-task waits: time passes for all alike, so the
//! deadline and the slack are kept as points in time.
//!
//! Settled, where the source contradicts itself: least attained service first goes by the service time in Algorithm 5
//! and by the work in Table 5.3. It goes by the work here, because the policy favors those that took little from the
//! system, and a request with hundreds of parallel sub-tasks took much of it in a short time.
//!
//! Cost: O(log sub-tasks that wait) per change. Under fair queuing one more round over the workflows that wait, where
//! no workflow has the credits for its next sub-task.

mod progress;
mod queues;

use core::fmt;

use crate::time::Timestamp;

pub use progress::{Progress, Spent, Totals};
pub use queues::{Full, Queues};

/// What orders sub-tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First come, first served.
    #[default]
    Fifo,
    /// Earliest deadline first.
    Edf,
    /// Least slack time first: the slack is what the deadline leaves after the service time that remains.
    Lstf,
    /// Shortest remaining (service) time first.
    Srtf,
    /// Least attained service first: that which took the least work so far.
    Lasf,
    /// Shortest job first, by the total work.
    Sjf,
    /// The highest priority of its workflow first, strictly.
    Strict,
}

impl Discipline {
    /// All, with their names.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Fifo, "fifo"),
        (Self::Edf, "edf"),
        (Self::Lstf, "lstf"),
        (Self::Srtf, "srtf"),
        (Self::Lasf, "lasf"),
        (Self::Sjf, "sjf"),
        (Self::Strict, "strict"),
    ];

    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(discipline, _)| discipline)
    }

    /// The key of a sub-task that comes now; equal ones are served in the order of arrival.
    #[must_use]
    pub fn key(self, now: Timestamp, task: &Standing) -> u64 {
        let deadline = task.deadline.0;
        let remaining = task.progress.remaining_service_ns();
        match self {
            Self::Fifo => now.0,
            Self::Edf => deadline,
            // Without a deadline, last; one that cannot be met any more has no slack, and is first.
            Self::Lstf if deadline == u64::MAX => deadline,
            Self::Lstf => deadline.saturating_sub(remaining),
            Self::Srtf => remaining,
            Self::Lasf => task.progress.elapsed_work_ns(),
            Self::Sjf => task.progress.total_work_ns,
            Self::Strict => u64::from(u32::MAX - task.priority),
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(of, _)| of == self).map_or("", |&(_, name)| name);
        f.write_str(name)
    }
}

/// What disciplines know of a sub-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// When its request is late, by the clock of this process; [`Timestamp::NEVER`] where it never is.
    pub deadline: Timestamp,
    /// How far its request has come.
    pub progress: Progress,
    /// Of its workflow; larger ones come first.
    pub priority: u32,
}

impl Default for Standing {
    fn default() -> Self {
        Self { deadline: Timestamp::NEVER, progress: Progress::default(), priority: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_discipline_goes_by_its_own_measure() {
        let progress = |total, work, elapsed| Progress {
            total_service_ns: total,
            total_work_ns: work,
            upstream: Spent { service_ns: elapsed, work_ns: 2 * elapsed },
            ..Progress::default()
        };
        let task =
            |at, progress, priority| Standing { deadline: Timestamp(at), progress, priority };
        // Late and nearly done; early and long; no deadline at all.
        let tasks = [
            task(900, progress(100, 500, 90), 1),
            task(1_000, progress(400, 400, 10), 3),
            task(u64::MAX, progress(50, 700, 0), 2),
        ];
        let first = |discipline: Discipline| {
            let key = |&at: &usize| discipline.key(Timestamp(5), &tasks[at]);
            (0..3).min_by_key(key).expect("there are three")
        };
        assert_eq!(first(Discipline::Edf), 0);
        assert_eq!(first(Discipline::Lstf), 1, "610 and not 890");
        assert_eq!(first(Discipline::Srtf), 0, "10 remain");
        assert_eq!(first(Discipline::Lasf), 2);
        assert_eq!(first(Discipline::Sjf), 1);
        assert_eq!(first(Discipline::Strict), 1);
        assert!(Discipline::ALL.iter().all(|&(of, name)| Discipline::named(name) == Some(of)));
    }
}
