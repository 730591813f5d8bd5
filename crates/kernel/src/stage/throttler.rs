//! The throttler of a Proxy D-Stage: how many jobs a stage that cannot be changed is given at once.
//!
//! Source: document 003 §3.4. The objective: the least multiplexing level N* at which the throughput is at its
//! greatest, so that as many jobs as possible wait where they can still be prioritized and purged. It begins at
//! one, raises the level while the throughput rises with it (probing phase), then stays at N* (exploitation).
//!
//! Settled:
//! - Throughput is what leaves per time *while the level binds*: some job waits and every slot is taken. Else the
//!   arrivals would decide it, and at low load the level would stay too low. The caller says what leaves, in jobs
//!   or better in bytes.
//! - Levels are doubled while that brings [`GROWS`] more, and halved intervals lead to the least level whose
//!   throughput is within [`LOSS`] of the greatest. The source goes up by one.
//! - The knee moves: in exploitation, levels above and below N* are tried now and then, by a quarter of it, and
//!   where one is better by half of what is in proportion, probing begins anew from there. It does, too, where
//!   the throughput at N* has fallen by [`SHIFT`].
//! - A window ends when the verdict is clear by three standard errors of the two rates, which is soon where a level
//!   is far off, or when it is long.
//!
//! Cost: O(1) per call, and no memory but its own.

use crate::time::Timestamp;

/// Twice the level has to bring so much.
const GROWS: f64 = 1.25;
/// N* may miss so much of the greatest throughput.
const LOSS: f64 = 0.08;
/// A fall of the throughput at N* after which the knee is looked for again.
const SHIFT: f64 = 0.25;
/// The longest window of a level that is tried, in ns of time in which the level binds.
const TRIAL_NS: u64 = 500_000_000;
/// The window of N* between two trials.
const HOLD_NS: u64 = 1_500_000_000;
/// No verdict on fewer jobs than this, and as many as two rounds of the level.
const LEAST_JOBS: u32 = 16;

/// What left in the time in which a level bound: a rate, and how sure it is.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    jobs: u32,
    time: f64,
    amount: f64,
    /// Sums of squares and products of the gaps between ends, and of what left at them.
    squares: [f64; 3],
}

impl Window {
    fn add(&mut self, time: f64, amount: f64) {
        self.jobs += 1;
        self.time += time;
        self.amount += amount;
        let [tt, ta, aa] = &mut self.squares;
        (*tt, *ta, *aa) = (*tt + time * time, *ta + time * amount, *aa + amount * amount);
    }

