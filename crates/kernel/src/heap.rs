//! A family of indexed binary heaps over one dense id space.
//!
//! Each id is in at most one heap of the family, and can be removed from any position. These heaps
//! are used for timers, for the running queries of each group by age, and for hedged pairs by the
//! time that stopping one copy would save. O(log n) per change, O(1) for the minimum, no allocation
//! after warm-up.

use alloc::vec;
use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// A family of min-heaps with keys `K` over dense ids.
#[derive(Clone, Debug)]
pub struct Heaps<K> {
    heaps: Vec<Vec<(K, u32)>>,
    /// The position of each id in its heap.
    position: Vec<u32>,
    entries: usize,
}

impl<K: Copy + Ord> Heaps<K> {
    /// Creates `count` empty heaps.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { heaps: vec![Vec::new(); count], position: Vec::new(), entries: 0 }
    }

    /// Grows the family to at least `count` heaps.
    pub fn grow(&mut self, count: usize) {
        if self.heaps.len() < count {
            self.heaps.resize(count, Vec::new());
        }
    }

    /// Returns the minimum of a heap.
    #[must_use]
    pub fn first(&self, heap: usize) -> Option<(K, u32)> {
        self.heaps[heap].first().copied()
    }

    /// Whether the heap is empty.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self, heap: usize) -> bool {
        self.heaps[heap].is_empty()
    }

    /// Whether all heaps are empty.
    #[inline(always)]
    #[must_use]
    pub fn are_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether the id is in a heap of the family.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.position.get(id as usize).is_some_and(|&at| at != ABSENT)
    }

    /// Returns the number of entries in a heap.
    #[must_use]
    pub fn len(&self, heap: usize) -> usize {
        self.heaps[heap].len()
    }

    /// Whether the id is in this heap of the family.
    #[must_use]
    pub fn holds(&self, heap: usize, id: u32) -> bool {
        let at = self.position.get(id as usize).copied().unwrap_or(ABSENT);
        self.heaps[heap].get(at as usize).is_some_and(|entry| entry.1 == id)
    }

    /// Inserts an id into a heap.
    ///
    /// # Panics
    /// If the id is already in a heap of the family, which is a bug in the caller.
    pub fn insert(&mut self, heap: usize, key: K, id: u32) {
        let Some(position) = self.position.get_mut(id as usize) else {
            return self.insert_new(heap, key, id);
        };
        assert!(*position == ABSENT, "id {id} is in a heap already");
        let items = &mut self.heaps[heap];
        let at = items.len();
        *position = at as u32;
        self.entries += 1;
        items.push((key, id));
        // Usually the heap is empty, or keys are inserted in order of time.
        if at > 0 && (key, id) < items[(at - 1) / 2] {
            self.rise(heap, at);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_new(&mut self, heap: usize, key: K, id: u32) {
        self.position.resize(id as usize + 1, ABSENT);
        self.insert(heap, key, id);
    }

    /// Removes an id from the heap that contains it. Returns false if it is in no heap.
    #[inline(always)]
    pub fn remove(&mut self, heap: usize, id: u32) -> bool {
        let is_there = self.contains(id);
        if is_there {
            self.take(heap, id);
        }
        is_there
    }

    #[inline(never)]
    fn take(&mut self, heap: usize, id: u32) {
        let at = core::mem::replace(&mut self.position[id as usize], ABSENT) as usize;
        let items = &mut self.heaps[heap];
        let last = items.pop().expect("an id with a position is in its heap");
        self.entries -= 1;
        if at < items.len() {
            items[at] = last;
            self.position[last.1 as usize] = at as u32;
            let at = self.rise(heap, at);
            self.sink(heap, at);
        }
    }

    /// Returns the least entry with a `wanted` id. If k entries of the heap are not wanted, it
    /// visits at most 2 k + 1 entries.
    #[inline(always)]
    pub fn first_where(
        &self,
        heap: usize,
        mut wanted: impl FnMut(u32) -> bool,
    ) -> Option<(K, u32)> {
        let items = &self.heaps[heap];
        // Usually the heap is empty, or the first entry is wanted.
        let &(key, id) = items.first()?;
        if wanted(id) {
            return Some((key, id));
        }
        if items.len() == 1 {
            return None;
        }
        self.search(heap, wanted)
    }

    /// Like [`Self::first_where`], but searches only the entries after the first.
    #[inline(never)]
    fn search(&self, heap: usize, mut wanted: impl FnMut(u32) -> bool) -> Option<(K, u32)> {
        let items = &self.heaps[heap];
        let mut best: Option<(K, u32)> = None;
        let mut open = Frontier::new();
        open.push(1);
        open.push(2);
        while let Some(at) = open.pop() {
            let Some(&(key, id)) = items.get(at) else { continue };
            if best.is_some_and(|(least, _)| least <= key) {
                continue;
            }
            if wanted(id) {
                best = Some((key, id));
            } else {
                open.push(2 * at + 1);
                open.push(2 * at + 2);
            }
        }
        best
    }

    fn rise(&mut self, heap: usize, mut at: usize) -> usize {
        let items = &mut self.heaps[heap];
        while at > 0 {
            let parent = (at - 1) / 2;
            if items[parent] <= items[at] {
                break;
            }
            items.swap(parent, at);
            self.position[items[at].1 as usize] = at as u32;
            self.position[items[parent].1 as usize] = parent as u32;
            at = parent;
        }
        at
    }

    fn sink(&mut self, heap: usize, mut at: usize) {
        let items = &mut self.heaps[heap];
        loop {
            let mut least = 2 * at + 1;
            if least >= items.len() {
                break;
            }
            if least + 1 < items.len() && items[least + 1] < items[least] {
                least += 1;
            }
            if items[at] <= items[least] {
                break;
            }
            items.swap(at, least);
            self.position[items[at].1 as usize] = at as u32;
            self.position[items[least].1 as usize] = least as u32;
            at = least;
        }
    }
}

/// The nodes that have not been visited yet. The first 16 are on the stack.
struct Frontier {
    near: [usize; 16],
    used: usize,
    far: Vec<usize>,
}

impl Frontier {
    fn new() -> Self {
        Self { near: [0; 16], used: 0, far: Vec::new() }
    }

    fn push(&mut self, at: usize) {
        if self.used < self.near.len() {
            self.near[self.used] = at;
            self.used += 1;
        } else {
            self.far.push(at);
        }
    }

    fn pop(&mut self) -> Option<usize> {
        if let Some(at) = self.far.pop() {
            return Some(at);
        }
        self.used = self.used.checked_sub(1)?;
        Some(self.near[self.used])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng as _;

    #[test]
    fn agrees_with_a_sorted_list_under_random_changes() {
        let mut rng = crate::rng(7);
        let mut heaps: Heaps<u64> = Heaps::new(2);
        let mut model: Vec<Vec<(u64, u32)>> = vec![Vec::new(), Vec::new()];
        for _ in 0..20_000 {
            let id = rng.next_u32() % 40;
            let which = (rng.next_u32() % 2) as usize;
            if let Some(heap) = model.iter().position(|m| m.iter().any(|e| e.1 == id)) {
                assert!(heaps.contains(id));
                assert!(heaps.remove(heap, id));
                model[heap].retain(|e| e.1 != id);
            } else {
                assert!(!heaps.remove(which, id));
                let key = rng.next_u64() % 16;
                heaps.insert(which, key, id);
                model[which].push((key, id));
            }
            for (heap, entries) in model.iter().enumerate() {
                let least = entries.iter().min().copied();
                assert_eq!(heaps.first(heap), least);
                let odd = entries.iter().filter(|e| e.1 % 2 == 1).map(|e| e.0).min();
                let found = heaps.first_where(heap, |id| id % 2 == 1);
                assert_eq!(found.map(|e| e.0), odd);
                assert_eq!(heaps.is_empty(heap), entries.is_empty());
            }
            assert_eq!(heaps.are_empty(), model.iter().all(Vec::is_empty));
        }
    }
}
