//! Converts timestamps from their own clock to the run's clock.
//!
//! On Linux, corrections of the clock's speed affect the system clock and the run's clock equally,
//! but the system clock can be set at any time. A device's clock can also be set, and its speed may
//! be uncorrected. This module therefore measures the offset repeatedly. If two measurements differ
//! by more than the measurement error plus the drift, the clock was set, and timestamps between the
//! two measurements cannot be used.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::engine::stamp::Layer;
use crate::engine::stamp::nic::Phc;

const EVERY_NS: u64 = 50_000_000;
/// Smallest offset change that counts as a step. If every attempt is interrupted, a measurement is
/// off by a few tens of microseconds. A smaller step does no more harm than such an error.
const STEP_NS: u64 = 100_000;
/// Reciprocal of the maximum drift. A network device's oscillator is off by at most 100 parts per
/// million (IEEE 802.3), and the same is true of this machine's oscillator. Relative to each other,
/// they drift by at most 1/5,000.
const DEVICE_DRIFT: u64 = 5_000;

/// The clock that timestamps use.
#[derive(Debug, Clone)]
pub(crate) enum StampClock {
    System,
    Device(Arc<Phc>),
}

impl StampClock {
    pub(crate) fn layer(&self) -> Layer {
        match self {
            StampClock::System => Layer::Software,
            StampClock::Device(_) => Layer::Hardware,
        }
    }

    /// Returns the time in nanoseconds. Returns `None` if the device no longer exists.
    fn now_ns(&self) -> Option<u64> {
        match self {
            StampClock::System => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Some(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
            }
            StampClock::Device(clock) => clock.now_ns().ok(),
        }
    }

    /// Number of attempts per measurement, of which only the fastest is used. Reading a device's
    /// clock takes microseconds, during which the thread sends nothing.
    fn tries(&self) -> usize {
        match self {
            StampClock::System => 5,
            StampClock::Device(_) => 2,
        }
    }

    /// Returns the maximum drift relative to the run's clock over a span, in nanoseconds.
    fn drift_ns(&self, span_ns: u64) -> u64 {
        match self {
            StampClock::System => 0,
            StampClock::Device(_) => span_ns / DEVICE_DRIFT,
        }
    }
}

/// The time at which a request left, both as a timestamp and in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) stamp_ns: u64,
    pub(crate) at_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Conversion {
    clock: StampClock,
    epoch: Instant,
    /// The clock's reading at the epoch.
    at_epoch_ns: u64,
    measured: Instant,
    steps: u32,
    /// Timestamps before this time, in nanoseconds since the epoch, predate the last step.
    valid_from_ns: u64,
}

impl Conversion {
    pub(crate) fn new(clock: StampClock, epoch: Instant) -> Conversion {
        // Until there is a measurement, every timestamp is out of bounds.
        let (measured, at_epoch_ns) = measure(&clock, epoch).unwrap_or((epoch, u64::MAX));
        Conversion { clock, epoch, at_epoch_ns, measured, steps: 0, valid_from_ns: 0 }
    }

    pub(crate) fn layer(&self) -> Layer {
        self.clock.layer()
    }

    pub(crate) fn keep_up(&mut self) {
        if self.measured.elapsed().as_nanos() < u128::from(EVERY_NS) {
            return;
        }
        if let Some((measured, at_epoch_ns)) = measure(&self.clock, self.epoch) {
            self.take(measured, at_epoch_ns);
        }
    }

