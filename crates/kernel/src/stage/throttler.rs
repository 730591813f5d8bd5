//! The throttler of a Proxy D-Stage: how many jobs a stage that cannot be changed is given at once.
//!
//! Source: document 003 §3.4. The objective: the least multiplexing level N* at which the throughput is at its
//! greatest, so that as many jobs as possible wait where they can still be prioritized and purged. It begins at
//! one, raises the level while the throughput rises with it (probing phase), then stays at N* (exploitation).
//!
//! Settled:
//! - Throughput is what leaves per time *while the level is used up*: as many jobs run as may. Else the arrivals
//!   would decide it, and at low load the level would stay too low. The caller says what leaves, in jobs or better
//!   in bytes, as they leave: a long job that began before would count in full else.
//! - Levels are doubled while that brings [`GROWS`] more, and halved intervals lead to the least level whose
//!   throughput is within [`LOSS`] of the greatest. The source goes up by one.
//! - The knee moves: in exploitation, levels above and below N* are tried now and then, by a quarter of it, and
//!   where one is better by half of what is in proportion, probing begins anew from there. It does, too, where
//!   the throughput at N* has fallen by [`SHIFT`] in two windows in a row: the first one may have begun before the fall.
//! - What leaves just after a change of the level does not count ([`SETTLE_NS`]): buffers fill, and devices that were
//!   not used up serve on credit.
//! - At low load the level is rarely used up, so a higher one that is tried would stay for long, and for nothing. A
//!   trial ends after [`TURN_NS`], and goes on from there the next time.
//! - Duplicates take no part. They run only while no more jobs run than are known to be of use ([`Throttler::proven`]),
//!   so a level counts as used up, and others are tried, by primaries alone.
//! - A window ends when the verdict is clear by three standard errors of the two rates, which is soon where a level
//!   is far off, or when it is long. What lies between two levels may take twice as long where the verdict is
//!   not clear by one: a device that is limited in slices of 100 ms serves in bursts.
//!
//! Cost: O(1) per call, and no memory but its own.

use crate::time::Timestamp;

/// Twice the level has to bring so much.
const GROWS: f64 = 1.25;
/// N* may miss so much of the greatest throughput.
const LOSS: f64 = 0.08;
/// A fall of the throughput at N* after which the knee is looked for again.
const SHIFT: f64 = 0.25;
/// The longest window of a level that is tried, in ns of time in which it is used up.
const TRIAL_NS: u64 = 500_000_000;
/// The window of N* between two trials, each of another side; twice that where it has one side only.
const HOLD_NS: u64 = 1_500_000_000;
/// The longest time in which a level above N* is tried, whether it is used up or not.
const TURN_NS: u64 = 1_000_000_000;
/// No verdict on fewer samples than this, and as many as two rounds of the level.
const LEAST_SAMPLES: u32 = 16;
/// For so long after a change of the level nothing counts, in ns of time in which it is used up.
const SETTLE_NS: f64 = 100e6;
/// A sample ends with a job, or after so much of that time: pieces of a job come in bursts.
const SAMPLE_NS: f64 = 10e6;

/// What left in the time in which a level was used up: a rate, and how sure it is.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    samples: u32,
    time: f64,
    amount: f64,
    /// Sums of squares and products of the samples' times and amounts.
    squares: [f64; 3],
}

impl Window {
    fn add(&mut self, time: f64, amount: f64) {
        self.samples += 1;
        self.time += time;
        self.amount += amount;
        let [tt, ta, aa] = &mut self.squares;
        (*tt, *ta, *aa) = (*tt + time * time, *ta + time * amount, *aa + amount * amount);
    }

    /// Both, which are of one rate.
    fn with(self, other: Self) -> Self {
        let sum = |at: usize| self.squares[at] + other.squares[at];
        Self {
            samples: self.samples + other.samples,
            time: self.time + other.time,
            amount: self.amount + other.amount,
            squares: [sum(0), sum(1), sum(2)],
        }
    }

    fn rate(&self) -> f64 {
        if self.time > 0.0 { self.amount / self.time } else { 0.0 }
    }

    /// Of the rate, relative to its square: that of a ratio of two sums.
    fn variance(&self) -> f64 {
        let (rate, [tt, ta, aa]) = (self.rate(), self.squares);
        let residuals = aa - 2.0 * rate * ta + rate * rate * tt;
        (residuals / (self.amount * self.amount)).max(0.0)
    }

