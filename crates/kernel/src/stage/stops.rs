//! Does a server stop its work on a job when its connection is closed? What the next jobs take shows it.
//!
//! Source: ours. Document 003 §3.4 puts a stage before a server that cannot be changed, and assumes that a purge reaches
//! into it. A duplicate that makes room for a primary is given up. Where the server works on, the primary waits for
//! what is left of the duplicate, on one of the slots: then no duplicate may start.
//!
//! - A job that is interrupted at a random time has, on average, as much work left as it has had. So a server that works
//!   on delays a primary by about the mean time that such jobs had been served, over the slots. One that stops delays none.
//! - Two groups of primaries are compared, by the time from start to end: those that began while given up jobs may still
//!   have been there, and those that began in a quiet time. All of them took the last free slot, so the server had
//!   equally many others. Where none did so in a quiet time, those that began then with fewer others count, but twice.
//! - A time is quiet when no duplicate has started for some primaries. It begins with the first job that is given up,
//!   lasts for [`QUIET`] primaries, and begins again after [`OPEN_MIN`], twice as many, and so on up to [`OPEN_MAX`].
//! - The server works on if the difference exceeds half of that delay by three standard errors. Then no duplicate starts
//!   for a minute, and the search begins anew; each further time it is four times as long, up to an hour.
//!
//! Jobs that their clients give up do not count: those are near their end.
//!
//! Cost: O(1) per job. Memory: its own.

use crate::time::Timestamp;

/// For this long no duplicate starts before a server that works on, at first and at most.
const REST_NS: u64 = 60_000_000_000;
const REST_MAX_NS: u64 = 60 * REST_NS;
/// The number of primaries for which no duplicate starts, and how many of these are left when they begin to count.
const QUIET: u32 = 16;
const QUIET_COUNTS: u32 = 8;
/// The number of primaries between two of these.
const OPEN_MIN: u32 = 32;
const OPEN_MAX: u32 = 256;
/// No verdict on fewer primaries of a group than this; beyond the other number, older ones count half.
const GROUP_MIN: f64 = 8.0;
const GROUP_MAX: f64 = 256.0;
const ERRORS: f64 = 3.0;
/// Jobs that are given up early count as served for this part of a primary's own time: less is lost in noise.
const OWN_PART: f64 = 0.25;
const NS: f64 = 1e-9;

/// How a primary began that is compared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// With the last slot, while given up jobs may still have been there.
    Behind,
    /// With the last slot, in a quiet time.
    Alone,
    /// With another slot, in a quiet time.
    Apart,
}

/// Times, in s.
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

    /// Of the mean.
    fn variance(&self) -> f64 {
        let squares = self.squares - self.count * self.mean() * self.mean();
        (squares / (self.count - 1.0) / self.count).max(0.0)
    }
}

/// What a stage knows of the server behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stops {
    /// How long jobs that were given up had been served.
    given_up: Group,
    /// What primaries took, by [`Begins`].
    took: [Group; 3],
    /// The last given up job is expected to end then, if the server works on.
    ghost_until: Timestamp,
    /// No duplicate starts before, and how long that is.
    rests_until: Timestamp,
    rest_ns: u64,
    /// The number of primaries until the quiet time ends, until the next one begins, and between both at last.
    quiet: u32,
    open: u32,
    opened: u32,
}

impl Stops {
    /// May duplicates start?
    pub(super) fn allow(&self, now: Timestamp) -> bool {
        self.quiet == 0 && now >= self.rests_until
    }

    /// Does the server work on, as far as is known?
    pub(super) fn rests(&self, now: Timestamp) -> bool {
        now < self.rests_until
    }

    /// The number of slots is another, and so is the time that jobs take.
    pub(super) fn reset(&mut self) {
        self.took = [Group::default(); 3];
        (self.open, self.opened) = (0, 0);
    }

    /// A job that was served for this long is given up.
    pub(super) fn gave_up(&mut self, now: Timestamp, served_ns: u64) {
        self.given_up.add(served_ns as f64 * NS);
        self.ghost_until = now.after((self.given_up.mean() / NS) as u64);
        if self.open == 0 {
            self.opened = (2 * self.opened).clamp(OPEN_MIN, OPEN_MAX);
            (self.quiet, self.open) = (QUIET, self.opened);
        }
    }

    /// A primary takes a slot: how it begins, if it is to be compared.
    pub(super) fn begins(&self, now: Timestamp, is_last: bool) -> Option<Begins> {
        match self.quiet {
            1..=QUIET_COUNTS => Some(if is_last { Begins::Alone } else { Begins::Apart }),
            _ => (is_last && now < self.ghost_until).then_some(Begins::Behind),
        }
    }

    /// A primary has ended. `took`: how it began, and how long it took.
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
