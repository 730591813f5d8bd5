//! The waiting jobs of one priority, either in the order of arrival or ranked in the queues of
//! several workflows.

use alloc::collections::VecDeque;

use super::JobId;
use crate::schedule::Queues;

#[derive(Clone, Debug)]
pub(super) enum Line {
    Fifo(VecDeque<JobId>),
    Ranked(Queues),
}

impl Default for Line {
    fn default() -> Self {
        Self::Fifo(VecDeque::new())
    }
}

impl Line {
    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Fifo(jobs) => jobs.len() as u32,
            Self::Ranked(queues) => queues.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Panics
    /// If jobs are ranked, because a ranked job needs a rank.
    pub(super) fn push_back(&mut self, id: JobId) {
        self.fifo().push_back(id);
    }

    /// # Panics
    /// If jobs are ranked, because ranked jobs are not pre-empted.
    pub(super) fn push_front(&mut self, id: JobId) {
        self.fifo().push_front(id);
    }

    fn fifo(&mut self) -> &mut VecDeque<JobId> {
        match self {
            Self::Fifo(jobs) => jobs,
            Self::Ranked(_) => panic!("jobs are ranked here"),
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<JobId> {
        match self {
            Self::Fifo(jobs) => jobs.pop_front(),
            Self::Ranked(queues) => queues.pop().map(JobId),
        }
    }

    pub(super) fn remove(&mut self, id: JobId) {
        match self {
            Self::Fifo(jobs) => jobs.retain(|&other| other != id),
            Self::Ranked(queues) => drop(queues.remove(id.0)),
        }
    }
}
