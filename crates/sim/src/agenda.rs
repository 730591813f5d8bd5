//! Finds the earliest of a fixed number of due times, one per place.
//!
//! When a place is given a due time, only this time is compared with the current earliest one, in
//! O(1). For any other change, an agenda with up to [`SCANNED`] places compares all due times, in
//! O(places) and without a branch that depends on the times. This is cheaper than keeping the due
//! times in order. A larger agenda is a tournament: a tree in which each node holds the earlier of
//! its two children. A change costs O(log places), again without such a branch.

use std::hint::select_unpredictable;

/// Later than everything.
pub(crate) const NEVER: u64 = u64::MAX;

const SCANNED: usize = 2 * STEP;
/// The number of places that the scan compares per step.
const STEP: usize = 8;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// The due time of each place. An agenda of more than two places is padded with places that are
    /// never due.
    due: Vec<u64>,
    /// The tree without its leaves, with the root at index 1, if there are more than [`SCANNED`]
    /// places. Each node contains the due time and the place of the earlier of its two children.
    tree: Vec<(u64, usize)>,
    first: (u64, usize),
}

impl Agenda {
    pub(crate) fn new(places: usize) -> Self {
        let padded = match places {
            2 => 2,
            ..=SCANNED => places.next_multiple_of(STEP),
            _ => places.next_power_of_two(),
        };
        let nodes = if padded > SCANNED { padded } else { 0 };
        let tree = vec![(NEVER, 0); nodes];
        Self { due: vec![NEVER; padded], tree, first: (NEVER, 0) }
    }

    /// Returns the due time of a place, or [`NEVER`].
    #[inline(always)]
    pub(crate) fn due(&self, place: usize) -> u64 {
        self.due[place]
    }

    /// Sets the due time of a place that had none.
    #[inline(always)]
    pub(crate) fn add(&mut self, place: usize, at: u64) {
        debug_assert_eq!(self.due[place], NEVER, "a place is added once");
        self.due[place] = at;
        if !self.tree.is_empty() {
            self.first = self.play(place);
            return;
        }
        // If the times are equal, the lower place wins, as in `earlier`. Like `earlier`, this code
        // compiles to conditional moves.
        let key = |(at, place): (u64, usize)| u128::from(at) << 64 | place as u128;
        let is_first = key((at, place)) < key(self.first);
        self.first = select_unpredictable(is_first, (at, place), self.first);
    }

    /// Moves or clears the due time of a place.
    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, at: u64) {
        self.due[place] = at;
        self.first = match &self.due[..] {
            &[left, right] => earlier((left, 0), (right, 1)),
            due if due.len() <= SCANNED => least(due),
            _ => self.play(place),
        };
    }

    /// Returns the earliest due time and its place. The time is [`NEVER`] if no place is due. If
    /// the times are equal, the lowest place comes first.
    #[inline(always)]
    pub(crate) fn first(&self) -> (u64, usize) {
        self.first
    }

    /// Replays the matches from a changed place up to the root.
    #[inline(never)]
    fn play(&mut self, place: usize) -> (u64, usize) {
        let Self { due, tree, .. } = self;
        let left = place & !1;
        let mut first = earlier((due[left], left), (due[left + 1], left + 1));
        let mut node = (due.len() + place) / 2;
        while node > 1 {
            tree[node] = first;
            let other = tree[node ^ 1];
            first = if node & 1 == 0 { earlier(first, other) } else { earlier(other, first) };
            node /= 2;
        }
        first
    }
}

#[inline(never)]
fn least(due: &[u64]) -> (u64, usize) {
    let (steps, _) = due.as_chunks::<STEP>();
    let mut first = (NEVER, 0);
    for (step, from) in steps.iter().zip((0_usize..).step_by(STEP)) {
        let [a, b, c, d, e, f, g, h] = *step;
        let pair = |left, right, at| earlier((left, from + at), (right, from + at + 1));
        let left = earlier(pair(a, b, 0), pair(c, d, 2));
        let right = earlier(pair(e, f, 4), pair(g, h, 6));
        first = earlier(first, earlier(left, right));
    }
    first
}

/// Returns the earlier of two due times with their places, or the left one if the times are equal.
/// The result is unpredictable, so this code must compile to conditional moves instead of branches.
#[inline(always)]
fn earlier(left: (u64, usize), right: (u64, usize)) -> (u64, usize) {
    let is_right = right.0 < left.0;
    (if is_right { right.0 } else { left.0 }, if is_right { right.1 } else { left.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_scan() {
        for places in [1, 2, 3, 8, 17, 40, 200] {
            let mut agenda = Agenda::new(places);
            assert_eq!(agenda.first().0, NEVER);
            let mut state = 7_u64;
            for _ in 0..2_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (state >> 33) as usize % places;
                let is_due = agenda.due(place) != NEVER;
                let at = if is_due && state >> 62 == 0 { NEVER } else { (state >> 40) & 0xff };
                match agenda.due(place) {
                    NEVER => agenda.add(place, at),
                    _ => agenda.set(place, at),
                }
                let least = (0..places).map(|place| (agenda.due(place), place)).min();
                let (at, place) = least.expect("places");
                assert_eq!(agenda.first().0, at);
                if at != NEVER {
                    assert_eq!(agenda.first().1, place);
                }
            }
        }
    }
}
