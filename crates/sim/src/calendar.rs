//! The speed of a server over time.
//!
//! A calendar is a sequence of time intervals with different speeds. The intervals are drawn in
//! advance and independently of the policy. Every policy therefore meets the same slow servers. The
//! end of a copy is known when the copy starts, so no events are necessary in between. The cost per
//! copy is proportional to the number of intervals that the copy spans.

use std::collections::VecDeque;

use curtail_dist::{Distribution, seed};
use rand_pcg::Pcg64Mcg;

/// A disturbance that recurs at a server.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// The time from the end of one disturbance to the start of the next one.
    pub every: Distribution,
    /// Duration.
    pub lasts: Distribution,
}

/// The slow intervals of a server.
#[derive(Clone, Debug)]
pub struct Slowdown {
    /// The intervals.
    pub intervals: Disturbance,
    /// The server's speed in them, relative to its normal speed.
    pub share: f64,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    until_ns: u64,
    share: f64,
}

#[derive(Debug)]
pub(crate) struct Calendar {
    base: f64,
    slowdown: Option<Slowdown>,
    rng: Pcg64Mcg,
    /// The current interval and the later ones that have been drawn.
    stretches: VecDeque<Stretch>,
    known_until_ns: u64,
}

impl Calendar {
    pub(crate) fn new(base: f64, slowdown: Option<Slowdown>, seed: u64) -> Self {
        let rng = seed::rng(seed);
        Self { base, slowdown, rng, stretches: VecDeque::new(), known_until_ns: 0 }
    }

    /// Sets the base speed for work that starts from now on.
    pub(crate) fn set_base(&mut self, base: f64) {
        self.base = base;
    }

    /// Returns the end time, in ns, of work that starts now.
    pub(crate) fn end(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        if self.slowdown.is_none() {
            return now_ns.saturating_add((work_ns as f64 / self.base) as u64);
        }
        while self.stretches.front().is_some_and(|stretch| stretch.until_ns <= now_ns) {
            self.stretches.pop_front();
        }
        let mut left = work_ns as f64;
        let mut at = now_ns;
        let mut index = 0;
        loop {
            if index == self.stretches.len() {
                self.look_ahead();
                continue;
            }
            let Stretch { until_ns, share } = self.stretches[index];
            let speed = self.base * share;
            let room = until_ns.saturating_sub(at) as f64 * speed;
            let fits = left <= room && speed > 0.0;
            if fits || until_ns == u64::MAX {
                return at.saturating_add((left / speed) as u64);
            }
            left -= room;
            at = at.max(until_ns);
            index += 1;
        }
    }

    /// Draws the next interval at normal speed and the next slow interval.
    fn look_ahead(&mut self) {
        let Some(Slowdown { intervals, share }) = &self.slowdown else { return };
        for (length, share) in [(&intervals.every, 1.0), (&intervals.lasts, *share)] {
            // Time must advance, even if both lengths are drawn as zero.
            let length = (length.sample(&mut self.rng) as u64).max(1);
            self.known_until_ns = self.known_until_ns.saturating_add(length);
            self.stretches.push_back(Stretch { until_ns: self.known_until_ns, share });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(base: f64, every: &str, lasts: &str, speed: f64) -> Calendar {
        let resolve = |text: &str| {
            let spec: curtail_dist::Spec = text.parse().expect("a distribution");
            spec.resolve(1.0).expect("a distribution")
        };
        let intervals = Disturbance { every: resolve(every), lasts: resolve(lasts) };
        Calendar::new(base, Some(Slowdown { intervals, share: speed }), 1)
    }

    #[test]
    fn work_waits_for_the_end_of_a_pause() {
        // The server is paused from 100 to 150, from 250 to 300, …
        let mut calendar = calendar(1.0, "det:100", "det:50", 0.0);
        assert_eq!(calendar.end(0, 99), 99);
        assert_eq!(calendar.end(0, 120), 170);
        assert_eq!(calendar.end(110, 10), 160);
        assert_eq!(calendar.end(150, 250), 500);
        assert_eq!(calendar.end(500, 50), 550, "the events at the start of a pause are handled");
        assert_eq!(calendar.end(560, 0), 600, "an idle server waits like the others");
    }

    #[test]
    fn a_slow_stretch_counts_for_its_share() {
        // The speed is 2, but half of that from 100 to 150.
        let mut calendar = calendar(2.0, "det:100", "det:50", 0.5);
        assert_eq!(calendar.end(0, 200), 100);
        assert_eq!(calendar.end(0, 240), 140);
        assert_eq!(calendar.end(90, 20 + 50 + 10), 155);
    }
}
