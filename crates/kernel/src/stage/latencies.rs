//! The latency of jobs from arrival to end, for each number of jobs at the stage. Replies to probes
//! contain this latency.

/// Moving averages, one for each range from a power of two to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies([f64; 24]);

impl Latencies {
    const WEIGHT: f64 = 0.2;

    fn class(in_flight: u32) -> usize {
        (in_flight.max(1).ilog2() as usize).min(23)
    }

    pub(super) fn add(&mut self, in_flight: u32, took_ns: u64) {
        let (of, took) = (&mut self.0[Self::class(in_flight)], took_ns as f64);
        *of = if *of == 0.0 { took } else { *of + Self::WEIGHT * (took - *of) };
    }

    /// Returns the average for this number of jobs, or for the nearest number that has one. The
    /// result is 0 if there is no average.
    pub(super) fn at(&self, in_flight: u32) -> u64 {
        let class = Self::class(in_flight);
        let known = (0..self.0.len()).filter(|&other| self.0[other] > 0.0);
        known.min_by_key(|other| other.abs_diff(class)).map_or(0, |at| self.0[at] as u64)
    }
}
