//! Scheduling disciplines: which sub-task a resource serves next, if several workflows share its
//! queue.
//!
//! Source: document 002 §5.2.5, Algorithm 5 and Table 5.3. A discipline maps the metadata of a
//! request to a key, and the least key is served first. Keys do not change while a sub-task waits:
//! time passes equally for all, so the deadline and the slack are stored as points in time.
//!
//! The source contradicts itself: the discipline "least attained service first" uses the service
//! time in Algorithm 5, but the work in Table 5.3. Curtail uses the work. The policy is meant to
//! favor requests that have taken few resources, and a request with hundreds of parallel sub-tasks
//! takes many in a short time.
//!
//! Cost: O(log waiting sub-tasks) per change. Fair queuing adds one round over the waiting
//! workflows if none of them has enough credits for its next sub-task.

mod progress;
mod queues;

use core::fmt;

use crate::time::Timestamp;

pub use progress::{Progress, Spent, Totals};
pub use queues::{Full, Queues};

/// The order of sub-tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First come, first served.
    #[default]
    Fifo,
    /// Earliest deadline first.
    Edf,
    /// Least slack time first. The slack is the time until the deadline minus the remaining service
    /// time.
    Lstf,
    /// Shortest remaining (service) time first.
    Srtf,
    /// Least attained service first: the request that has taken the least work so far.
    Lasf,
    /// Shortest job first, by the total work.
    Sjf,
    /// Strict priority: the sub-task whose workflow has the highest priority first.
    Strict,
}

impl Discipline {
    /// All disciplines, with their names.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Fifo, "fifo"),
        (Self::Edf, "edf"),
        (Self::Lstf, "lstf"),
        (Self::Srtf, "srtf"),
        (Self::Lasf, "lasf"),
        (Self::Sjf, "sjf"),
        (Self::Strict, "strict"),
    ];

    /// Returns the discipline with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(discipline, _)| discipline)
    }

    /// Returns the key of a sub-task that arrives now. Sub-tasks with equal keys are served in the
    /// order of arrival.
    #[must_use]
    pub fn key(self, now: Timestamp, task: &Standing) -> u64 {
        let deadline = task.deadline.0;
        let remaining = task.progress.remaining_service_ns();
        match self {
            Self::Fifo => now.0,
            Self::Edf => deadline,
            // A request without a deadline comes last. A request that can no longer meet its
            // deadline has no slack, and comes first.
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

/// The metadata of a sub-task that disciplines use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The deadline of its request, by the clock of this process, or [`Timestamp::NEVER`].
    pub deadline: Timestamp,
    /// The progress of the sub-task's request.
    pub progress: Progress,
    /// The priority of the sub-task's workflow. Larger values come first.
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
    fn each_discipline_orders_by_its_own_measure() {
        let progress = |total, work, elapsed| Progress {
            total_service_ns: total,
            total_work_ns: work,
            upstream: Spent { service_ns: elapsed, work_ns: 2 * elapsed },
            ..Progress::default()
        };
        let task =
            |at, progress, priority| Standing { deadline: Timestamp(at), progress, priority };
        // One task is late and nearly done, one is early and long, and one has no deadline.
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
