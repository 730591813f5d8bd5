//! The queues of the workflows that share a resource: a heap each, under deficit round robin, or one for all.
//!
//! Source: document 002 §5.2.5, *Local scheduling policies*: every workflow that waits gets credits per round, in
//! proportion to its share, and pays with them the expected cost of what it is served. Credits are work, in ns. A
//! workflow that has nothing that waits keeps none: what it did not use it cannot save up.
//!
//! A round gives [`Queues::QUANTUM_NS`] per unit of weight; where no workflow of a round can pay for its next
//! sub-task, so many rounds are given at once that one can.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Discipline;
use crate::heap::Heaps;

/// As many of its workflow wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Clone, Copy, Debug)]
struct Share {
    weight: f64,
    credits_ns: f64,
}

/// Sub-tasks that wait, by dense names that the caller chooses.
#[derive(Clone, Debug)]
pub struct Queues {
    discipline: Discipline,
    is_fair: bool,
    room: u32,
    /// By workflow, or one; keys and then the order of arrival.
    heaps: Heaps<(u64, u64)>,
    shares: Vec<Share>,
    /// Workflows that wait, the one whose turn it is first.
    turns: VecDeque<u32>,
    /// By name: the heap it is in, and its expected cost.
    tasks: Vec<(u32, f64)>,
    arrivals: u64,
    waiting: u32,
}

impl Queues {
    /// The credits of a round, per unit of weight, in ns of work.
    pub const QUANTUM_NS: f64 = 1e6;

    /// With room for so many that wait: of each workflow where it is fair between them, of all where it is not.
    #[must_use]
    pub fn new(discipline: Discipline, is_fair: bool, room: u32) -> Self {
        Self {
            discipline,
            is_fair,
            room,
            heaps: Heaps::new(1),
            shares: alloc::vec![Share { weight: 1.0, credits_ns: 0.0 }],
            turns: VecDeque::new(),
            tasks: Vec::new(),
            arrivals: 0,
            waiting: 0,
        }
    }

