//! A sample of send times: blocks of consecutive requests, spread evenly over the run.
//!
//! The send times of all requests of a long run would take gigabytes of memory, and the first send
//! times are not representative of the others. Therefore only every *n*th block of [`BLOCK`]
//! requests is kept, counted by position in the schedule. If too many send times are kept, *n*
//! doubles and half of the blocks are dropped, so that the rest are still spread evenly. All
//! threads use the same positions, so they keep parts of the same blocks. The choice of blocks does
//! not depend on the times, so the gaps inside blocks are an unbiased sample.
//!
//! Cost: one comparison per request, and 16 bytes per send time. All threads together keep at most
//! [`KEPT_MAX`] send times, or twice that if their *n* differ.

use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