    /// Is the rate at least so many times another's? None while that is open and more may come, for so long.
    fn exceeds(&self, other: &Self, times: f64, level: u32, longest_ns: u64) -> Option<bool> {
        if self.samples < LEAST_SAMPLES.max(2 * level) {
            return None;
        }
        let ratio = self.rate() / other.rate();
        let (off, variance) = (ratio - times, self.variance() + other.variance());
        let is_clear = |errors: f64| off * off > errors * errors * ratio * ratio * variance;
        let is_long = |ns: u64| self.time >= ns as f64;
        (is_clear(3.0) || (is_long(TRIAL_NS) && is_clear(1.0)) || is_long(longest_ns))
            .then_some(off >= 0.0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Probing: the first level.
    First,
    /// Probing: the level is doubled. The window of half of it, and when to give up.
    Grow(Window, Timestamp),
    /// Probing: N* is above the first and at most the second; the level is between them. The window of the
    /// greatest throughput.
    Narrow(u32, u32, Window),
    /// Exploitation, at N*. Which side is tried next, and what is known of it; the throughput that N* began with, and
    /// has had; and whether the last window had less.
    Hold { up: bool, tried: Window, first: Window, sum: Window, fell: bool },
    /// Exploitation: another level is tried. N*, its window, and when to go back.
    Try(u32, Window, Timestamp),
}

/// Finds N* and follows it.
#[derive(Clone, Debug)]
pub struct Throttler {
    most: u32,
    level: u32,
    phase: Phase,
    window: Window,
    /// Since when the level is used up, or the last sample's end in that time. None: it is not.
    since: Option<Timestamp>,
    /// The sample so far: time before `since`, in ns, and what left.
    before_ns: f64,
    done: f64,
    /// For how long nothing counts, since the level has changed.
    settles_ns: f64,
}

impl Throttler {
    /// Levels from one to `most`, at least one.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            most: most.max(1),
            level: 1,
            phase: Phase::First,
            window: Window::default(),
            since: None,
            before_ns: 0.0,
            done: 0.0,
            settles_ns: 0.0,
        }
    }

    /// How many jobs the stage may be given at once.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }

    /// N*; none while it is looked for. The level may be another for a moment, to see whether N* has moved.
    #[must_use]
    pub fn knee(&self) -> Option<u32> {
        match self.phase {
            Phase::Hold { .. } => Some(self.level),
            Phase::Try(knee, ..) => Some(knee),
            Phase::First | Phase::Grow(..) | Phase::Narrow(..) => None,
        }
    }

    /// The highest level that is known not to be above N*: while another is tried, duplicates keep to this one.
    #[must_use]
    pub fn proven(&self) -> u32 {
        match self.phase {
            Phase::First | Phase::Hold { .. } => self.level,
            // Half of it brought more than a quarter.
            Phase::Grow(..) => self.level / 4 + 1,
            Phase::Narrow(below, ..) => below + 1,
            Phase::Try(knee, ..) => knee.min(self.level),
        }
    }

    /// How many primaries run from now on: the level is used up where that is the level. To be called whenever it may
    /// have changed; saying it again changes nothing.
    pub fn runs(&mut self, now: Timestamp, jobs: u32) {
        let is_used_up = jobs == self.level;
        match self.since {
            None if is_used_up => self.since = Some(now),
            Some(since) if !is_used_up => {
                self.before_ns += now.since(since) as f64;
                self.since = None;
            }
            _ => {}
        }
    }

    /// So much has left the stage, of jobs that may go on. True where the level has changed.
    pub fn did(&mut self, now: Timestamp, amount: u64) -> bool {
        if self.is_over(now) {
            return true;
        }
        let Some(since) = self.since else { return false };
        self.done += amount as f64;
        self.before_ns + now.since(since) as f64 >= SAMPLE_NS && self.sample(now, since)
    }

    /// A primary has left the stage. True where the level has changed.
    pub fn left(&mut self, now: Timestamp) -> bool {
        if self.is_over(now) {
            return true;
        }
        let Some(since) = self.since else { return false };
        // Jobs may have nothing that can be counted, and are counted then.
        self.done += 1.0;
        self.sample(now, since)
    }

    /// Is a trial over, without a verdict?
    fn is_over(&mut self, now: Timestamp) -> bool {
        let (knee, first, tried) = match self.phase {
            Phase::Grow(half, until) if now >= until => (self.level / 2, half, Window::default()),
            Phase::Try(knee, at_knee, until) if now >= until => (knee, at_knee, self.window),
            _ => return false,
        };
        let up = self.level > knee;
        self.turn(knee, Phase::Hold { up, tried, first, sum: Window::default(), fell: false });
        true
    }

    fn sample(&mut self, now: Timestamp, since: Timestamp) -> bool {
        let (time, done) = (self.before_ns + now.since(since) as f64, self.done);
        (self.since, self.before_ns, self.done) = (Some(now), 0.0, 0.0);
        if self.settles_ns > 0.0 {
            self.settles_ns -= time;
            return false;
        }
        self.window.add(time, done);
        let before = self.level;
        self.judge(now);
        before != self.level
    }

