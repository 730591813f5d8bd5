//! Tests whether the requests were sent as the arrival process requires.
//!
//! In profile time, the gaps between Poisson arrivals are exponentially distributed with mean 1. The
//! Kolmogorov–Smirnov test compares the gaps between the requests *as sent* with that distribution. D
//! is the largest difference between the two distribution functions; its probability under the
//! hypothesis is known.
//!
//! # Sample
//!
//! The send times of all requests of a long run would take gigabytes of memory, and the first send
//! times are not representative of the others. Therefore only every *n*th block of [`BLOCK`] requests
//! is kept, counted by position in the schedule. If too many send times are kept, *n* doubles and half
//! of the blocks are dropped, so that the rest are still spread evenly. All threads use the same
//! positions, so they keep parts of the same blocks. The choice of blocks does not depend on the times,
//! so the gaps inside blocks are an unbiased sample.
//!
//! Cost: one comparison per request, and 16 bytes per send time. All threads together keep at most
//! [`KEPT_MAX`] send times, or twice that if their *n* differ. O(n log n) once at the end of the run.

use serde::{Deserialize, Serialize};

use crate::plan::profile::Profile;

/// Number of consecutive requests in a block. One gap is lost at the boundary of each block. An
/// agent's part of a block is short, and long gaps rarely fit into it. With 64 agents, each agent
/// has 16 requests of a block, and the arrival test finds a difference of 0.03 that does not exist.
/// This is well below the limit of the test.
pub(crate) const BLOCK: u64 = 1024;
/// Maximum number of send times.
pub(crate) const KEPT_MAX: usize = 1 << 15;

/// A sample of send times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sends {
    /// One block out of `every` is kept.
    every: u64,
    /// The position in the schedule, and the time in nanoseconds.
    kept: Vec<(u64, u64)>,
}

impl Sends {
    pub(crate) fn new() -> Sends {
        Sends { every: 1, kept: Vec::new() }
    }

    /// Creates an empty sample with capacity for the maximum number of send times.
    pub(crate) fn with_room() -> Sends {
        Sends { every: 1, kept: Vec::with_capacity(KEPT_MAX) }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps one block out of `every`, which is a multiple of the previous value.
    fn thin(&mut self, every: u64) {
        if every > self.every {
            self.every = every;
            self.kept.retain(|(index, _)| is_kept(*index, every));
        }
    }

    /// Merges the send times of another thread, or earlier ones of this thread.
    pub(crate) fn merge(&mut self, other: &Sends) {
        self.thin(other.every);
        let every = self.every;
        self.kept.extend(other.kept.iter().filter(|(index, _)| is_kept(*index, every)));
    }

    /// Returns the times block by block, in ascending order within each block.
    pub(crate) fn blocks(mut self) -> Vec<Vec<u64>> {
        self.kept.sort_unstable();
        let blocks = self.kept.chunk_by(|(one, _), (next, _)| one / BLOCK == next / BLOCK);
        let times = blocks.map(|block| {
            let mut times: Vec<u64> = block.iter().map(|(_, at_ns)| *at_ns).collect();
            times.sort_unstable();
            times
        });
        times.collect()
    }

    #[cfg(test)]
    pub(crate) fn push(&mut self, index: u64, at_ns: u64) {
        self.kept.push((index, at_ns));
    }

    #[cfg(test)]
    pub(crate) fn of(times: impl IntoIterator<Item = u64>) -> Sends {
        Sends { every: 1, kept: (0..).zip(times).collect() }
    }
}

/// The sampling state of a thread. It also counts the times that were handed over.
#[derive(Debug)]
pub(crate) struct Keep {
    every: u64,
    kept: usize,
    most: usize,
}

impl Keep {
    /// Creates the state of one of `threads` threads.
    pub(crate) fn new(threads: usize) -> Keep {
        Keep { every: 1, kept: 0, most: (KEPT_MAX / threads.max(1)).max(1) }
    }

