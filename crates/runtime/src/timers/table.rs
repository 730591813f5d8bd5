//! Timers and their owners, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Weak;

use tokio::time::Instant;

use super::OnTimeout;

/// To be woken at a time.
pub(super) struct TimerEntry {
    pub(super) at: Instant,
    pub(super) owner: Weak<dyn OnTimeout>,
}

impl PartialEq for TimerEntry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for TimerEntry {}

impl PartialOrd for TimerEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimerEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// All entries. O(log n) to add and to take.
#[derive(Default)]
pub(super) struct TimerTable(BinaryHeap<Reverse<TimerEntry>>);

impl TimerTable {
    /// True if it is now the first.
    pub(super) fn add(&mut self, entry: TimerEntry) -> bool {
        let first = self.first().is_none_or(|first| entry.at < first);
        self.0.push(Reverse(entry));
        first
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse(entry)| entry.at)
    }

    /// The first, if it is due.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Weak<dyn OnTimeout>> {
        let due = self.first().is_some_and(|first| first <= now);
        if due { self.0.pop().map(|Reverse(entry)| entry.owner) } else { None }
    }
}