    fn judge(&mut self, now: Timestamp) {
        let (level, window) = (self.level, self.window);
        let is_long =
            |ns: u64| window.samples >= LEAST_SAMPLES.max(2 * level) && window.time >= ns as f64;
        match self.phase {
            Phase::First if is_long(TRIAL_NS) || window.samples >= 64 => self.grow(now, window),
            Phase::First => {}
            Phase::Grow(half, _) => match window.exceeds(&half, GROWS, level, TRIAL_NS) {
                Some(true) => self.grow(now, window),
                Some(false) => {
                    let ratio = half.rate() / window.rate();
                    // Beyond the knee it may be less again.
                    let top = match ratio {
                        _ if ratio > 1.0 + LOSS => half,
                        _ if ratio > 1.0 - LOSS => half.with(window),
                        _ => window,
                    };
                    let is_enough = ratio > 1.0 - LOSS;
                    let (below, at_most) =
                        if is_enough { (level / 4, level / 2) } else { (level / 2, level) };
                    self.narrow(below, at_most, top);
                }
                None => {}
            },
            Phase::Narrow(below, at_most, top) => {
                match window.exceeds(&top, 1.0 - LOSS, level, 2 * TRIAL_NS) {
                    Some(true) => self.narrow(below, level, top.with(window)),
                    Some(false) => self.narrow(level, at_most, top),
                    None => {}
                }
            }
            Phase::Hold { .. } if is_long(TRIAL_NS) => self.held(now),
            Phase::Hold { .. } => {}
            Phase::Try(knee, at_knee, _) => {
                // Half of what would be in proportion.
                let times = f64::midpoint(1.0, f64::from(level) / f64::from(knee));
                let Some(exceeds) = window.exceeds(&at_knee, times, level, TRIAL_NS) else {
                    return;
                };
                match (exceeds, level > knee) {
                    (true, true) => self.grow(now, window),
                    // One more step down, and then what is between: it seldom moves far without a fall.
                    (true, false) if level > 1 => {
                        let next = level.saturating_sub(knee - level).max(1);
                        self.turn(next, Phase::Narrow(0, level, at_knee));
                    }
                    (true, false) => self.hold(level, true, at_knee),
                    (false, tried_up) => {
                        self.hold(knee, !tried_up, at_knee);
                    }
                }
            }
        }
    }

    /// The level brought what it should.
    fn grow(&mut self, now: Timestamp, window: Window) {
        let double = self.level.saturating_mul(2).min(self.most);
        if double == self.level {
            return self.hold(double, false, window);
        }
        self.turn(double, Phase::Grow(window, now.after(TURN_NS)));
    }

    fn narrow(&mut self, below: u32, at_most: u32, top: Window) {
        if below + 1 >= at_most {
            return self.hold(at_most, false, top);
        }
        self.turn(u32::midpoint(below, at_most), Phase::Narrow(below, at_most, top));
    }

    /// N* had a window: has it less throughput than before, and is it time to see whether another level is better?
    fn held(&mut self, now: Timestamp) {
        let Phase::Hold { up, tried, first, sum, fell } = self.phase else { return };
        let (knee, window) = (self.level, self.window);
        let falls = knee > 1 && window.rate() < (1.0 - SHIFT) * first.rate();
        if falls && fell {
            // Less leaves: fewer may do.
            return self.narrow(0, knee, window);
        }
        let sum = if falls { Window::default() } else { sum.with(window) };
        if falls || sum.time < (HOLD_NS << u32::from(knee == 1)) as f64 {
            return self.turn(knee, Phase::Hold { up, tried, first, sum, fell: falls });
        }
        let step = (knee / 4).max(1);
        let is_up = up || knee == 1;
        let next = if is_up { knee.saturating_add(step).min(self.most) } else { knee - step };
        if next == knee {
            return self.hold(knee, false, sum);
        }
        self.turn(next, Phase::Try(knee, sum, now.after(TURN_NS)));
        self.window = tried;
    }

    fn hold(&mut self, knee: u32, up: bool, first: Window) {
        let (tried, sum) = (Window::default(), Window::default());
        self.turn(knee, Phase::Hold { up, tried, first, sum, fell: false });
    }

    fn turn(&mut self, level: u32, phase: Phase) {
        if level != self.level {
            // What was so far is of the level before.
            (self.since, self.before_ns, self.done) = (None, 0.0, 0.0);
            self.settles_ns = SETTLE_NS;
        }
        (self.level, self.phase, self.window) = (level, phase, Window::default());
    }
}