    /// Records the send time of a request, if its block is kept.
    pub(crate) fn see(&mut self, sends: &mut Sends, index: u64, at_ns: u64) {
        if is_kept(index, self.every) && self.kept == self.most {
            self.every = self.every.saturating_mul(2);
            self.kept /= 2;
        }
        if is_kept(index, self.every) {
            sends.thin(self.every);
            sends.kept.push((index, at_ns));
            self.kept += 1;
        }
    }
}

fn is_kept(index: u64, every: u64) -> bool {
    (index / BLOCK).is_multiple_of(every)
}

/// Minimum number of gaps for a conclusion.
const GAPS_MIN: usize = 50;

/// The significance level.
const ALPHA: f64 = 0.001;
/// The acceptable difference. With enough gaps, the test also finds smaller differences, but these
/// do not matter to a queue. They occur, for example, if requests are 5 µs late and the gaps are 50
/// µs, so that some requests coincide with others.
const D_FINE: f64 = 0.1;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ArrivalTest {
    /// The number of gaps that were compared. In a long run, only the gaps in blocks that are
    /// spread evenly over the run are compared.
    pub gaps: usize,
    /// The largest difference between the distribution functions, 0 to 1.
    pub d: f64,
    /// The probability of such a difference if the gaps are exponential.
    pub p_value: f64,
    /// Whether the gaps deviate from the process: the p-value is below 0.001 and D is above 0.1.
    pub failed: bool,
}

/// Tests send times, which are given in nanoseconds since the start of the measured time. The
/// measured time lasts `measured_ns`. The times are ascending within each block, and only gaps
/// inside a block count. Returns `None` if there are too few gaps.
pub(crate) fn test(
    blocks: &[Vec<u64>],
    profile: &Profile,
    measured_ns: u64,
) -> Option<ArrivalTest> {
    let due = |time: u64| profile.requests(time as f64, measured_ns);
    let pairs = blocks.iter().flat_map(|block| block.windows(2));
    let mut gaps: Vec<f64> = pairs.map(|pair| due(pair[1]) - due(pair[0])).collect();
    if gaps.len() < GAPS_MIN {
        return None;
    }
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let d = gaps.iter().enumerate().fold(0.0_f64, |most, (i, gap)| {
        let expected = 1.0 - (-gap).exp();
        most.max(expected - i as f64 / n).max((i + 1) as f64 / n - expected)
    });
    let p_value = p_value(d, n);
    Some(ArrivalTest { gaps: gaps.len(), d, p_value, failed: p_value < ALPHA && d > D_FINE })
}

/// Returns the probability that the distribution of `n` draws differs by `d` or more from the
/// distribution from which they were drawn. Uses Kolmogorov's limit, with Stephens' correction for
/// small `n`.
fn p_value(d: f64, n: f64) -> f64 {
    let x = d * (n.sqrt() + 0.12 + 0.11 / n.sqrt());
    if x < 0.3 {
        // For such a small argument, the sum below converges slowly, but its value is 1 to five
        // digits.
        return 1.0;
    }
    let term = |j: i32| {
        let sign = if j % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * f64::from(j * j) * x * x).exp()
    };
    (2.0 * (1..=20).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use curtail_dist::arrivals::Arrivals;

    use super::*;
    use crate::plan::schedule::Schedule;

    /// Returns the send times that `threads` threads keep for `requests` requests. The threads hand
    /// over their times occasionally.
    fn kept(threads: u64, requests: u64) -> Vec<Vec<u64>> {
        let mut all = Sends::new();
        for thread in 0..threads {
            let (mut keep, mut own) = (Keep::new(threads as usize), Sends::new());
            for index in (thread..requests).step_by(threads as usize) {
                keep.see(&mut own, index, index * 10);
                if index % 5_000 < threads {
                    all.merge(&std::mem::replace(&mut own, Sends::new()));
                }
            }
            all.merge(&own);
        }
        all.blocks()
    }

    #[test]
    fn a_short_run_is_kept_completely() {
        let blocks = kept(2, 4_000);
        assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [1_024, 1_024, 1_024, 928]);
        assert!(blocks.concat().into_iter().eq((0..4_000).map(|index| index * 10)));
    }

