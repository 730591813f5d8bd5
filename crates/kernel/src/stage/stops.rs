//! Detects whether a server stops working on a job when the job's connection is closed. This is
//! inferred from how long the next jobs take.
//!
//! Source: our own. Document 003 §3.4 puts a stage in front of a server that cannot be changed, and
//! assumes that a purge reaches into the server. A duplicate that makes room for a primary is given
//! up. If the server keeps working on it, the primary waits for the rest of the duplicate's work on
//! one of the slots. In this case no duplicate may start.
//!
//! - A job that is interrupted at a random time has, on average, as much work left as it has
//!   received. So a server that keeps working delays a primary by about the mean time for which
//!   such jobs had been served, divided by the number of slots. A server that stops working on such
//!   jobs delays no primary.
//! - The times from start to end of two groups of primaries are compared: those that began while a
//!   job that was given up might still be running, and those that began in a quiet time. All of
//!   them took the last free slot, so the server had the same number of other jobs. If fewer than
//!   [`GROUP_MIN`] primaries took the last slot in a quiet time, those that began in a quiet time
//!   with fewer other jobs are used instead, and their times are doubled.
//! - A quiet time is a time in which no duplicate starts. It begins with the first job that is
//!   given up and lasts for [`QUIET`] primaries. The next one begins after [`OPEN_MIN`] more
//!   primaries, then after twice that number, and so on up to [`OPEN_MAX`].
//! - The server is found to keep working if the difference exceeds half of that delay by three
//!   standard errors. It then gets no duplicates for a minute, and detection starts over. Each
//!   further time that the server is found to keep working, the pause is four times as long, up to
//!   an hour.
//!
//! Jobs that are given up by their clients do not count, because they are almost done.
//!
//! Cost: O(1) per job. Memory: constant.

use crate::time::Timestamp;

/// The pause in which no duplicate starts after the server is found to keep working: its initial
/// length and its maximum length.
const REST_NS: u64 = 60_000_000_000;
const REST_MAX_NS: u64 = 60 * REST_NS;
/// The number of primaries in a quiet time, and how many of them, counted from its end, are
/// compared.
const QUIET: u32 = 16;
const QUIET_COUNTS: u32 = 8;
/// The minimum and the maximum number of primaries between two quiet times.
const OPEN_MIN: u32 = 32;
const OPEN_MAX: u32 = 256;
/// The minimum number of primaries that a group needs for a verdict, and the number at which the
/// weight of older primaries is halved.
const GROUP_MIN: f64 = 8.0;
const GROUP_MAX: f64 = 256.0;
const ERRORS: f64 = 3.0;
/// Jobs that are given up early count as if they had been served for this fraction of a primary's
/// time, so that the delay exceeds the noise.
const OWN_PART: f64 = 0.25;
const NS: f64 = 1e-9;

/// How a primary began, if its service time is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// It took the last slot while a job that was given up might still be running.
    Behind,
    /// It took the last slot in a quiet time.
    Alone,
    /// It took another slot in a quiet time.
    Apart,
}

/// A set of measured times, in s.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Group {
    fn add(&mut self, time: f64) {
        if self.count >= GROUP_MAX {
            let Self { count, sum, squares } = *self;
            *self = Self { count: count / 2.0, sum: sum / 2.0, squares: squares / 2.0 };
        }
        self.count += 1.0;
        self.sum += time;
        self.squares += time * time;
    }

    fn mean(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }

    /// Returns the variance of the mean.
    fn variance(&self) -> f64 {
        let squares = self.squares - self.count * self.mean() * self.mean();
        (squares / (self.count - 1.0) / self.count).max(0.0)
    }
}

/// The state of the detection.
#[derive(Clone, Debug, Default)]
pub(super) struct Stops {
    /// How long jobs had been served when they were given up.
    given_up: Group,
    /// The service times of primaries, by [`Begins`].
    took: [Group; 3],
    /// When the last job that was given up should end, if the server keeps working on it.
    ghost_until: Timestamp,
    /// No duplicate starts before `rests_until`, which is `rest_ns` after the time at which it was
    /// set.
    rests_until: Timestamp,
    rest_ns: u64,
    /// Three numbers of primaries: until the quiet time ends, until the next one may begin, and
    /// between the last two quiet times.
    quiet: u32,
    open: u32,
    opened: u32,
}

impl Stops {
    /// Whether duplicates may start.
    pub(super) fn allow(&self, now: Timestamp) -> bool {
        self.quiet == 0 && now >= self.rests_until
    }

    /// Whether the server was found to keep working.
    pub(super) fn rests(&self, now: Timestamp) -> bool {
        now < self.rests_until
    }

    /// Discards the measured times. It is called when the number of slots has changed, because jobs
    /// then take a different amount of time.
    pub(super) fn reset(&mut self) {
        self.took = [Group::default(); 3];
        (self.open, self.opened) = (0, 0);
    }

    /// Records that a job was given up after it had been served for `served_ns`.
    pub(super) fn gave_up(&mut self, now: Timestamp, served_ns: u64) {
        self.given_up.add(served_ns as f64 * NS);
        self.ghost_until = now.after((self.given_up.mean() / NS) as u64);
        if self.open == 0 {
            self.opened = (2 * self.opened).clamp(OPEN_MIN, OPEN_MAX);
            (self.quiet, self.open) = (QUIET, self.opened);
        }
    }

    /// Returns how a primary that takes a slot now begins, if its service time is to be compared.
    pub(super) fn begins(&self, now: Timestamp, is_last: bool) -> Option<Begins> {
        match self.quiet {
            1..=QUIET_COUNTS => Some(if is_last { Begins::Alone } else { Begins::Apart }),
            _ => (is_last && now < self.ghost_until).then_some(Begins::Behind),
        }
    }

    /// Records the end of a primary. `took` contains the way in which the primary began, and its
    /// service time.
    pub(super) fn ended(&mut self, now: Timestamp, slots: u32, took: Option<(Begins, u64)>) {
        if self.quiet > 0 {
            self.quiet -= 1;
        } else {
            self.open = self.open.saturating_sub(1);
        }
        let Some((begins, ns)) = took else { return };
        self.took[begins as usize].add(ns as f64 * NS);
        let [behind, alone, apart] = &self.took;
        let (others, times) = if alone.count < GROUP_MIN { (apart, 2.0) } else { (alone, 1.0) };
        if behind.count.min(others.count) < GROUP_MIN {
            return;
        }
        let served = self.given_up.mean().max(OWN_PART * others.mean());
        let off = behind.mean() - times * others.mean() - served / f64::from(slots) / 2.0;
        let variance = behind.variance() + times * times * others.variance();
        if off * off <= ERRORS * ERRORS * variance {
            return;
        }
        if off > 0.0 {
            let rest_ns = (4 * self.rest_ns).clamp(REST_NS, REST_MAX_NS);
            *self = Self { rests_until: now.after(rest_ns), rest_ns, ..Self::default() };
        } else {
            self.rest_ns = 0;
        }
    }
}
