//! Which of some places is due first.
//!
//! A place that becomes due is compared with the first, O(1). When another change is made, few
//! places are compared with each other, without a jump that depends on the times: for up to
//! [`SCANNED`] that is cheaper than keeping an order, O(places). More are kept in a heap, O(log
//! places) per change.

use std::hint::select_unpredictable;

use curtail_kernel::Heaps;

/// Later than everything.
pub(crate) const NEVER: u64 = u64::MAX;

const SCANNED: usize = 2 * STEP;
/// So many at a time.
const STEP: usize = 8;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// By place. Where they are compared and more than two, some are added that are never due.
    due: Vec<u64>,
    /// Where there are too many to compare: those that are due at all.
    order: Heaps<u64>,
    first: (u64, usize),
}

impl Agenda {
    pub(crate) fn new(places: usize) -> Self {
        let padded = if places == 2 { 2 } else { places.next_multiple_of(STEP) };
        Self { due: vec![NEVER; padded], order: Heaps::new(1), first: (NEVER, 0) }
    }

    /// When a place is due; [`NEVER`] when it is not.
    #[inline(always)]
    pub(crate) fn due(&self, place: usize) -> u64 {
        self.due[place]
    }

    /// A place becomes due that was not.
    #[inline(always)]
    pub(crate) fn add(&mut self, place: usize, at: u64) {
        debug_assert_eq!(self.due[place], NEVER, "a place is added once");
        self.due[place] = at;
        if self.due.len() > SCANNED {
            self.order.insert(0, at, place as u32);
        }
        // Of two at the same time the one on the left, as `earlier` has it; and as this does, with
        // moves.
        let key = |(at, place): (u64, usize)| u128::from(at) << 64 | place as u128;
        let is_first = key((at, place)) < key(self.first);
        self.first = select_unpredictable(is_first, (at, place), self.first);
    }

    /// A place becomes due at another time, or is not due any more.
    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, at: u64) {
        self.due[place] = at;
        self.first = match &self.due[..] {
            &[left, right] => earlier((left, 0), (right, 1)),
            due if due.len() <= SCANNED => least(due),
            _ => self.sort(place, at),
        };
    }

    /// The place that is due first and when; [`NEVER`] where none is. Ties go to the first place.
    #[inline(always)]
    pub(crate) fn first(&self) -> (u64, usize) {
        self.first
    }

    #[inline(never)]
    fn sort(&mut self, place: usize, at: u64) -> (u64, usize) {
        let order = &mut self.order;
        order.remove(0, place as u32);
        if at != NEVER {
            order.insert(0, at, place as u32);
        }
        order.first(0).map_or((NEVER, 0), |(at, place)| (at, place as usize))
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

/// The first of two; the one on the left where they are due at the same time. Which one it is
/// cannot be predicted, so this is to compile to moves, and not to jumps.
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
        for places in [1, 2, 3, 8, 17, 40] {
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
