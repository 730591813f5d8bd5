//! Which of some places is due first: a tree of winners.
//!
//! Two neighbors play against each other, then the winners, and so on: each change is played up to
//! the root again, O(log places), without a jump that depends on the times; the first is known.

use std::hint::select_unpredictable;

/// Later than everything.
pub(crate) const NEVER: u64 = u64::MAX;

/// When each place is due.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// By place, and some more that are never due: a power of two in all.
    due: Vec<u64>,
    /// By game: the place that has won it. Game 1 is the last; the winners of games 2 n and 2 n + 1
    /// meet in game n, where the places stand for games from the number of places on.
    winners: Vec<u32>,
    first: (u64, usize),
}

impl Agenda {
    pub(crate) fn new(places: usize) -> Self {
        let size = places.next_power_of_two();
        // Of two that are never due, the one on the left wins.
        let leftmost = |game: usize| ((game << (size.ilog2() - game.max(1).ilog2())) - size) as u32;
        let winners = (0..2 * size).map(|game| if game == 0 { 0 } else { leftmost(game) });
        Self { due: vec![NEVER; size], winners: winners.collect(), first: (NEVER, 0) }
    }

    /// When a place is due; [`NEVER`] when it is not.
    #[inline(always)]
    pub(crate) fn due(&self, place: usize) -> u64 {
        self.due[place]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, at: u64) {
        self.due[place] = at;
        self.first = match &self.due[..] {
            &[left, right] => earlier((left, 0), (right, 1), false),
            _ => self.play((at, place)),
        };
    }

    /// Plays the games of a place again; the winner of the last.
    #[inline(always)]
    fn play(&mut self, mut winner: (u64, usize)) -> (u64, usize) {
        let mut game = winner.1 + self.due.len();
        while game > 1 {
            let other = self.winners[game ^ 1] as usize;
            let is_right = game & 1 == 1;
            winner = earlier(winner, (self.due[other], other), is_right);
            game /= 2;
            self.winners[game] = winner.1 as u32;
        }
        winner
    }

    /// The place that is due first and when; [`NEVER`] where none is. Ties go to the first place.
    #[inline(always)]
    pub(crate) fn first(&self) -> (u64, usize) {
        self.first
    }
}

/// The first of two; where they are due at the same time, the one that is meant to win ties. Which
/// one it is nobody can foretell, so there is no jump on it.
#[inline(always)]
fn earlier(one: (u64, usize), other: (u64, usize), other_wins_ties: bool) -> (u64, usize) {
    let is_other = (other.0 < one.0) | ((other.0 == one.0) & other_wins_ties);
    let time = select_unpredictable(is_other, other.0, one.0);
    (time, select_unpredictable(is_other, other.1, one.1))
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