    #[test]
    fn a_long_run_is_sampled_in_evenly_spread_whole_blocks() {
        for threads in [1, 3] {
            let requests = 1_000_000;
            let blocks = kept(threads, requests);
            let all = blocks.iter().map(Vec::len).sum::<usize>();
            assert!((KEPT_MAX / 3..=2 * KEPT_MAX).contains(&all), "{all}");
            let starts: Vec<u64> = blocks.iter().map(|block| block[0] / 10).collect();
            let gap = starts[1] - starts[0];
            assert!(gap.is_power_of_two() && gap > BLOCK, "{gap}");
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == gap), "{starts:?}");
            assert!(starts[0] == 0 && starts[starts.len() - 1] + gap >= requests - BLOCK);
            let whole = &blocks[..blocks.len() - 1];
            assert!(whole.iter().all(|block| block.len() as u64 == BLOCK));
        }
    }

    fn times(profile: &Profile, arrivals: &Arrivals, seed: u64, count: usize) -> Vec<Vec<u64>> {
        let schedule = Schedule::new(profile.clone(), arrivals, seed)
            .with_extent(0, crate::Extent::Duration { ns: 20_000_000_000 });
        vec![schedule.take(count).map(|slot| slot.at_ns).collect()]
    }

    #[test]
    fn p_values_are_those_of_the_tables() {
        // For large n, the critical values are 1.358 at 5 %, 1.628 at 1 % and 1.949 at 0.1 %.
        for (x, p) in [(1.358, 0.05), (1.628, 0.01), (1.949, 0.001)] {
            let n: f64 = 1e6;
            let found = p_value(x / n.sqrt(), n);
            assert!((found / p - 1.0).abs() < 0.02, "{x}: {found}");
        }
        // For n = 10, the critical value at 5 % is 0.409.
        assert!((p_value(0.409, 10.0) - 0.05).abs() < 0.005);
        assert_eq!(p_value(1e-9, 100.0), 1.0);
    }

    #[test]
    fn poisson_schedules_pass_at_any_profile_and_any_seed() {
        for text in ["1000", "100..1900", "200:5s,1800:15s"] {
            let profile: Profile = text.parse().unwrap();
            let p_values = (0..400).map(|seed| {
                let sent = times(&profile, &Arrivals::Poisson, seed, 2_000);
                let result = test(&sent, &profile, 20_000_000_000).unwrap();
                assert!(!result.failed, "{text} {seed} {result:?}");
                result.p_value
            });
            let p_values: Vec<f64> = p_values.collect();
            // Under the hypothesis, p-values are uniformly distributed, so the shares have standard
            // deviations of 2.5 %, 0.5 % and 0.16 %.
            for (below, most) in [(0.5, 0.6), (0.01, 0.03), (0.001, 0.006)] {
                let share = p_values.iter().filter(|p| **p < below).count() as f64 / 400.0;
                assert!(share <= most, "{text}: {share} are below {below}");
            }
        }
    }

    #[test]
    fn other_processes_fail() {
        let profile = Profile::Steady(1_000.0);
        let bursty = Arrivals::parse("on-off:0.2:50ms", 1e6).unwrap();
        for arrivals in [Arrivals::Constant, bursty] {
            let sent = times(&profile, &arrivals, 1, 5_000);
            assert!(test(&sent, &profile, 20_000_000_000).unwrap().failed, "{arrivals}");
        }
        // Send the same number of requests at a different rate.
        let sent = times(&Profile::Steady(1_500.0), &Arrivals::Poisson, 1, 5_000);
        assert!(test(&sent, &profile, 20_000_000_000).unwrap().failed);
    }

    #[test]
    fn bunched_requests_fail_and_slightly_late_ones_pass() {
        let profile = Profile::Steady(1_000.0);
        let sent = times(&profile, &Arrivals::Poisson, 1, 10_000);
        let late = |step: u64| -> Vec<Vec<u64>> {
            vec![sent[0].iter().map(|time| time.div_ceil(step) * step).collect()]
        };
        assert!(test(&late(1_000_000), &profile, 0).unwrap().failed, "a timer of milliseconds");
        let little = test(&late(20_000), &profile, 0).unwrap();
        assert!(!little.failed, "{little:?}");
        assert_eq!(test(&[vec![1; 50]], &profile, 0), None);
    }

    #[test]
    fn a_problem_late_in_a_long_run_is_detected() {
        let profile = Profile::Steady(1_000.0);
        let schedule = Schedule::new(profile.clone(), &Arrivals::Poisson, 1);
        let judged = |late_from: u64| {
            let (mut keep, mut sends) = (Keep::new(1), Sends::new());
            for slot in schedule.clone().take(400_000) {
                let step = if slot.index < late_from { 1 } else { 10_000_000 };
                keep.see(&mut sends, slot.index, slot.at_ns.div_ceil(step) * step);
            }
            test(&sends.blocks(), &profile, 0).unwrap()
        };
        assert!(judged(100_000).failed, "after a quarter of it, requests are sent in bunches");
        let fine = judged(u64::MAX);
        assert!(!fine.failed && fine.p_value > 0.001, "{fine:?}");
        assert!(fine.gaps > 10_000, "{fine:?}");
    }
}
