//! The throttler of a Proxy D-Stage: limits the number of jobs that a stage gets at the same time
//! if the stage cannot be changed.
//!
//! Source: document 003 §3.4. The objective is the lowest multiplexing level N* that has the
//! maximum throughput, so that as many jobs as possible wait where they can still be prioritized
//! and purged. The throttler begins at level one. It raises the level while this raises the
//! throughput (probing phase), and then stays at N* (exploitation).
//!
//! Choices:
//! - Throughput is the output per unit of time *while the level is full*, that is, while as many
//!   jobs run as the level allows. Otherwise the arrivals would determine it, and the level would
//!   stay too low at low load. The caller reports the output as it leaves, in jobs or, better, in
//!   bytes, because a long job that began earlier would otherwise count in full.
//! - The level doubles while the throughput grows by a factor of [`GROWS`]. Bisection then finds
//!   the least level whose throughput is within [`LOSS`] of the maximum. The source raises the
//!   level by one.
//! - The knee can move. In exploitation, the throttler alternately tries levels that are a quarter
//!   above and below N*. Probing restarts at a higher level if it brings at least half of the
//!   proportional gain, and at a lower level if it costs at most half of the proportional loss. It
//!   also restarts if the throughput at N* falls by [`SHIFT`] in two windows in a row. One window
//!   is not enough, because it may have begun before the fall.
//! - Output just after a change in the level does not count ([`SETTLE_NS`]): buffers fill, and
//!   devices that were idle have credit left.
//! - At low load the level is rarely full, so a trial of a higher level would take a long time
//!   without a verdict. A trial pauses after [`TURN_NS`], and continues the next time.
//! - Duplicates do not take part in the search. Duplicates run only while at most
//!   [`Throttler::proven`] jobs run. So primaries alone determine whether a level is full, and
//!   which levels are tried.
//! - A window ends when the verdict is clear by three standard errors of the two rates, or when the
//!   window reaches its maximum length. If a level is far off, the verdict soon becomes clear.
//!   Bisection uses windows of up to twice that length if the verdict is not clear even by one
//!   standard error. A device that is limited in slices of 100 ms needs this, because it serves in
//!   bursts.
//!
//! Cost: O(1) per call. Memory: constant.

use crate::time::Timestamp;

/// The factor by which the throughput has to grow when the level doubles.
const GROWS: f64 = 1.25;
/// The fraction of the maximum throughput that N* may lose.
const LOSS: f64 = 0.08;
/// The fall in throughput at N* after which the search for the knee restarts.
const SHIFT: f64 = 0.25;
/// The longest window of a trial, in ns. Only the time during which the level is full counts.
const TRIAL_NS: u64 = 500_000_000;
/// The window of N* between two trials, which alternate between higher and lower levels. It is
/// doubled if N* is 1, because there is no lower level.
const HOLD_NS: u64 = 1_500_000_000;
/// The longest time for which another level is tried, whether it is full or not.
const TURN_NS: u64 = 1_000_000_000;
/// Minimum number of samples for a verdict. The minimum is twice the level if that is larger.
const LEAST_SAMPLES: u32 = 16;
/// How long output is ignored after a change in the level, in ns. Only the time during which the
/// level is full is measured.
const SETTLE_NS: f64 = 100e6;
/// The minimum length of a sample that does not end with a job, in ns. Only the time during which
/// the level is full counts. The minimum is needed because the parts of a job leave in bursts.
const SAMPLE_NS: f64 = 10e6;

/// The output while a level was full: a rate and its precision.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    samples: u32,
    time: f64,
    amount: f64,
    /// Sums over the samples: time², time · amount, amount².
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

    /// Returns the union of two windows with the same rate.
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

    /// Returns the relative variance of the rate, as the ratio of two sums.
    fn variance(&self) -> f64 {
        let (rate, [tt, ta, aa]) = (self.rate(), self.squares);
        let residuals = aa - 2.0 * rate * ta + rate * rate * tt;
        (residuals / (self.amount * self.amount)).max(0.0)
    }

    /// Whether the rate is at least `times` the rate of another window. `None` while that is not
    /// clear and the window is shorter than `longest_ns`.
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
    /// Probing at the first level.
    First,
    /// Probing after the level has doubled. Contains the window of half the level, and the time at
    /// which to give up.
    Grow(Window, Timestamp),
    /// Probing: N* is above the first level and at most the second, and the current level is
    /// between them. The window is the one with the maximum throughput.
    Narrow(u32, u32, Window),
    /// Exploitation, at N*. `up`: whether a higher level is tried next. `tried`: the window of that
    /// trial so far. `first`: the throughput at the start. `sum`: the throughput since then.
    /// `fell`: whether the throughput of the last window was lower.
    Hold { up: bool, tried: Window, first: Window, sum: Window, fell: bool },
    /// Exploitation: a trial of another level. Contains N*, the window of N*, and the time at which
    /// to go back.
    Try(u32, Window, Timestamp),
}

