//! Records the fate of each packet of a run and adds up the results.

use std::time::Duration;

use curtail_load::Histogram;

use crate::frame::Payload;
use crate::method::Flow;

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
    sent_ns: u64,
    came_ns: u64,
    tapped_ns: u64,
    /// Timestamps of the kernel's clock. Zero if there is none.
    left_ns: u64,
    stamped_ns: u64,
}

/// The packets of a run, by number.
#[derive(Debug)]
pub(crate) struct Shots {
    flow: Flow,
    shots: Vec<Shot>,
    under_way: u64,
    by_kernel: bool,
}

/// The results of a run.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    /// The planned and the achieved rate, in packets per second.
    pub(crate) offered: f64,
    pub(crate) achieved: f64,
    /// Packets that were sent after the warm-up. The following counts exclude the warm-up, too.
    pub(crate) sent: u64,
    /// Packets that were never sent, because the generator was delayed.
    pub(crate) skipped: u64,
    /// Packets that were sent and did not return.
    pub(crate) lost: u64,
    /// Packets that returned without the required timestamps.
    pub(crate) unstamped: u64,
    /// Latencies measured by the method.
    pub(crate) measured: Histogram<u64>,
    /// Latencies of the same packets, measured by the taps.
    pub(crate) tapped: Histogram<u64>,
    /// The difference between the two for each packet.
    pub(crate) added: Histogram<u64>,
}

impl Shots {
    pub(crate) fn new(flow: Flow) -> Self {
        let shots = vec![Shot::default(); flow.packets as usize];
        Self { flow, shots, under_way: 0, by_kernel: false }
    }

    pub(crate) fn sent(&mut self, number: u32, sent_ns: u64) {
        if let Some(shot) = self.shots.get_mut(number as usize) {
            (shot.sent, shot.sent_ns) = (true, sent_ns);
            self.under_way += 1;
        }
    }

    /// Records a packet that returned. Later copies of it are ignored.
    pub(crate) fn came(&mut self, payload: Payload, came_ns: u64) {
        let shot = self.shots.get_mut(payload.number as usize);
        if let Some(shot) = shot.filter(|shot| shot.sent && !shot.came) {
            (shot.came, shot.came_ns) = (true, came_ns);
            shot.tapped_ns = payload.tapped_ns();
            self.under_way -= 1;
        }
    }

    /// Records the kernel's timestamp of a packet that returned.
    pub(crate) fn stamped(&mut self, number: u32, stamp: Option<u64>) {
        self.by_kernel = true;
        if let Some(shot) = self.shots.get_mut(number as usize) {
            shot.stamped_ns = stamp.unwrap_or(0);
        }
    }

    /// Records the kernel's timestamp of a packet that was sent.
    pub(crate) fn left(&mut self, number: u32, left_ns: u64) {
        if let Some(shot) = self.shots.get_mut(number as usize) {
            shot.left_ns = left_ns;
        }
    }

    /// Returns the number of packets that were sent and have not returned yet.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Adds up the packets after the warm-up. `took` is the time for which the run sent packets.
    pub(crate) fn finish(&self, took: Duration) -> Slice {
        let Flow { period_ns, packets, warmup } = self.flow;
        let (mut measured, mut tapped, mut added) = (nanoseconds(), nanoseconds(), nanoseconds());
        let (mut sent, mut lost, mut unstamped) = (0, 0, 0);
        for shot in self.shots.iter().skip(warmup as usize).filter(|shot| shot.sent) {
            sent += 1;
            if !shot.came {
                lost += 1;
                continue;
            }
            let (from, to) = if self.by_kernel {
                (shot.left_ns, shot.stamped_ns)
            } else {
                (shot.sent_ns, shot.came_ns)
            };
            if self.by_kernel && (from == 0 || to == 0) {
                unstamped += 1;
                continue;
            }
            let latency_ns = to.saturating_sub(from);
            measured.saturating_record(latency_ns);
            tapped.saturating_record(shot.tapped_ns);
            added.saturating_record(latency_ns.saturating_sub(shot.tapped_ns));
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // The run may have been interrupted.
        let due = took_ns.div_ceil(period_ns).min(u64::from(packets)).saturating_sub(warmup.into());
        let span_s = due as f64 * period_ns as f64 / 1e9;
        Slice {
            offered: 1e9 / period_ns as f64,
            achieved: if due == 0 { 0.0 } else { measured.len() as f64 / span_s },
            sent,
            skipped: due.saturating_sub(sent),
            lost,
            unstamped,
            measured,
            tapped,
            added,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow { period_ns: 100_000, packets: 10, warmup: 2 };

    #[test]
    fn packets_are_counted_by_their_fate() {
        let mut shots = Shots::new(FLOW);
        for number in [0, 1, 2, 3, 5, 6] {
            shots.sent(number, u64::from(number) * FLOW.period_ns);
        }
        for number in [1, 2, 5, 5, 7] {
            shots.came(Payload::new(0, number), u64::from(number) * FLOW.period_ns + 7_000);
        }
        assert_eq!(shots.under_way(), 3);
        let slice = shots.finish(Duration::from_millis(1));
        assert_eq!((slice.sent, slice.skipped, slice.lost, slice.unstamped), (4, 4, 2, 0));
        assert_eq!((slice.measured.len(), slice.added.len()), (2, 2));
        assert!(slice.measured.equivalent(slice.measured.max(), 7_000));
        assert!((slice.achieved - 2.0 / 0.0008).abs() < 1e-6, "{}", slice.achieved);
    }

    #[test]
    fn packets_without_both_stamps_have_no_latency() {
        let mut shots = Shots::new(FLOW);
        for number in 2..5 {
            shots.sent(number, 0);
            shots.came(Payload::new(0, number), 9_000);
            shots.stamped(number, (number != 3).then_some(1_000_000));
        }
        shots.left(2, 999_000);
        shots.left(3, 999_000);
        let slice = shots.finish(Duration::from_millis(1));
        assert_eq!((slice.measured.len(), slice.unstamped, slice.lost), (1, 2, 0));
        assert!(slice.measured.equivalent(slice.measured.max(), 1_000));
    }
}