    /// Both, which are of one rate.
    fn with(self, other: Self) -> Self {
        let sum = |at: usize| self.squares[at] + other.squares[at];
        Self {
            jobs: self.jobs + other.jobs,
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

    /// Is the rate at least so many times another's? None while that is open and more may come.
    fn exceeds(&self, other: &Self, times: f64, level: u32) -> Option<bool> {
        if self.jobs < LEAST_JOBS.max(2 * level) {
            return None;
        }
        let ratio = self.rate() / other.rate();
        let (off, variance) = (ratio - times, self.variance() + other.variance());
        let is_clear = off * off > 9.0 * ratio * ratio * variance;
        (is_clear || self.time >= TRIAL_NS as f64).then_some(off >= 0.0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Probing: the level is doubled. The window of half of it, where there is one.
    Grow(Option<Window>),
    /// Probing: N* is above the first and at most the second; the level is between them. The window of the
    /// greatest throughput.
    Narrow(u32, u32, Window),
    /// Exploitation, at N*. Which side is tried next; and the throughput that it began with.
    Hold { up: bool, first: Option<Window> },
    /// Exploitation: another level is tried. N*, and its window.
    Try(u32, Window),
}

/// Finds N* and follows it.
#[derive(Clone, Debug)]
pub struct Throttler {
    most: u32,
    level: u32,
    phase: Phase,
    window: Window,
    /// Ends that still show the level before.
    to_skip: u32,
    /// Since when the level binds, or the last end in that time. None: it does not bind.
    since: Option<Timestamp>,
    /// Binding time without an end, in ns.
    idle_ns: f64,
}

impl Throttler {
    /// Levels from one to `most`, at least one.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            most: most.max(1),
            level: 1,
            phase: Phase::Grow(None),
            window: Window::default(),
            to_skip: 0,
            since: None,
            idle_ns: 0.0,
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
            Phase::Try(knee, _) => Some(knee),
            Phase::Grow(_) | Phase::Narrow(..) => None,
        }
    }

    /// Says whether the level binds from now on: it is used up, and a job waits. To be called whenever that may
    /// have changed; saying it again changes nothing.
    pub fn binds(&mut self, now: Timestamp, binds: bool) {
        match self.since {
            None if binds => self.since = Some(now),
            Some(since) if !binds => {
                self.idle_ns += now.since(since) as f64;
                self.since = None;
            }
            _ => {}
        }
    }

    /// A job has left the stage, with so much done. True where the level has changed.
    pub fn left(&mut self, now: Timestamp, amount: u64) -> bool {
        let Some(since) = self.since else { return false };
        self.since = Some(now);
        let time = self.idle_ns + now.since(since) as f64;
        self.idle_ns = 0.0;
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return false;
        }
        self.window.add(time, amount as f64);
        let before = self.level;
        self.judge();
        before != self.level
    }

    fn judge(&mut self) {
        let (level, window) = (self.level, self.window);
        let is_long =
            |ns: u64| window.jobs >= LEAST_JOBS.max(2 * level) && window.time >= ns as f64;
        match self.phase {
            Phase::Grow(None) if is_long(TRIAL_NS) || window.jobs >= 64 => self.grow(window),
            Phase::Grow(None) => {}
            Phase::Grow(Some(half)) => match window.exceeds(&half, GROWS, level) {
                Some(true) => self.grow(window),
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
            Phase::Narrow(below, at_most, top) => match window.exceeds(&top, 1.0 - LOSS, level) {
                Some(true) => self.narrow(below, level, top.with(window)),
                Some(false) => self.narrow(level, at_most, top),
                None => {}
            },
            Phase::Hold { up, first } if is_long(HOLD_NS) => self.held(up, first),
            Phase::Hold { .. } => {}
            Phase::Try(knee, at_knee) => {
                // Half of what would be in proportion.
                let times = f64::midpoint(1.0, f64::from(level) / f64::from(knee));
                let Some(exceeds) = window.exceeds(&at_knee, times, level) else { return };
                match (exceeds, level > knee) {
                    (true, true) => self.grow(window),
                    (true, false) => self.narrow(0, level, at_knee),
                    (false, tried_up) => {
                        let up = !tried_up;
                        self.turn(knee, Phase::Hold { up, first: Some(at_knee) });
                    }
                }
            }
        }
    }

    /// The level brought what it should.
    fn grow(&mut self, window: Window) {
        let double = self.level.saturating_mul(2).min(self.most);
        if double == self.level {
            return self.turn(double, Phase::Hold { up: false, first: None });
        }
        self.turn(double, Phase::Grow(Some(window)));
    }

    fn narrow(&mut self, below: u32, at_most: u32, top: Window) {
        if below + 1 >= at_most {
            return self.turn(at_most, Phase::Hold { up: true, first: None });
        }
        self.turn(u32::midpoint(below, at_most), Phase::Narrow(below, at_most, top));
    }

    /// N* had a long window: has it another throughput than before, and is another level better?
    fn held(&mut self, up: bool, first: Option<Window>) {
        let (knee, window) = (self.level, self.window);
        let ratio = first.map_or(1.0, |first| window.rate() / first.rate());
        let step = (knee / 4).max(1);
        if ratio < 1.0 - SHIFT && knee > 1 {
            // Less leaves: fewer may do.
            return self.narrow(0, knee, window);
        }
        let tried =
            if up || knee == 1 { knee.saturating_add(step).min(self.most) } else { knee - step };
        if tried == knee {
            return self.turn(knee, Phase::Hold { up: false, first: Some(window) });
        }
        self.turn(tried, Phase::Try(knee, window));
    }

    fn turn(&mut self, level: u32, phase: Phase) {
        // What is under way was begun at the level before.
        self.to_skip = if level == self.level { 0 } else { level.max(self.level) };
        (self.level, self.phase, self.window) = (level, phase, Window::default());
    }
}
