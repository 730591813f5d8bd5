//! Timers that call cells at their deadlines.
//!
//! Tokio's timer wheel ticks in milliseconds, but a hedge after 200 µs needs more precision. On
//! Linux, the system's timer notifies the runtime directly, without slack and without another
//! thread. Elsewhere, or outside a runtime, a thread waits on a condition variable. Each expiry
//! then also costs the kernel's timer slack (50 µs on Linux) and two context switches. Each
//! mechanism serves all cells of a process. A cell sets a timer only if its next deadline is
//! earlier than the one that its timer is already set for, so a thousand queries with the same
//! timeout cost one timer.

#[cfg(target_os = "linux")]
mod system;
mod table;
mod thread;

use std::sync::{Arc, Weak};

use tokio::time::Instant;

pub use table::ManualTimers;

/// Something that wants to be woken.
pub(crate) trait OnTimeout: Send + Sync + 'static {
    /// The time has come. May be called early or for nothing.
    fn on_timeout(&self);
}

/// Wakes an owner that may be gone. A panic is a bug of its own, which the panic hook has reported: all the
/// others still wait for their time.
fn wake(owner: &Weak<dyn OnTimeout>) {
    if let Some(owner) = owner.upgrade() {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| owner.on_timeout()));
    }
}

/// Calls cells at their deadlines. Cheap to clone; clones share one timer.
#[derive(Clone)]
pub struct Timers(Kind);

#[derive(Clone)]
enum Kind {
    #[cfg(target_os = "linux")]
    System(Arc<system::Timer>),
    Thread(Arc<thread::Shared>),
    Tokio,
    Manual(ManualTimers),
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Timers")
    }
}

/// A task that sleeps.
struct Sleeper(tokio::sync::Notify);

impl OnTimeout for Sleeper {
    fn on_timeout(&self) {
        self.0.notify_one();
    }
}

impl Timers {
    /// Creates timers that are accurate to about 100 µs. On Linux, timers that are created inside a
    /// tokio runtime end with that runtime. Otherwise they use a thread, which ends with the last
    /// clone.
    ///
    /// # Panics
    /// Panics if the system can provide neither a timer nor a thread.
    pub fn precise() -> Self {
        #[cfg(target_os = "linux")]
        if let Some(timer) = system::Timer::start() {
            return Self(Kind::System(timer));
        }
        Self::thread()
    }

    /// [`precise`](Self::precise) in the way that works everywhere.
    fn thread() -> Self {
        Self(Kind::Thread(thread::Shared::start()))
    }

    /// Creates timers that are based on tokio's timers, so they are accurate to a millisecond. They
    /// follow tokio's clock, which tests can pause.
    pub fn tokio() -> Self {
        Self(Kind::Tokio)
    }

    /// Creates timers that expire only through `manual`. They are for tests that pause tokio's clock
    /// and advance it themselves with nanosecond precision.
    pub fn manual(manual: &ManualTimers) -> Self {
        Self(Kind::Manual(manual.clone()))
    }

    /// Sleeps until a time, with the precision of these timers.
    pub async fn sleep_until(&self, at: Instant) {
        if matches!(self.0, Kind::Tokio) {
            return tokio::time::sleep_until(at).await;
        }
        let sleeper = Arc::new(Sleeper(tokio::sync::Notify::new()));
        let due: Arc<dyn OnTimeout> = Arc::clone(&sleeper) as _;
        self.wake(at, Arc::downgrade(&due));
        // A wake-up may come early or for nothing.
        while Instant::now() < at {
            sleeper.0.notified().await;
            if Instant::now() < at {
                self.wake(at, Arc::downgrade(&due));
            }
        }
    }

    /// Wakes `owner` at that time.
    pub(crate) fn wake(&self, at: Instant, owner: Weak<dyn OnTimeout>) {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Kind::System(timer) => timer.add(at, owner),
            Kind::Thread(shared) => shared.add(at, owner),
            Kind::Manual(manual) => {
                manual.lock().add(at, owner);
            }
            Kind::Tokio => {
                tokio::spawn(async move {
                    tokio::time::sleep_until(at).await;
                    wake(&owner);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn sleeps_are_never_short(timers: Timers) {
        let start = Instant::now();
        // Each time is earlier than the one before, so the timer is set again and again.
        let sleeps = [900_u64, 700, 500, 300, 100, 0].map(|us| {
            let (timers, at) = (timers.clone(), start + Duration::from_micros(us));
            tokio::spawn(async move {
                timers.sleep_until(at).await;
                assert!(Instant::now() >= at);
            })
        });
        for sleep in sleeps {
            sleep.await.expect("no sleep is short");
        }
        // The timer must also work after it had no entries.
        let at = Instant::now() + Duration::from_micros(200);
        timers.sleep_until(at).await;
        assert!(Instant::now() >= at);
    }

    #[tokio::test]
    async fn the_thread_wakes_all() {
        sleeps_are_never_short(Timers::thread()).await;
    }

    #[tokio::test]
    async fn the_system_wakes_all_on_one_thread() {
        sleeps_are_never_short(Timers::precise()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_system_wakes_all_on_several_threads() {
        sleeps_are_never_short(Timers::precise()).await;
    }

    struct Panics;

    impl OnTimeout for Panics {
        fn on_timeout(&self) {
            panic!("a bug, on purpose");
        }
    }

    #[tokio::test]
    async fn a_panic_of_one_leaves_the_others_their_timer() {
        for timers in [Timers::precise(), Timers::thread()] {
            let bug: Arc<dyn OnTimeout> = Arc::new(Panics);
            let at = Instant::now() + Duration::from_micros(100);
            timers.wake(at, Arc::downgrade(&bug));
            timers.sleep_until(at + Duration::from_micros(100)).await;
            timers.sleep_until(Instant::now() + Duration::from_micros(100)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn by_hand_the_first_is_woken_when_its_time_has_come() {
        let manual = ManualTimers::default();
        let timers = Timers::manual(&manual);
        let start = Instant::now();
        let ns = |ns| start + Duration::from_nanos(ns);
        let mut later = sleep(&timers, ns(7));
        let mut sooner = sleep(&timers, ns(5));
        assert!(!is_over(&mut later).await && !is_over(&mut sooner).await);
        assert_eq!(manual.first(), Some(ns(5)));
        assert!(!manual.wake_first(), "its time has not come");
        tokio::time::advance(Duration::from_nanos(7)).await;
        assert!(!is_over(&mut sooner).await, "it was not requested");
        assert!(manual.wake_first() && is_over(&mut sooner).await && !is_over(&mut later).await);
        assert!(manual.wake_first() && is_over(&mut later).await && !manual.wake_first());
    }

    type Sleep = std::pin::Pin<Box<dyn Future<Output = ()>>>;

    fn sleep(timers: &Timers, at: Instant) -> Sleep {
        let timers = timers.clone();
        Box::pin(async move { timers.sleep_until(at).await })
    }

    async fn is_over(sleep: &mut Sleep) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(sleep.as_mut().poll(context)))
            .await
            .is_ready()
    }

    #[test]
    fn outside_of_a_runtime_there_is_the_thread() {
        let timers = Timers::precise();
        assert!(matches!(timers.0, Kind::Thread(_)));
    }

    #[test]
    fn without_an_input_output_driver_there_is_the_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime");
        let timers = runtime.block_on(async { Timers::precise() });
        assert!(matches!(timers.0, Kind::Thread(_)));
        runtime.block_on(sleeps_are_never_short(timers));
    }
}
