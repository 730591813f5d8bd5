//! Converts the system clock, which the kernel's timestamps use, to the clock of the run.
//!
//! On Linux both run at the same speed, corrections included, but the system clock can be set at any time. So
//! this module measures their offset repeatedly. If two measurements differ by more than the measurement
//! error, the clock was set, and timestamps from between them mean nothing.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

const EVERY_NS: u64 = 50_000_000;
/// A measurement is off by some tens of microseconds if every try is interrupted, and smaller steps do no
/// more harm than that.
const STEP_NS: u64 = 100_000;
/// Tries per measurement: the fastest one counts.
const TRIES: usize = 5;

#[derive(Debug, Clone)]
pub(crate) struct Realtime {
    epoch: Instant,
    /// The system clock at the epoch, in nanoseconds since 1970.
    at_epoch_ns: u64,
    measured: Instant,
    steps: u32,
    /// Timestamps before this time, in nanoseconds since the epoch, predate the last step.
    valid_from_ns: u64,
}

impl Realtime {
    pub(crate) fn new(epoch: Instant) -> Realtime {
        let (measured, at_epoch_ns) = measure(epoch);
        Realtime { epoch, at_epoch_ns, measured, steps: 0, valid_from_ns: 0 }
    }

    pub(crate) fn keep_up(&mut self) {
        if self.measured.elapsed().as_nanos() < u128::from(EVERY_NS) {
            return;
        }
        let (measured, at_epoch_ns) = measure(self.epoch);
        self.take(measured, at_epoch_ns);
    }

    fn take(&mut self, measured: Instant, at_epoch_ns: u64) {
        if at_epoch_ns.abs_diff(self.at_epoch_ns) > STEP_NS {
            self.steps += 1;
            let since = measured.saturating_duration_since(self.epoch);
            self.valid_from_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        }
        (self.measured, self.at_epoch_ns) = (measured, at_epoch_ns);
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// A timestamp in nanoseconds since the epoch, of an event between two known times. None if it predates
    /// the epoch or the last step of the clock. None also if it is outside of these times, because then the
    /// clock has just been set, and no measurement has noticed yet.
    pub(crate) fn since_epoch_ns(
        &self,
        realtime_ns: u64,
        from_ns: u64,
        until_ns: u64,
    ) -> Option<u64> {
        let since = realtime_ns.checked_sub(self.at_epoch_ns)?;
        let between = from_ns.saturating_sub(STEP_NS)..=until_ns.saturating_add(STEP_NS);
        (since >= self.valid_from_ns && between.contains(&since)).then_some(since)
    }
}

fn measure(epoch: Instant) -> (Instant, u64) {
    let one = || {
        let before = Instant::now();
        let system = SystemTime::now();
        let after = Instant::now();
        (after - before, before, system)
    };
    let tries = (0..TRIES).map(|_| one());
    let (took, before, system) = tries.min_by_key(|(took, ..)| *took).unwrap_or_else(one);
    let middle = before + took / 2;
    let system_ns = system.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let system_ns = u64::try_from(system_ns).unwrap_or(u64::MAX);
    let nanoseconds = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(0);
    let since = nanoseconds(middle.saturating_duration_since(epoch));
    let until = nanoseconds(epoch.saturating_duration_since(middle));
    (middle, system_ns.saturating_sub(since).saturating_add(until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn now_ns() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    #[test]
    fn a_stamp_of_now_is_now() {
        for epoch in [Instant::now(), Instant::now() + Duration::from_secs(3)] {
            let realtime = Realtime::new(epoch - Duration::from_secs(5));
            let before = Instant::now();
            let since = realtime.since_epoch_ns(now_ns(), 0, u64::MAX).unwrap();
            let expected = (before - (epoch - Duration::from_secs(5))).as_nanos() as u64;
            // The scheduler may have preempted this thread between the two reads.
            assert!(since + 20_000 >= expected, "{since} {expected}");
            assert!(since < expected + 1_000_000_000, "{since} {expected}");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_and_stamps_of_before_are_dropped() {
        let epoch = Instant::now();
        let mut realtime = Realtime::new(epoch);
        let (second, at) = (1_000_000_000, realtime.at_epoch_ns);
        let since = |realtime: &Realtime, ns| realtime.since_epoch_ns(ns, 0, u64::MAX);
        let after = |ns| epoch + Duration::from_nanos(ns);
        realtime.take(after(second), at + STEP_NS);
        assert_eq!((realtime.steps(), since(&realtime, at + STEP_NS + 5)), (0, Some(5)));
        // An hour ahead.
        let ahead = at + 3_600 * second;
        realtime.take(after(2 * second), ahead);
        assert_eq!(realtime.steps(), 1);
        assert_eq!(since(&realtime, at + second), None, "by the old clock");
        assert_eq!(since(&realtime, ahead + second), None, "before it was noticed");
        assert_eq!(since(&realtime, ahead + 2 * second + 7), Some(2 * second + 7));
    }

    #[test]
    fn stamps_between_a_step_and_its_notice_are_dropped_whichever_way_it_went() {
        let realtime = Realtime::new(Instant::now());
        let (second, at) = (1_000_000_000, realtime.at_epoch_ns);
        // A request that was taken up after 5 s, whose response came within 2 ms.
        let (from, until) = (5 * second, 5 * second + 2_000_000);
        let stamp = at + 5 * second + 1_000_000;
        assert_eq!(realtime.since_epoch_ns(stamp, from, until), Some(from + 1_000_000));
        for stepped in [stamp + 3_600 * second, stamp + 50_000_000, stamp - 50_000_000, stamp - at]
        {
            assert_eq!(realtime.since_epoch_ns(stepped, from, until), None, "{stepped}");
        }
        // The two clocks are read one after the other.
        assert!(realtime.since_epoch_ns(at + from - 5_000, from, until).is_some());
    }
}
