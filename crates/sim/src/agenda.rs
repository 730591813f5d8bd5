//! Which of some places is due first.
//!
//! Few places are scanned: for up to [`SCANNED`] that is cheaper than keeping an order, O(places).
//! More are kept in a heap, O(log places) per change.

use curtail_kernel::Heaps;

/// Later than everything.
pub(crate) const NEVER: u64 = u64::MAX;

/// The most places that are scanned.
const SCANNED: usize = 16;

/// When each place is due.
#[derive(Debug)]
pub(crate) struct Agenda {
    due: Vec<u64>,
    /// Those that are due at all; where there are too many to scan.
    order: Option<Heaps<u64>>,
}

impl Agenda {
    pub(crate) fn new(places: usize) -> Self {
        let order = (places > SCANNED).then(|| Heaps::new(1));
        Self { due: vec![NEVER; places], order }
    }

    /// When a place is due; [`NEVER`] when it is not.
    #[inline(always)]
    pub(crate) fn due(&self, place: usize) -> u64 {
        self.due[place]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, at: u64) {
        self.due[place] = at;
        if self.order.is_some() {
            self.sort(place, at);
        }
    }

    #[inline(never)]
    fn sort(&mut self, place: usize, at: u64) {
        let Some(order) = &mut self.order else { return };
        order.remove(0, place as u32);
        if at != NEVER {
            order.insert(0, at, place as u32);
        }
    }

    /// The place that is due first and when; [`NEVER`] where none is. Ties go to the first place.
    #[inline(always)]
    pub(crate) fn first(&self) -> (u64, usize) {
        match &self.due[..] {
            &[a, b] => earlier((a, 0), (b, 1)),
            _ => self.search(),
        }
    }

    #[inline(never)]
    fn search(&self) -> (u64, usize) {
        if let Some(order) = &self.order {
            return order.first(0).map_or((NEVER, 0), |(at, place)| (at, place as usize));
        }
        let mut pairs = self.due.chunks_exact(2);
        let mut first = (NEVER, 0);
        let mut place = 0;
        for pair in &mut pairs {
            first = earlier(first, earlier((pair[0], place), (pair[1], place + 1)));
            place += 2;
        }
        pairs.remainder().iter().fold(first, |first, &at| earlier(first, (at, place)))
    }
}

/// The first of two; the one on the left where they are due at the same time. Which one it is
/// nobody can foretell, so this is to compile to moves, and not to jumps.
#[inline(always)]
fn earlier(left: (u64, usize), right: (u64, usize)) -> (u64, usize) {
    let is_right = right.0 < left.0;
    (if is_right { right.0 } else { left.0 }, if is_right { right.1 } else { left.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_and_heaps_agree() {
        for places in [3, SCANNED, SCANNED + 1, 40] {
            let mut agenda = Agenda::new(places);
            assert_eq!(agenda.first().0, NEVER);
            let mut state = 7_u64;
            for _ in 0..2_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (state >> 33) as usize % places;
                let at = if state >> 60 == 0 { NEVER } else { (state >> 40) & 0xff };
                agenda.set(place, at);
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
