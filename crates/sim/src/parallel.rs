//! Runs independent jobs on several threads. Results are in the order of the jobs, so they do not
//! depend on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// How to run an experiment, with its progress counter and its stop flag.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The number of threads. The results do not depend on this number.
    pub threads: usize,
    /// The percentiles to report, above 0 and below 100.
    pub percentiles: &'a [f64],
    /// The number of requests that have been simulated in all runs. The final value is
    /// [`crate::total`].
    pub progress: &'a AtomicU64,
    /// The flag that stops the work when it becomes true.
    pub stop: &'a AtomicBool,
}

/// Runs `work` for 0 to `jobs` − 1, on at most `threads` threads. Returns `None` if a job gave up.
pub(crate) fn each<R: Send>(
    jobs: usize,
    threads: usize,
    work: impl Fn(usize) -> Option<R> + Sync,
) -> Option<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::from_iter((0..jobs).map(|_| None)));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.max(1)) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        return;
                    }
                    let result = work(job);
                    // A job that gave up prevents further jobs from starting.
                    if result.is_none() {
                        next.store(jobs, Ordering::Relaxed);
                    }
                    results.lock().expect("no job panics with the lock")[job] = result;
                }
            });
        }
    });
    results.into_inner().expect("no job panics with the lock").into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [1, 3, 100] {
            assert_eq!(each(5, threads, |job| Some(job * job)), Some(vec![0, 1, 4, 9, 16]));
        }
        assert_eq!(each::<()>(0, 2, |_| None), Some(Vec::new()));
    }

    #[test]
    fn a_job_that_gives_up_stops_the_others() {
        assert_eq!(each(50, 2, |job| (job != 3).then_some(job)), None);
    }
}
