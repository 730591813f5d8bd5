//! What came of second copies that were seen to their end.
//!
//! A try at an age that only a share u of all queries reaches tells as much as 1/u queries do of which
//! each was tried: its *exposure*. So wins over exposure is the share of all queries that are stuck at
//! that age, though only few queries were tried, and at whatever age.

use alloc::collections::VecDeque;

/// So many wins count at most: the latest.
const WINS: usize = 64;

/// Wins count for so many queries.
const MEMORY: f64 = 524_288.0;

/// The smallest share that counts as such: what is rarer, nobody knows how rare it is.
const RAREST: f32 = 1e-5;

/// A second copy that won.
#[derive(Clone, Copy, Debug)]
struct Win {
    /// It took so long.
    second_ns: u64,
    /// The first would have taken so long.
    first_ns: u64,
    /// The exposure before it.
    from: f64,
}

/// Tries, and what came of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tries {
    wins: VecDeque<Win>,
    count: u32,
    exposure: f64,
}

impl Tries {
    /// A try has ended, at an age that this share of queries reaches.
    pub(super) fn add(&mut self, share: f32) {
        self.count = self.count.saturating_add(1);
        self.exposure += f64::from(1.0 / share.max(RAREST));
        while self.wins.front().is_some_and(|win| self.exposure - win.from > MEMORY) {
            self.wins.pop_front();
        }
    }

    /// It won; to be told before [`Self::add`].
    pub(super) fn won(&mut self, second_ns: u64, first_ns: u64) {
        if self.wins.len() == WINS {
            self.wins.pop_front();
        }
        self.wins.push_back(Win { second_ns, first_ns, from: self.exposure });
    }

    /// How many tries there were.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// How many wins are remembered.
    pub(super) fn wins(&self) -> f32 {
        self.wins.len() as f32
    }

    /// So many queries the wins are of.
    pub(super) fn queries(&self) -> f32 {
        let all = self.exposure.min(MEMORY);
        let first = self.wins.front().filter(|_| self.wins.len() == WINS);
        first.map_or(all, |win| self.exposure - win.from).max(1.0) as f32
    }

    /// How long second copies take that win, in ns; 0 where none has.
    pub(super) fn mean_second_ns(&self) -> f32 {
        let sum: f32 = self.wins.iter().map(|win| win.second_ns as f32).sum();
        sum / self.wins().max(1.0)
    }

    /// D of an age: the share of queries that are stuck then, which a second copy would have answered
    /// by that age had it been the first; and its integral from there on, in ns.
    pub(super) fn stuck(&self, age_ns: u64) -> (f32, f32) {
        let (mut count, mut rest) = (0.0, 0.0);
        for win in &self.wins {
            if win.second_ns <= age_ns && age_ns < win.first_ns {
                count += 1.0;
                rest += (win.first_ns - age_ns) as f32;
            }
        }
        (count / self.queries(), rest / self.queries())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wins_over_exposure_is_the_share_that_is_stuck() {
        let mut tries = Tries::default();
        // Of a thousand queries one is stuck; a hundred of them are old enough to be tried.
        for _ in 0..40 {
            tries.won(10, 150);
            tries.add(0.1);
            (1..100).for_each(|_| tries.add(0.1));
        }
        let (share, rest) = tries.stuck(50);
        assert!((share - 1e-3).abs() < 1e-6, "{share}");
        assert!((rest - 0.1).abs() < 1e-4, "{rest}");
        assert_eq!(tries.stuck(9), (0.0, 0.0), "it would not have been done by then");
        assert_eq!(tries.stuck(150), (0.0, 0.0), "it is done by then");
    }

    #[test]
    fn the_latest_wins_count_and_old_ones_are_forgotten() {
        let mut tries = Tries::default();
        for _ in 0..10 * WINS {
            tries.won(1, 100);
            tries.add(0.5);
        }
        assert_eq!(tries.wins(), WINS as f32);
        assert!((tries.queries() - 2.0 * WINS as f32).abs() < 1e-3, "{}", tries.queries());
        (0..3).for_each(|_| tries.add(1e-9));
        assert_eq!(tries.wins(), WINS as f32, "what is rarer than can be known weighs no more");
        (0..300_000).for_each(|_| tries.add(0.5));
        assert_eq!(tries.wins(), 0.0);
    }
}
