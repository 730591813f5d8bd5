//! The time that the sending threads had left.
//!
//! A thread that is always busy reads late and sends late, so its figures describe the generator. Its processor
//! time alone does not show that: close to the next request a thread polls instead of sleeping. So idle time is
//! counted where it arises, and `/proc/thread-self/schedstat` adds what the thread waited for a processor.

use serde::{Deserialize, Serialize};

/// With less idle time a thread is taken to be always busy.
const IDLE_MIN: f64 = 0.05;
/// From this share of its time in the run queue on, a thread that has no idle time lacks a processor, not a
/// second thread.
const QUEUED_MUCH: f64 = 0.25;
/// A thread that is ready waits for this part of that time only if others have its processor.
const KEPT_WAITING: f64 = 0.2;

/// Shares of the time in which a thread sent; of several threads, the worst of each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    /// Neither was a request due nor a socket ready.
    pub idle: f64,
    /// On a processor. None if the system does not count it.
    pub ran: Option<f64>,
    /// In the run queue: the thread was ready, and others had its processor.
    pub queued: Option<f64>,
}

impl Sender {
    /// `schedstat`: nanoseconds on a processor and in the run queue.
    pub(crate) fn of(elapsed_ns: u64, idle_ns: u64, schedstat: Option<[u64; 2]>) -> Sender {
        let share = |ns: u64| (ns as f64 / elapsed_ns.max(1) as f64).min(1.0);
        let [ran, queued] = [0, 1].map(|at| schedstat.map(|of| share(of[at])));
        Sender { idle: share(idle_ns), ran, queued }
    }

    pub(crate) fn merge(&mut self, other: &Sender) {
        let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.idle = self.idle.min(other.idle);
        self.ran = most(self.ran, other.ran);
        self.queued = most(self.queued, other.queued);
    }

    /// True if some thread had no time left.
    pub(crate) fn spent(&self) -> bool {
        self.idle < IDLE_MIN
    }

    /// True if other processes rather than its own work took a thread's time.
    pub(crate) fn lacks_processor(&self) -> bool {
        self.queued.is_some_and(|queued| queued >= QUEUED_MUCH)
    }

    /// True if a thread often waited for a processor when it was ready to run.
    pub(crate) fn kept_waiting(&self) -> bool {
        let share = |(ran, queued): (f64, f64)| queued / (ran + queued);
        self.ran.zip(self.queued).is_some_and(|both| share(both) >= KEPT_WAITING)
    }
}

/// The calling thread's nanoseconds on a processor and in the run queue, if the system counts them.
pub(crate) fn schedstat() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some([fields.next()?, fields.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_thread_counts() {
        let mut worst = Sender::of(1_000, 400, Some([500, 100]));
        worst.merge(&Sender::of(1_000, 20, Some([980, 0])));
        worst.merge(&Sender::of(1_000, 900, None));
        assert_eq!(worst, Sender { idle: 0.02, ran: Some(0.98), queued: Some(0.1) });
        assert!(worst.spent() && !worst.lacks_processor() && !worst.kept_waiting());
    }

    #[test]
    fn a_thread_that_others_keep_waiting_is_recognized_at_any_rate() {
        assert!(Sender::of(1_000_000, 990_000, Some([2_000, 3_000])).kept_waiting());
        assert!(!Sender::of(1_000_000, 990_000, Some([9_000, 300])).kept_waiting());
        assert!(!Sender::of(1_000, 0, None).kept_waiting());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_thread_is_counted() {
        assert!(schedstat().is_some());
    }
}