    /// What orders the sub-tasks of a workflow.
    #[must_use]
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.waiting
    }

    /// Does none wait?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many of a workflow wait; of all, where it is not fair between them.
    #[must_use]
    pub fn len_of(&self, workflow: u32) -> u32 {
        let heap = self.heap_of(workflow);
        if heap < self.shares.len() { self.heaps.len(heap) as u32 } else { 0 }
    }

    /// From now on a workflow gets credits by this weight, above 0.
    pub fn set_weight(&mut self, workflow: u32, weight: f64) {
        let heap = self.heap_of(workflow);
        self.grow(heap);
        self.shares[heap].weight = weight.clamp(1e-6, 1e6);
    }

    fn heap_of(&self, workflow: u32) -> usize {
        if self.is_fair { workflow as usize } else { 0 }
    }

    fn grow(&mut self, heap: usize) {
        if heap >= self.shares.len() {
            self.shares.resize(heap + 1, Share { weight: 1.0, credits_ns: 0.0 });
            self.heaps.grow(heap + 1);
        }
    }

    /// A sub-task waits, whose work is expected to be so much, in ns.
    ///
    /// # Errors
    /// As many wait as may.
    pub fn push(&mut self, task: u32, workflow: u32, key: u64, cost_ns: u64) -> Result<(), Full> {
        let heap = self.heap_of(workflow);
        self.grow(heap);
        if self.heaps.len(heap) >= self.room as usize {
            return Err(Full);
        }
        if task as usize >= self.tasks.len() {
            self.tasks.resize(task as usize + 1, (0, 0.0));
        }
        self.tasks[task as usize] = (heap as u32, cost_ns.max(1) as f64);
        if self.heaps.is_empty(heap) {
            self.turns.push_back(heap as u32);
        }
        self.heaps.insert(heap, (key, self.arrivals), task);
        self.arrivals += 1;
        self.waiting += 1;
        Ok(())
    }

    /// The next sub-task leaves its queue.
    pub fn pop(&mut self) -> Option<u32> {
        let heap = if self.is_fair { self.next_turn()? } else { 0 };
        let (_, task) = self.heaps.first(heap)?;
        if self.is_fair {
            self.shares[heap].credits_ns -= self.tasks[task as usize].1;
        }
        self.take(heap, task);
        Some(task)
    }

    /// The first workflow of the round that can pay for its next sub-task.
    fn next_turn(&mut self) -> Option<usize> {
        let mut has_skipped = false;
        // Once around, and once more after as many rounds as one of them lacks.
        for _ in 0..=2 * self.turns.len() {
            let heap = *self.turns.front()? as usize;
            if self.lacks_ns(heap) <= 0.0 {
                return Some(heap);
            }
            self.turns.rotate_left(1);
            let share = &mut self.shares[heap];
            share.credits_ns += share.weight * Self::QUANTUM_NS;
            // Once: then one of them lacks less than a round.
            let next_lacks = |&next: &u32| self.lacks_ns(next as usize) > 0.0;
            if !has_skipped && self.turns.front().is_some_and(next_lacks) {
                self.skip_rounds();
                has_skipped = true;
            }
        }
        // Only where credits are too many for a float to count.
        self.turns.front().map(|&heap| heap as usize)
    }

    fn lacks_ns(&self, heap: usize) -> f64 {
        let cost = self.heaps.first(heap).map_or(0.0, |(_, task)| self.tasks[task as usize].1);
        cost - self.shares[heap].credits_ns
    }

    /// Where each workflow lacks more than a round gives it: all the rounds but the last that the nearest one needs.
    fn skip_rounds(&mut self) {
        let rounds_of = |heap: &u32| {
            let per_round = self.shares[*heap as usize].weight * Self::QUANTUM_NS;
            (self.lacks_ns(*heap as usize) / per_round) as u64
        };
        let rounds = self.turns.iter().map(rounds_of).min().unwrap_or(0) as f64;
        if rounds > 0.0 {
            for &heap in &self.turns {
                let share = &mut self.shares[heap as usize];
                share.credits_ns += rounds * share.weight * Self::QUANTUM_NS;
            }
        }
    }

    /// A sub-task that waits leaves; false where it is not there.
    pub fn remove(&mut self, task: u32) -> bool {
        let is_there = self.heaps.contains(task);
        if is_there {
            self.take(self.tasks[task as usize].0 as usize, task);
        }
        is_there
    }

    fn take(&mut self, heap: usize, task: u32) {
        self.heaps.remove(heap, task);
        self.waiting -= 1;
        if self.heaps.is_empty(heap) {
            self.shares[heap].credits_ns = 0.0;
            // Mostly it is its turn.
            match self.turns.front() {
                Some(&first) if first as usize == heap => {
                    self.turns.pop_front();
                }
                _ => self.turns.retain(|&waiting| waiting as usize != heap),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn drain(queues: &mut Queues) -> Vec<u32> {
        core::iter::from_fn(|| queues.pop()).collect()
    }

    #[test]
    fn workflows_get_work_by_weight_whatever_their_tasks_cost() {
        let mut queues = Queues::new(Discipline::Fifo, true, 10_000);
        queues.set_weight(1, 3.0);
        // Workflow 0 has tasks of 7 ms, workflow 1 of 0.5 ms.
        for task in 0..400 {
            queues.push(task, 0, 0, 7 * MS).expect("there is room");
        }
        for task in 400..6_400 {
            queues.push(task, 1, 0, MS / 2).expect("there is room");
        }
        let mut work = [0, 0];
        while work[0] + work[1] < 2_000 * MS {
            let task = queues.pop().expect("both wait");
            if task < 400 { work[0] += 7 * MS } else { work[1] += MS / 2 }
        }
        let ratio = work[1] as f64 / work[0] as f64;
        assert!((2.9..3.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn long_tasks_do_not_take_a_round_each() {
        let mut queues = Queues::new(Discipline::Fifo, true, 10);
        for workflow in 0..5 {
            queues.push(workflow, workflow, 0, 3_600_000 * MS).expect("there is room");
        }
        assert_eq!(drain(&mut queues).len(), 5);
    }

    #[test]
    fn a_workflow_that_was_idle_has_saved_nothing() {
        let mut queues = Queues::new(Discipline::Fifo, true, 100);
        for task in 0..20 {
            queues.push(task, 0, 0, MS).expect("there is room");
        }
        assert_eq!((0..10).filter_map(|_| queues.pop()).count(), 10);
        for task in 20..30 {
            queues.push(task, 1, 0, MS).expect("there is room");
        }
        let next: Vec<u32> = (0..10).filter_map(|_| queues.pop()).collect();
        let second = next.iter().filter(|&&task| task >= 20).count();
        assert!((4..=6).contains(&second), "{next:?}");
    }

    #[test]
    fn the_least_key_of_a_workflow_is_first_and_one_heap_serves_all_where_it_is_not_fair() {
        for (is_fair, expected) in [(true, [1, 2, 0, 3]), (false, [2, 3, 1, 0])] {
            let mut queues = Queues::new(Discipline::Edf, is_fair, 2 + 2 * u32::from(!is_fair));
            for (task, workflow, key) in [(0, 0, 9), (1, 0, 5), (2, 1, 1), (3, 1, 3)] {
                queues.push(task, workflow, key, MS).expect("there is room");
            }
            assert_eq!(queues.push(4, 0, 0, MS), Err(Full));
            assert_eq!(drain(&mut queues), expected, "{is_fair}");
        }
    }

    #[test]
    fn what_is_removed_is_not_served() {
        let mut queues = Queues::new(Discipline::Fifo, true, 9);
        (0..4).for_each(|task| queues.push(task, task % 2, 0, MS).expect("there is room"));
        assert!(queues.remove(1) && queues.remove(3) && !queues.remove(3));
        assert_eq!((queues.len(), queues.len_of(1), queues.len_of(7)), (2, 0, 0));
        assert_eq!(drain(&mut queues), [0, 2]);
        assert_eq!(queues.pop(), None);
    }
}
