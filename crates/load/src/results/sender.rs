//! The idle time of the sending threads.
//!
//! A thread that is always busy reads responses late and sends requests late, so its figures
//! describe the generator instead of the server. Its processor time alone does not show that,
//! because shortly before a request is due, a thread polls instead of sleeping. So idle time is
//! counted directly, and `/proc/thread-self/schedstat` adds the time that the thread waited for a
//! processor.

use serde::{Deserialize, Serialize};

/// A thread with a smaller share of idle time counts as always busy.
const IDLE_MIN: f64 = 0.05;
/// If a thread without idle time spent at least this share of its time in the run queue, it lacks a
/// processor, and a second thread would not help.
const QUEUED_MUCH: f64 = 0.25;
/// A thread spends this share of its ready time (running or queued) in the run queue only if other
/// threads use its processor.
const KEPT_WAITING: f64 = 0.2;

/// Shares of the time during which a thread was sending. For several threads, each share is the
/// worst among them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    /// The share of the time when no request was due and no socket was ready.
    pub idle: f64,
    /// The share of the time that the thread spent on a processor. `None` if the system does not
    /// report it.
    pub ran: Option<f64>,
    /// The share of the time that the thread spent in the run queue: the thread was ready, but
    /// other threads used its processor.
    pub queued: Option<f64>,
}

impl Sender {
    /// Computes the shares. `schedstat` contains the time on a processor and the time in the run
    /// queue, in nanoseconds.
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

    /// Whether a thread had no idle time left.
    pub(crate) fn spent(&self) -> bool {
        self.idle < IDLE_MIN
    }

    /// Whether a thread lost its time to other processes rather than to its own work.
    pub(crate) fn lacks_processor(&self) -> bool {
        self.queued.is_some_and(|queued| queued >= QUEUED_MUCH)
    }

    /// Whether a thread often waited for a processor when it was ready to run.
    pub(crate) fn kept_waiting(&self) -> bool {
        let share = |(ran, queued): (f64, f64)| queued / (ran + queued);
        self.ran.zip(self.queued).is_some_and(|both| share(both) >= KEPT_WAITING)
    }
}

/// Returns the calling thread's time on a processor and in the run queue, in nanoseconds. Returns
/// `None` if the system does not report them.
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
    fn a_thread_that_waits_for_its_processor_is_recognized_at_any_rate() {
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
