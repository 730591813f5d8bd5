//! Admission by priority: an overloaded process raises its admission level until queueing delays
//! are short again, and reports the level to callers.
//!
//! Source: Zhou et al., *Overload Control for Scaling WeChat Microservices* (SoCC 2018), Algorithm
//! 1: a process is overloaded if requests waited for more than 20 ms on average in a window of 1 s
//! or 2,000 requests. If so, the process moves its level so that 5 % fewer requests are admitted.
//! Otherwise, the process moves its level so that 1 % more requests are admitted. The level is
//! found with a histogram of the priorities of arriving requests. A priority consists of the
//! business priority and, within it, the user priority. Responses carry the level, and callers drop
//! calls below it.

use super::{Ask, Guard};

pub(super) const THRESHOLD_NS: u64 = 20_000_000;
const WINDOW_NS: u64 = 1_000_000_000;
const WINDOW_REQUESTS: u32 = 2_000;
const FALL: f64 = 0.05;
const RISE: f64 = 0.01;
const USERS: usize = 128;
const LEVELS: usize = 8 * USERS;

pub(super) struct Dagor {
    threshold_ns: f64,
    /// Lowest priority that is admitted.
    level: usize,
    /// The number of requests in this window, by priority.
    came: Vec<u32>,
    admitted: u32,
    requests: u32,
    waits: (f64, u32),
    since: u64,
    /// The level of each called process.
    levels: Vec<usize>,
}

impl Dagor {
    pub(super) fn new(processes: usize, threshold_ns: u64) -> Self {
        Self {
            threshold_ns: threshold_ns as f64,
            level: 0,
            came: vec![0; LEVELS],
            admitted: 0,
            requests: 0,
            waits: (0.0, 0),
            since: 0,
            levels: vec![0; processes],
        }
    }

    fn window_ends(&mut self, now: u64) {
        let overloaded = self.waits.0 > self.threshold_ns * f64::from(self.waits.1.max(1));
        let target = f64::from(self.admitted) * if overloaded { 1.0 - FALL } else { 1.0 + RISE };
        // Number of this window's requests that the new level would have admitted.
        let mut would: f64 = self.came[self.level..].iter().map(|&came| f64::from(came)).sum();
        if overloaded {
            while would > target && self.level + 1 < LEVELS {
                would -= f64::from(self.came[self.level]);
                self.level += 1;
            }
        } else {
            // Lower the level by at least one occupied priority, even if the target does not
            // require this. For example, the target is 0 if nothing was admitted.
            while self.level > 0 {
                self.level -= 1;
                would += f64::from(self.came[self.level]);
                if would >= target && self.came[self.level] > 0 {
                    break;
                }
            }
        }
        self.came.fill(0);
        (self.admitted, self.requests, self.waits, self.since) = (0, 0, (0.0, 0), now);
    }
}

fn priority(ask: Ask) -> usize {
    (ask.business as usize * USERS + ask.user as usize).min(LEVELS - 1)
}

impl Guard for Dagor {
    fn admit(&mut self, now: u64, ask: Ask) -> bool {
        if now - self.since >= WINDOW_NS || self.requests >= WINDOW_REQUESTS {
            self.window_ends(now);
        }
        let priority = priority(ask);
        self.came[priority] += 1;
        self.requests += 1;
        let admits = priority >= self.level;
        self.admitted += u32::from(admits);
        admits
    }

    fn waited(&mut self, _: u64, ns: u64) {
        self.waits.0 += ns as f64;
        self.waits.1 += 1;
    }

    fn call(&mut self, _: u64, to: u32, ask: Ask) -> bool {
        priority(ask) >= self.levels[to as usize]
    }

    fn returned(&mut self, _: u64, to: u32, _: bool, signal: f64) {
        self.levels[to as usize] = signal as usize;
    }

    fn signal(&mut self, _: u64) -> f64 {
        self.level as f64
    }
}
