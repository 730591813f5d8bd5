//! A flow of packets: records the fate of each packet of a run, and adds up the results.

use std::time::Duration;

use curtail_load::Histogram;

use crate::frame::Payload;

/// A flow at a constant rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) period_ns: u64,
    /// The number of packets, including those of the warm-up.
    pub(crate) packets: u32,
    pub(crate) warmup: u32,
    /// Every packet contains this number, which identifies late packets of earlier flows.
    pub(crate) run: u16,
}

/// The longest latency that a histogram distinguishes. Longer latencies count as this long.
const LONGEST_NS: u64 = 4_000_000_000;

/// Returns a histogram of nanoseconds with three significant digits.
pub(crate) fn nanoseconds() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constants in range")
}

#[derive(Debug, Clone, Copy, Default)]
struct Shot {
    sent: bool,
    came: bool,
    /// The times of the method's clock. `None` if it reported none.
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    tapped_ns: u64,
}

/// The packets of a run, by number.
#[derive(Debug)]
pub(crate) struct Shots {
    flow: Flow,
    shots: Vec<Shot>,
    under_way: u64,
}

/// The results of one or more runs, without their warm-ups.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    /// Measured packets per second.
    pub(crate) achieved: f64,
    pub(crate) sent: u64,
    /// Latencies measured by the method.
    pub(crate) measured: Histogram<u64>,
    /// Latencies of the same packets, measured by the taps.
    pub(crate) tapped: Histogram<u64>,
    /// The difference between the two for each packet.
    pub(crate) added: Histogram<u64>,
}

impl Slice {
    fn empty() -> Self {
        let [measured, tapped, added] = [(); 3].map(|()| nanoseconds());
        Self { achieved: 0.0, sent: 0, measured, tapped, added }
    }

    /// Returns the packets that were sent and did not return, or that returned without the required
    /// timestamps.
    pub(crate) fn lost(&self) -> u64 {
        self.sent - self.measured.len()
    }

    /// Merges runs.
    pub(crate) fn sum(slices: &[Self]) -> Self {
        let mut all = Self::empty();
        for slice in slices {
            all.achieved += slice.achieved / slices.len() as f64;
            all.sent += slice.sent;
            all.measured += &slice.measured;
            all.tapped += &slice.tapped;
            all.added += &slice.added;
        }
        all
    }
}

impl Shots {
    pub(crate) fn new(flow: Flow) -> Self {
        Self { flow, shots: vec![Shot::default(); flow.packets as usize], under_way: 0 }
    }

    /// Records a packet that was sent.
    pub(crate) fn sent(&mut self, number: u32, from_ns: Option<u64>) {
        if let Some(shot) = self.shots.get_mut(number as usize) {
            (shot.sent, shot.from_ns) = (true, from_ns);
            self.under_way += 1;
        }
    }

    /// Records the kernel's timestamp of a packet that was sent.
    pub(crate) fn left(&mut self, number: u32, from_ns: u64) {
        if let Some(shot) = self.shots.get_mut(number as usize) {
            shot.from_ns = Some(from_ns);
        }
    }

    /// Records a packet that returned. Later copies of it are ignored.
    pub(crate) fn came(&mut self, payload: Payload, to_ns: Option<u64>) {
        let shot = self.shots.get_mut(payload.number as usize);
        if let Some(shot) = shot.filter(|shot| shot.sent && !shot.came) {
            (shot.came, shot.to_ns, shot.tapped_ns) = (true, to_ns, payload.tapped_ns());
            self.under_way -= 1;
        }
    }

    /// Returns the number of packets that were sent and have not returned yet.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Adds up the packets after the warm-up. `took` is the time for which the run sent packets.
    pub(crate) fn finish(&self, took: Duration) -> Slice {
        let Flow { period_ns, packets, warmup, .. } = self.flow;
        let mut slice = Slice::empty();
        for shot in self.shots.iter().skip(warmup as usize).filter(|shot| shot.sent) {
            slice.sent += 1;
            let times = shot.from_ns.zip(shot.to_ns).filter(|_| shot.came);
            let Some((from_ns, to_ns)) = times else { continue };
            let latency_ns = to_ns.saturating_sub(from_ns);
            slice.measured.saturating_record(latency_ns);
            slice.tapped.saturating_record(shot.tapped_ns);
            slice.added.saturating_record(latency_ns.saturating_sub(shot.tapped_ns));
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // The run may have been interrupted.
        let due = took_ns.div_ceil(period_ns).min(u64::from(packets)).saturating_sub(warmup.into());
        if due > 0 {
            slice.achieved = slice.measured.len() as f64 / (due as f64 * period_ns as f64 / 1e9);
        }
        slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow { period_ns: 100_000, packets: 10, warmup: 2, run: 0 };

    #[test]
    fn packets_are_counted_by_their_fate() {
        let mut shots = Shots::new(FLOW);
        let at = |number: u32| u64::from(number) * FLOW.period_ns;
        for number in [0, 1, 2, 3, 5, 6] {
            shots.sent(number, Some(at(number)));
        }
        for number in [1, 2, 5, 5, 7] {
            shots.came(Payload::new(0, number), Some(at(number) + 7_000));
        }
        assert_eq!(shots.under_way(), 3);
        let slice = shots.finish(Duration::from_millis(1));
        assert_eq!((slice.sent, slice.lost()), (4, 2));
        assert_eq!((slice.measured.len(), slice.added.len()), (2, 2));
        assert!(slice.measured.equivalent(slice.measured.max(), 7_000));
        assert!((slice.achieved - 2.0 / 0.0008).abs() < 1e-6, "{}", slice.achieved);
        let sum = Slice::sum(&[slice.clone(), slice]);
        assert_eq!((sum.sent, sum.measured.len()), (8, 4));
        assert!((sum.achieved - 2.0 / 0.0008).abs() < 1e-6, "the mean");
    }

    #[test]
    fn packets_without_both_stamps_have_no_latency() {
        let mut shots = Shots::new(FLOW);
        for number in 2..5 {
            shots.sent(number, None);
            shots.came(Payload::new(0, number), (number != 3).then_some(1_000_000));
        }
        shots.left(2, 999_000);
        shots.left(3, 999_000);
        let slice = shots.finish(Duration::from_millis(1));
        assert_eq!((slice.measured.len(), slice.lost()), (1, 2));
        assert!(slice.measured.equivalent(slice.measured.max(), 1_000));
    }
}
