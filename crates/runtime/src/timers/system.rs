//! A timerfd that wakes the runtime. Linux only.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::OnTimeout;
use super::table::TimerTable;

pub(super) struct Timer {
    shared: Arc<Shared>,
    /// The task that wakes cells.
    task: AbortHandle,
}

struct Shared {
    entries: Mutex<TimerTable>,
    /// No pipe, but read like one: eight bytes, how often it went off. Tokio's type for any other
    /// descriptor takes unsafe code.
    fd: Receiver,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Timer {
    /// None outside of a runtime, in one without a driver for input and output, and where the
    /// system has no timer to give.
    pub(super) fn start() -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
        // Tokio tells only by a panic whether there is a driver. It unwinds through nothing of ours.
        let fd = std::panic::catch_unwind(|| Receiver::from_owned_fd_unchecked(fd));
        let shared = Arc::new(Shared { entries: Mutex::default(), fd: fd.ok()?.ok()? });
        let task = runtime.spawn(run(Arc::clone(&shared))).abort_handle();
        Some(Arc::new(Self { shared, task }))
    }

    pub(super) fn add(&self, at: Instant, owner: Weak<dyn OnTimeout>) {
        let mut entries = self.shared.lock();
        if entries.add(at, owner) {
            // Under the lock, or an earlier time could be overwritten by a later one.
            self.shared.set(at);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TimerTable> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: Instant) {
        // A time of zero would switch it off.
        let left = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            },
        };
        // It fails for bad descriptors and bad times only.
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)
            .expect("a valid timer and a time in range");
    }

    /// Wakes the owners of all expired timers, and sets the timer for the next.
    fn wake(&self) {
        let mut entries = self.lock();
        while let Some(owner) = entries.take_expired(Instant::now()) {
            // The owner may add another timer.
            drop(entries);
            super::wake(&owner);
            entries = self.lock();
        }
        if let Some(at) = entries.first() {
            self.set(at);
        }
    }
}

async fn run(shared: Arc<Shared>) {
    // An error means that the runtime shuts down.
    while shared.fd.readable().await.is_ok() {
        match shared.fd.try_read(&mut [0; 8]) {
            Ok(_) => shared.wake(),
            // It was read already, or set anew: then it goes off again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("a timer cannot be read: {error}"),
        }
    }
}
