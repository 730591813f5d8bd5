//! What came of second copies that were seen to their end.
//!
//! A try at an age that only a share u of all queries reaches tells as much as 1/u queries do of which
//! each was tried: its *exposure*. So wins over exposure is the share of all queries that are stuck at
//! that age, though only few queries were tried, and at whatever age.
//!
//! An exploration may be stopped before anybody knows what would have come of it, and the longer it
//! has to run, the more likely it is: of queries that are stuck, which need a whole second copy, fewer are
//! seen to their end than of long ones. So what is seen weighs the inverse of the chance to be seen.

use alloc::collections::VecDeque;

/// So many wins count at most: the latest.
const WINS: usize = 64;

/// Wins count for so many queries.
const MEMORY: f64 = 524_288.0;

/// The smallest share that counts as such: below it, the share is unknown.
const RAREST: f32 = 1e-5;

/// What is seen weighs so much at most: it happens to others, too.
const MOST_WEIGHT: f32 = 8.0;

/// So many explorations tell how often they are stopped, about.
const STOPS: f32 = 256.0;

/// How likely it is that an exploration is stopped before its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Displacement {
    /// Explorations that were stopped of late, and for how long any could have been, in ns.
    stopped: f32,
    risked_ns: f32,
}

impl Displacement {
    /// An exploration that could have been stopped for so long has ended, or was stopped.
    pub(super) fn add(&mut self, risked_ns: u64, stopped: bool) {
        let kept = 1.0 - 1.0 / STOPS;
        self.stopped = kept * self.stopped + f32::from(u8::from(stopped));
        self.risked_ns = kept * self.risked_ns + risked_ns as f32;
    }

    /// What one weighs that could have been stopped for so long, and was not: one over the chance of
    /// that, where queries that need its slot come at random.
    pub(super) fn weight(&self, risked_ns: u64) -> f32 {
        let stops = self.stopped * risked_ns as f32 / self.risked_ns.max(1.0);
        // e to that power, about.
        let root = 1.0 + stops.min(16.0) / 32.0;
        (0..5).fold(root, |power, _| power * power).min(MOST_WEIGHT)
    }
}

#[derive(Clone, Copy, Debug)]
struct Win {
    weight: f32,
    second_ns: u64,
    first_ns: u64,
    from: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tries {
    wins: VecDeque<Win>,
    count: u32,
    exposure: f64,
}

impl Tries {
    /// A try has ended, at an age that this share of queries reaches; 1 weighs one that nothing could
    /// have stopped.
    pub(super) fn add(&mut self, share: f32, weight: f32) {
        self.count = self.count.saturating_add(1);
        self.exposure += f64::from(weight / share.max(RAREST));
        while self.wins.front().is_some_and(|win| self.exposure - win.from > MEMORY) {
            self.wins.pop_front();
        }
    }

    /// It won; to be called before [`Self::add`].
    pub(super) fn won(&mut self, second_ns: u64, first_ns: u64, weight: f32) {
        if self.wins.len() == WINS {
            self.wins.pop_front();
        }
        self.wins.push_back(Win { weight, second_ns, first_ns, from: self.exposure });
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn wins(&self) -> f32 {
        self.wins.len() as f32
    }

    pub(super) fn queries(&self) -> f32 {
        let all = self.exposure.min(MEMORY);
        let first = self.wins.front().filter(|_| self.wins.len() == WINS);
        first.map_or(all, |win| self.exposure - win.from).max(1.0) as f32
    }

    /// How long second copies take that win, in ns; 0 where none has.
    pub(super) fn mean_second_ns(&self) -> f32 {
        let sum: f32 = self.wins.iter().map(|win| win.weight * win.second_ns as f32).sum();
        sum / self.weight().max(1.0)
    }

    fn weight(&self) -> f32 {
        self.wins.iter().map(|win| win.weight).sum()
    }

    /// D of an age: the share of queries that are stuck then, which a second copy would have answered
    /// by that age had it been the first; and its integral from there on, in ns.
    pub(super) fn stuck(&self, age_ns: u64) -> (f32, f32) {
        let (mut count, mut rest) = (0.0, 0.0);
        for win in &self.wins {
            if win.second_ns <= age_ns && age_ns < win.first_ns {
                count += win.weight;
                rest += win.weight * (win.first_ns - age_ns) as f32;
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
            tries.won(10, 150, 1.0);
            tries.add(0.1, 1.0);
            (1..100).for_each(|_| tries.add(0.1, 1.0));
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
            tries.won(1, 100, 1.0);
            tries.add(0.5, 1.0);
        }
        assert_eq!(tries.wins(), WINS as f32);
        assert!((tries.queries() - 2.0 * WINS as f32).abs() < 1e-3, "{}", tries.queries());
        (0..3).for_each(|_| tries.add(1e-9, 1.0));
        assert_eq!(tries.wins(), WINS as f32, "what is rarer than can be known weighs no more");
        (0..300_000).for_each(|_| tries.add(0.5, 1.0));
        assert_eq!(tries.wins(), 0.0);
    }

    #[test]
    fn what_is_seldom_seen_to_its_end_weighs_as_much_as_there_is_of_it() {
        // Explorations are stopped after 100 ns on average. Of a thousand one is stuck and needs 150 ns;
        // the others need 10.
        let (mut tries, mut stops) = (Tries::default(), Displacement::default());
        let mut at = 0;
        let mut next_stop_ns = || {
            // Evenly, by the chance to last longer.
            at = (at + 601) % 997;
            (-100.0 * ((f64::from(at) + 0.5) / 997.0).ln()) as u64
        };
        for number in 0..400_000 {
            let stuck = number % 1_000 == 0;
            let (needed, stop) = (if stuck { 150 } else { 10 }, next_stop_ns());
            let stopped = stop < needed;
            let risked = needed.min(stop);
            stops.add(risked, stopped);
            if !stopped {
                let weight = stops.weight(risked);
                if stuck {
                    tries.won(needed, 1_000, weight);
                }
                tries.add(1.0, weight);
            }
        }
        let (share, _) = tries.stuck(500);
        assert!((share - 1e-3).abs() < 3e-4, "{share}");
    }
}
