//! Measures the floor: on every processor, a loop reads the clock and does nothing else. Whenever
//! the loop did not run, no other thread of ours would have run either: the hypervisor took the
//! processor, the kernel served an interrupt, or another process ran. Source: document 000, §6.1,
//! which finds that involuntary rescheduling is a significant part of IQ-jitter. The loop is from
//! Gil Tene's jHiccup, without the sleep.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::processors::{Processors, keep_to};
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;

/// Shorter gaps are caused by the loop itself or by negligible interrupts.
const SHORTEST_NS: u64 = 2_000;
/// Longer gaps are recorded as if they had this length.
const LONGEST_NS: u64 = 60_000_000_000;

/// The gaps that the loops observed.
#[derive(Debug, Clone)]
pub struct Gaps {
    /// The run time of the loops, in nanoseconds, summed over processors.
    pub observed_ns: u64,
    /// The number of processors.
    pub processors: usize,
    /// The gaps of 2 µs or more, in nanoseconds.
    pub gaps: Histogram<u64>,
}

impl Gaps {
    /// Creates an observation without any gaps.
    pub fn none() -> Gaps {
        let gaps = Histogram::new_with_max(LONGEST_NS, 3).expect("constants in range");
        Gaps { observed_ns: 0, processors: 0, gaps }
    }

    /// Adds the gaps that other loops observed.
    pub fn add(&mut self, other: &Gaps) {
        self.observed_ns = self.observed_ns.saturating_add(other.observed_ns);
        self.processors = self.processors.max(other.processors);
        self.gaps.add(&other.gaps).expect("same bounds");
    }

    /// Returns the lengths of the gaps, in nanoseconds, each with the number of gaps.
    pub fn lengths(&self) -> Vec<(u64, u64)> {
        let bucket =
            |of: IterationValue<u64>| (of.value_iterated_to(), of.count_since_last_iteration());
        self.gaps.iter_recorded().map(bucket).collect()
    }
}

/// Runs a loop on each of these processors, for `span` or until `stop` is set. Returns an error if
/// a thread cannot be started or pinned.
pub fn observe(processors: &Processors, span: Duration, stop: &AtomicBool) -> io::Result<Gaps> {
    let processors = processors.numbers();
    thread::scope(|scope| {
        let loops: Vec<_> = processors
            .iter()
            .map(|number| {
                let named = thread::Builder::new().name(format!("floor-{number}"));
                named.spawn_scoped(scope, move || {
                    keep_to(&[*number])?;
                    Ok::<Gaps, io::Error>(watch(span, stop))
                })
            })
            .collect();
        let mut all = Gaps::none();
        for of_one in loops {
            let seen = of_one?.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))?;
            all.add(&seen);
        }
        all.processors = processors.len();
        Ok(all)
    })
}

fn watch(span: Duration, stop: &AtomicBool) -> Gaps {
    let mut seen = Gaps::none();
    let start = Instant::now();
    let mut before = start;
    while before.duration_since(start) < span && !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let gap = now.duration_since(before).as_nanos() as u64;
        if gap >= SHORTEST_NS {
            seen.gaps.saturating_record(gap);
        }
        before = now;
    }
    seen.observed_ns = before.duration_since(start).as_nanos() as u64;
    seen.processors = 1;
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_is_watched_until_it_is_stopped() {
        let all = Processors::allowed().unwrap();
        let seen = observe(&all, Duration::from_millis(20), &AtomicBool::new(false)).unwrap();
        let processors = seen.processors as u64;
        assert!(processors >= 1);
        assert!(seen.observed_ns >= processors * 20_000_000, "{} ns", seen.observed_ns);
        let gaps_ns: u64 = seen.lengths().iter().map(|(ns, count)| ns * count).sum();
        // Every gap in a bucket counts as the bucket's upper bound.
        assert!(gaps_ns <= seen.observed_ns + seen.observed_ns / 500, "{gaps_ns}");
        let none = observe(&all, Duration::from_secs(3_600), &AtomicBool::new(true)).unwrap();
        assert_eq!((none.observed_ns, none.gaps.len()), (0, 0));
    }
}
