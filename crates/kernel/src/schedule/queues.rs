//! The queues of the workflows that share a resource: one heap per workflow under deficit round
//! robin, or one heap for all.
//!
//! Source: document 002 §5.2.5, *Local scheduling policies*. In each round, every waiting workflow
//! gets credits in proportion to its weight. Serving a sub-task costs its workflow the expected
//! work. Credits are measured in ns of work. A workflow without waiting sub-tasks loses its
//! credits, so it cannot save them up.
//!
//! A round gives [`Queues::QUANTUM_NS`] per unit of weight. If no workflow can pay for its next
//! sub-task, the credits of several rounds are given in one step, so that one of them can pay.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Discipline;
use crate::heap::Heaps;

/// The queue of the workflow is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Clone, Copy, Debug)]
struct Share {
    weight: f64,
    credits_ns: f64,
}

/// The waiting sub-tasks. Their ids are dense indices that the caller chooses.
#[derive(Clone, Debug)]
pub struct Queues {
    discipline: Discipline,
    is_fair: bool,
    room: u32,
    /// One heap per workflow, or one for all, ordered by key and then by arrival.
    heaps: Heaps<(u64, u64)>,
    shares: Vec<Share>,
    /// The workflows that wait. It is the turn of the first one.
    turns: VecDeque<u32>,
    /// The heap and the expected cost of each sub-task, by id.
    tasks: Vec<(u32, f64)>,
    arrivals: u64,
    waiting: u32,
}

impl Queues {
    /// The credits of a round per unit of weight, in ns of work.
    pub const QUANTUM_NS: f64 = 1e6;

    /// Creates queues with room for `room` waiting sub-tasks: per workflow if they are fair, in
    /// total if not.
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

    /// Returns the discipline that orders the sub-tasks of a workflow.
    #[must_use]
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// Returns the number of waiting sub-tasks.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.waiting
    }

    /// Whether no sub-task waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the number of waiting sub-tasks of a workflow, or of all workflows if the queues are
    /// not fair.
    #[must_use]
    pub fn len_of(&self, workflow: u32) -> u32 {
        let heap = self.heap_of(workflow);
        if heap < self.shares.len() { self.heaps.len(heap) as u32 } else { 0 }
    }

    /// Sets the weight that determines a workflow's credits. It is clamped to the range from 1e-6
    /// to 1e6.
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

    /// Adds a sub-task whose expected work is `cost_ns`.
    ///
    /// # Errors
    /// Its queue is full.
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

    /// Removes and returns the next sub-task.
    pub fn pop(&mut self) -> Option<u32> {
        let heap = if self.is_fair { self.next_turn()? } else { 0 };
        let (_, task) = self.heaps.first(heap)?;
        if self.is_fair {
            self.shares[heap].credits_ns -= self.tasks[task as usize].1;
        }
        self.take(heap, task);
        Some(task)
    }

    /// Returns the first workflow in the round that can pay for its next sub-task.
    fn next_turn(&mut self) -> Option<usize> {
        let mut has_skipped = false;
        // Go around once, and once more after skipping the rounds in which no workflow could pay.
        for _ in 0..=2 * self.turns.len() {
            let heap = *self.turns.front()? as usize;
            if self.lacks_ns(heap) <= 0.0 {
                return Some(heap);
            }
            self.turns.rotate_left(1);
            let share = &mut self.shares[heap];
            share.credits_ns += share.weight * Self::QUANTUM_NS;
            // Skip at most once. After that, one workflow needs less than a round.
            let next_lacks = |&next: &u32| self.lacks_ns(next as usize) > 0.0;
            if !has_skipped && self.turns.front().is_some_and(next_lacks) {
                self.skip_rounds();
                has_skipped = true;
            }
        }
        // This is reached only if credits exceed the precision of a float.
        self.turns.front().map(|&heap| heap as usize)
    }

    fn lacks_ns(&self, heap: usize) -> f64 {
        let cost = self.heaps.first(heap).map_or(0.0, |(_, task)| self.tasks[task as usize].1);
        cost - self.shares[heap].credits_ns
    }

    /// Gives every workflow, in one step, the credits of those rounds in which no workflow could
    /// pay for its next sub-task.
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

    /// Removes a waiting sub-task. Returns false if it is not there.
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
            // Usually it is this workflow's turn.
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
        // The tasks of workflow 0 take 7 ms, and those of workflow 1 take 0.5 ms.
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
    fn a_removed_task_is_not_served() {
        let mut queues = Queues::new(Discipline::Fifo, true, 9);
        (0..4).for_each(|task| queues.push(task, task % 2, 0, MS).expect("there is room"));
        assert!(queues.remove(1) && queues.remove(3) && !queues.remove(3));
        assert_eq!((queues.len(), queues.len_of(1), queues.len_of(7)), (2, 0, 0));
        assert_eq!(drain(&mut queues), [0, 2]);
        assert_eq!(queues.pop(), None);
    }
}