    fn take(&mut self, measured: Instant, at_epoch_ns: u64) {
        let span = measured.saturating_duration_since(self.measured);
        let drift_ns = self.clock.drift_ns(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        if at_epoch_ns.abs_diff(self.at_epoch_ns) > STEP_NS.saturating_add(drift_ns) {
            self.steps += 1;
            let since = measured.saturating_duration_since(self.epoch);
            self.valid_from_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        }
        (self.measured, self.at_epoch_ns) = (measured, at_epoch_ns);
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// Converts a timestamp to nanoseconds since the epoch. The event must have occurred between
    /// the two given times. Returns `None` if the timestamp predates the epoch or the last step of
    /// the clock. Also returns `None` if the result is not between the two times. The latter
    /// happens if the clock has just been set and no measurement has detected the change yet.
    pub(crate) fn since_epoch_ns(&self, stamp_ns: u64, from_ns: u64, until_ns: u64) -> Option<u64> {
        let since = stamp_ns.checked_sub(self.at_epoch_ns)?;
        let between = from_ns.saturating_sub(STEP_NS)..=until_ns.saturating_add(STEP_NS);
        (since >= self.valid_from_ns && between.contains(&since)).then_some(since)
    }

    /// Returns the arrival time of a response in nanoseconds since the epoch, within the same
    /// bounds as [`Self::since_epoch_ns`]. If possible, adds the time that has passed since the
    /// timestamp of the request. The difference between two timestamps of one clock needs no
    /// conversion, so an inexact offset does not affect it.
    pub(crate) fn came_ns(
        &self,
        stamp_ns: u64,
        left: Option<Departure>,
        from_ns: u64,
        until_ns: u64,
    ) -> Option<u64> {
        let converted_ns = self.since_epoch_ns(stamp_ns, from_ns, until_ns)?;
        let exact_ns =
            left.and_then(|left| stamp_ns.checked_sub(left.stamp_ns)?.checked_add(left.at_ns));
        // The clock may have been set between the two timestamps.
        let same = |exact_ns: &u64| exact_ns.abs_diff(converted_ns) <= STEP_NS;
        exact_ns.filter(same).or(Some(converted_ns))
    }
}

/// Measures the clock. Returns the time of the measurement, and the clock's reading at the epoch.
fn measure(clock: &StampClock, epoch: Instant) -> Option<(Instant, u64)> {
    let one = || {
        let before = Instant::now();
        let stamp_ns = clock.now_ns()?;
        Some((before.elapsed(), before, stamp_ns))
    };
    let tries = (0..clock.tries()).filter_map(|_| one());
    let (took, before, stamp_ns) = tries.min_by_key(|(took, ..)| *took)?;
    let middle = before + took / 2;
    let nanoseconds = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(0);
    let since = nanoseconds(middle.saturating_duration_since(epoch));
    let until = nanoseconds(epoch.saturating_duration_since(middle));
    Some((middle, stamp_ns.saturating_sub(since).saturating_add(until)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now_ns() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    #[test]
    fn the_current_time_is_converted_to_the_current_time() {
        for epoch in [Instant::now(), Instant::now() + Duration::from_secs(3)] {
            let conversion = Conversion::new(StampClock::System, epoch - Duration::from_secs(5));
            let before = Instant::now();
            let since = conversion.since_epoch_ns(now_ns(), 0, u64::MAX).unwrap();
            let expected = (before - (epoch - Duration::from_secs(5))).as_nanos() as u64;
            // The scheduler may have preempted this thread between the two reads.
            assert!(since + 20_000 >= expected, "{since} {expected}");
            assert!(since < expected + 1_000_000_000, "{since} {expected}");
        }
    }

    #[test]
    fn a_clock_step_is_detected_and_earlier_stamps_are_dropped() {
        let epoch = Instant::now();
        let mut conversion = Conversion::new(StampClock::System, epoch);
        let (second, at) = (1_000_000_000, conversion.at_epoch_ns);
        let since = |conversion: &Conversion, ns| conversion.since_epoch_ns(ns, 0, u64::MAX);
        let after = |ns| epoch + Duration::from_nanos(ns);
        conversion.take(after(second), at + STEP_NS);
        assert_eq!((conversion.steps(), since(&conversion, at + STEP_NS + 5)), (0, Some(5)));
        // An hour ahead.
        let ahead = at + 3_600 * second;
        conversion.take(after(2 * second), ahead);
        assert_eq!(conversion.steps(), 1);
        assert_eq!(since(&conversion, at + second), None, "by the old clock");
        assert_eq!(since(&conversion, ahead + second), None, "before it was noticed");
        assert_eq!(since(&conversion, ahead + 2 * second + 7), Some(2 * second + 7));
    }

    #[test]
    fn stamps_between_a_clock_step_and_its_detection_are_dropped() {
        let conversion = Conversion::new(StampClock::System, Instant::now());
        let (second, at) = (1_000_000_000, conversion.at_epoch_ns);
        // The request was taken after 5 s, and its response arrived within 2 ms.
        let (from, until) = (5 * second, 5 * second + 2_000_000);
        let stamp = at + 5 * second + 1_000_000;
        assert_eq!(conversion.since_epoch_ns(stamp, from, until), Some(from + 1_000_000));
        for stepped in [stamp + 3_600 * second, stamp + 50_000_000, stamp - 50_000_000, stamp - at]
        {
            assert_eq!(conversion.since_epoch_ns(stepped, from, until), None, "{stepped}");
        }
        // The two clocks are read one after the other.
        assert!(conversion.since_epoch_ns(at + from - 5_000, from, until).is_some());
    }

    #[test]
    fn a_response_time_is_the_difference_of_two_stamps_unless_the_clock_was_set() {
        let mut conversion = Conversion::new(StampClock::System, Instant::now());
        let (second, at) = (1_000_000_000, conversion.at_epoch_ns);
        let left = Some(Departure { stamp_ns: at + second, at_ns: second });
        let came = |conversion: &Conversion, stamp| conversion.came_ns(stamp, left, 0, 9 * second);
        // Meanwhile, the offset was measured again, with a larger error.
        conversion.take(conversion.epoch, at + 3_000);
        assert_eq!(came(&conversion, at + second + 20_000), Some(second + 20_000));
        assert_eq!(
            conversion.came_ns(at + 2 * second, None, 0, u64::MAX),
            Some(2 * second - 3_000)
        );
        conversion.take(conversion.epoch, at + 3 * second);
        assert_eq!(came(&conversion, at + 5 * second), Some(2 * second), "not 5 s");
        assert_eq!(came(&conversion, at + 13 * second), None, "after it was read");
    }

    #[test]
    fn drift_of_a_device_clock_does_not_count_as_a_step() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let clock = StampClock::Device(Arc::new(Phc::of(file)));
        let epoch = Instant::now();
        let mut conversion = Conversion::new(clock, epoch);
        assert_eq!(conversion.since_epoch_ns(7, 0, u64::MAX), None, "it cannot be read");
        let second = 1_000_000_000;
        conversion.take(epoch, 40 * second);
        assert_eq!(conversion.since_epoch_ns(41 * second, 0, u64::MAX), Some(second));
        let steps = conversion.steps();
        // A drift of 90 parts per million over ten seconds.
        conversion.take(epoch + Duration::from_secs(10), 40 * second + 900_000);
        assert_eq!(conversion.steps(), steps);
        conversion.take(epoch + Duration::from_secs(11), 41 * second);
        assert_eq!(conversion.steps(), steps + 1);
    }
}
