//! The results of second copies that were not stopped early.
//!
//! If only a share u of all queries reaches an age, one attempt at that age is as much evidence as
//! 1/u attempts with arbitrary queries. The number 1/u is the *exposure* of the attempt. So wins
//! divided by exposure is the share of all queries that are stuck at that age, although second
//! copies were sent for only a few queries, at various ages.
//!
//! An exploration may be stopped before its result is known. This is more probable for an
//! exploration that has to run longer. A stuck query needs a whole second copy, so explorations of
//! stuck queries are completed less often than those of long queries. To correct for that, each
//! completed attempt is weighted by the inverse of its probability of completion.

use alloc::collections::VecDeque;

/// The maximum number of wins that count. Only the latest ones do.
const WINS: usize = 64;

/// A win no longer counts once the exposure has grown by this number of queries.
const MEMORY: f64 = 524_288.0;

/// The smallest share that can be measured. Smaller shares count as this one.
const RAREST: f32 = 1e-5;

/// The maximum weight of a completed attempt, because rare events also happen by chance.
const MOST_WEIGHT: f32 = 8.0;

/// The approximate number of explorations over which the stop rate is averaged.
const STOPS: f32 = 256.0;

/// How often explorations are stopped before they end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Displacement {
    /// The number of recent explorations that were stopped, and the total time at risk of all
    /// recent ones, in ns.
    stopped: f32,
    risked_ns: f32,
}

impl Displacement {
    /// Counts an exploration that has ended or was stopped, with its time at risk.
    pub(super) fn add(&mut self, risked_ns: u64, stopped: bool) {
        let kept = 1.0 - 1.0 / STOPS;
        self.stopped = kept * self.stopped + f32::from(u8::from(stopped));
        self.risked_ns = kept * self.risked_ns + risked_ns as f32;
    }

    /// The weight of an exploration that was at risk for this time and was not stopped. It is the
    /// inverse of the probability of not being stopped, if queries that need its slot arrive at
    /// random.
    pub(super) fn weight(&self, risked_ns: u64) -> f32 {
        let stops = self.stopped * risked_ns as f32 / self.risked_ns.max(1.0);
        // Approximates e to the power of `stops`.
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
    /// Counts an attempt that has ended. It was made at an age that this share of queries reaches.
    /// The weight is 1 if nothing could have stopped it.
    pub(super) fn add(&mut self, share: f32, weight: f32) {
        self.count = self.count.saturating_add(1);
        self.exposure += f64::from(weight / share.max(RAREST));
        while self.wins.front().is_some_and(|win| self.exposure - win.from > MEMORY) {
            self.wins.pop_front();
        }
    }

    /// Counts a win. It must be called before [`Self::add`] for the same attempt.
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

    /// The mean run time of second copies that win, in ns. It is 0 if none has won.
    pub(super) fn mean_second_ns(&self) -> f32 {
        let sum: f32 = self.wins.iter().map(|win| win.weight * win.second_ns as f32).sum();
        sum / self.weight().max(1.0)
    }

    fn weight(&self) -> f32 {
        self.wins.iter().map(|win| win.weight).sum()
    }

    /// D at an age, and its integral from that age on, in ns. D is the share of queries that are
    /// stuck at that age: a second copy that had started at the same time as the first would have
    /// answered them by then.
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
        // One query in a thousand is stuck. A hundred of them are old enough for a second copy.
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
        assert_eq!(
            tries.wins(),
            WINS as f32,
            "rarer events than can be measured have no more weight"
        );
        (0..300_000).for_each(|_| tries.add(0.5, 1.0));
        assert_eq!(tries.wins(), 0.0);
    }

    #[test]
    fn rarely_completed_tries_weigh_more() {
        // Explorations are stopped after 100 ns on average. One in a thousand explorations
        // duplicates a stuck query and needs 150 ns. The others need 10 ns.
        let (mut tries, mut stops) = (Tries::default(), Displacement::default());
        let mut at = 0;
        let mut next_stop_ns = || {
            // The values are evenly distributed over the quantiles of the exponential distribution.
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
