//! Who is to be woken when, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Weak;

use tokio::time::Instant;

use super::Due;

/// To be woken at a time.
pub(super) struct Wish {
    pub(super) at: Instant,
    pub(super) who: Weak<dyn Due>,
}

impl PartialEq for Wish {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Wish {}

impl PartialOrd for Wish {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wish {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// All wishes. O(log n) to add and to take.
#[derive(Default)]
pub(super) struct Wishes(BinaryHeap<Reverse<Wish>>);

impl Wishes {
    /// True if it is now the first.
    pub(super) fn add(&mut self, wish: Wish) -> bool {
        let first = self.first().is_none_or(|first| wish.at < first);
        self.0.push(Reverse(wish));
        first
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse(wish)| wish.at)
    }

    /// The first, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Weak<dyn Due>> {
        let due = self.first().is_some_and(|first| first <= now);
        if due { self.0.pop().map(|Reverse(wish)| wish.who) } else { None }
    }
}