/// Finds N*, and follows it when it changes.
#[derive(Clone, Debug)]
pub struct Throttler {
    most: u32,
    level: u32,
    phase: Phase,
    window: Window,
    /// The time since which the level has been full and the current sample has run. `None` if the
    /// level is not full.
    since: Option<Timestamp>,
    /// The current sample: the part of its time that was measured before `since`, in ns, and its
    /// output.
    before_ns: f64,
    done: f64,
    /// How much longer output is ignored after the last change in the level, in ns.
    settles_ns: f64,
}

impl Throttler {
    /// Creates a throttler with levels from one to `most`, at least one.
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

    /// Returns the number of jobs that the stage may get at the same time.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Returns N*. It returns `None` during the search. During a trial, the level differs from N*
    /// for a short time.
    #[must_use]
    pub fn knee(&self) -> Option<u32> {
        match self.phase {
            Phase::Hold { .. } => Some(self.level),
            Phase::Try(knee, ..) => Some(knee),
            Phase::First | Phase::Grow(..) | Phase::Narrow(..) => None,
        }
    }

    /// Returns the highest level that is known not to exceed N*. Duplicates stay within this level
    /// while another one is tried.
    #[must_use]
    pub fn proven(&self) -> u32 {
        match self.phase {
            Phase::First | Phase::Hold { .. } => self.level,
            // The throughput was higher at half of this level than at a quarter of it.
            Phase::Grow(..) => self.level / 4 + 1,
            Phase::Narrow(below, ..) => below + 1,
            Phase::Try(knee, ..) => knee.min(self.level),
        }
    }

    /// Reports the number of primaries that are running. The level is full if it equals this
    /// number. It must be called whenever the number may have changed. Repeated calls are harmless.
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

    /// Reports an output of `amount`, from jobs that may still be running. Returns whether the
    /// level has changed.
    pub fn did(&mut self, now: Timestamp, amount: u64) -> bool {
        if self.is_over(now) {
            return true;
        }
        let Some(since) = self.since else { return false };
        self.done += amount as f64;
        self.before_ns + now.since(since) as f64 >= SAMPLE_NS && self.sample(now, since)
    }

    /// Reports that a primary has left the stage. Returns whether the level has changed.
    pub fn left(&mut self, now: Timestamp) -> bool {
        if self.is_over(now) {
            return true;
        }
        let Some(since) = self.since else { return false };
        // Counts the job itself, because it may have no other output.
        self.done += 1.0;
        self.sample(now, since)
    }

    /// Ends a trial that has run out of time without a verdict. Returns whether it ended one.
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
                    // Above the knee, the throughput may fall again.
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
                // This factor corresponds to half of the proportional change.
                let times = f64::midpoint(1.0, f64::from(level) / f64::from(knee));
                let Some(exceeds) = window.exceeds(&at_knee, times, level, TRIAL_NS) else {
                    return;
                };
                match (exceeds, level > knee) {
                    (true, true) => self.grow(now, window),
                    // Go one more step down, then bisect: N* seldom moves far unless the throughput
                    // falls.
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

    /// Doubles the level after it brought enough throughput.
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

    /// Evaluates a window of N*: whether the throughput has fallen, and whether to try another
    /// level.
    fn held(&mut self, now: Timestamp) {
        let Phase::Hold { up, tried, first, sum, fell } = self.phase else { return };
        let (knee, window) = (self.level, self.window);
        let falls = knee > 1 && window.rate() < (1.0 - SHIFT) * first.rate();
        if falls && fell {
            // If the throughput has fallen, a lower level may suffice.
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
            // The current sample belongs to the previous level.
            (self.since, self.before_ns, self.done) = (None, 0.0, 0.0);
            self.settles_ns = SETTLE_NS;
        }
        (self.level, self.phase, self.window) = (level, phase, Window::default());
    }
}
