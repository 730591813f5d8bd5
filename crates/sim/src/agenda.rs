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

/// The due time of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) at: u64,
    pub(crate) place: usize,
}

impl Due {
    const NEVER: Self = Self { at: NEVER, place: 0 };
}

#[derive(Debug)]
pub(crate) struct Agenda {
    /// The due time of each place. An agenda of more than two places is padded with places that are
    /// never due.
    due: Vec<u64>,
    /// The tree without its leaves, with the root at index 1, if there are more than [`SCANNED`]
    /// places. Each node contains the due time and the place of the earlier of its two children.
    tree: Vec<Due>,
    first: Due,
}

impl Agenda {
    pub(crate) fn new(places: usize) -> Self {
        let padded = match places {
            2 => 2,
            ..=SCANNED => places.next_multiple_of(STEP),
            _ => places.next_power_of_two(),
        };
        let nodes = if padded > SCANNED { padded } else { 0 };
        Self { due: vec![NEVER; padded], tree: vec![Due::NEVER; nodes], first: Due::NEVER }
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
        let key = |Due { at, place }: Due| u128::from(at) << 64 | place as u128;
        let due = Due { at, place };
        self.first = select_unpredictable(key(due) < key(self.first), due, self.first);
    }

    /// Moves or clears the due time of a place.
    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, at: u64) {
        self.due[place] = at;
        self.first = match &self.due[..] {
            &[left, right] => earlier(Due { at: left, place: 0 }, Due { at: right, place: 1 }),
            due if due.len() <= SCANNED => least(due),
            _ => self.play(place),
        };
    }

    /// Returns the earliest due time and its place. The time is [`NEVER`] if no place is due. If
    /// the times are equal, the lowest place comes first.
    #[inline(always)]
    pub(crate) fn first(&self) -> Due {
        self.first
    }

    /// Replays the matches from a changed place up to the root.
    #[inline(never)]
    fn play(&mut self, place: usize) -> Due {
        let Self { due, tree, .. } = self;
        let left = place & !1;
        let of = |place| Due { at: due[place], place };
        let mut first = earlier(of(left), of(left + 1));
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
fn least(due: &[u64]) -> Due {
    let (steps, _) = due.as_chunks::<STEP>();
    let mut first = Due::NEVER;
    for (step, from) in steps.iter().zip((0_usize..).step_by(STEP)) {
        let [a, b, c, d, e, f, g, h] = *step;
        let of = |time, at| Due { at: time, place: from + at };
        let pair = |left, right, at| earlier(of(left, at), of(right, at + 1));
        let left = earlier(pair(a, b, 0), pair(c, d, 2));
        let right = earlier(pair(e, f, 4), pair(g, h, 6));
        first = earlier(first, earlier(left, right));
    }
    first
}

/// Returns the earlier of two due times with their places, or the left one if the times are equal.
/// The result is unpredictable, so this code must compile to conditional moves instead of branches.
#[inline(always)]
fn earlier(left: Due, right: Due) -> Due {
    let is_right = right.at < left.at;
    Due {
        at: if is_right { right.at } else { left.at },
        place: if is_right { right.place } else { left.place },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_scan() {
        for places in [1, 2, 3, 8, 17, 40, 200] {
            let mut agenda = Agenda::new(places);
            assert_eq!(agenda.first().at, NEVER);
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
                assert_eq!(agenda.first().at, at);
                if at != NEVER {
                    assert_eq!(agenda.first().place, place);
                }
            }
        }
    }
}
