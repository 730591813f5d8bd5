//! Waking cells when something of theirs is due.
//!
//! Tokio's timer wheel turns in milliseconds; a hedge after 200 µs needs better. A thread that
//! waits on a condition variable wakes within the kernel's timer slack (50 µs on Linux) plus a
//! context switch. One thread serves every cell of a process; a cell asks again only when its next
//! deadline comes earlier than the one it asked for, so a thousand queries with the same time-out
//! cost one wake-up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use tokio::time::Instant;

/// Something that wants to be woken.
pub(crate) trait Due: Send + Sync + 'static {
    /// The time has come. May be called early or for nothing.
    fn due(&self);
}

/// Wakes cells in time. Cheap to clone; the clones share one thread.
#[derive(Clone)]
pub struct Timers(Kind);

#[derive(Clone)]
enum Kind {
    Thread(Arc<Shared>),
    Tokio,
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Thread(_) => "Timers::precise()",
            Kind::Tokio => "Timers::tokio()",
        })
    }
}

/// Someone who sleeps.
struct Alarm(tokio::sync::Notify);

impl Due for Alarm {
    fn due(&self) {
        self.0.notify_one();
    }
}

struct Shared {
    wishes: Mutex<BinaryHeap<Reverse<Wish>>>,
    earlier: Condvar,
}

struct Wish {
    at: Instant,
    who: Weak<dyn Due>,
}

impl PartialEq for Wish {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Wish {}

impl PartialOrd for Wish {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wish {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Timers {
    /// A thread of its own, exact to about 100 µs. It ends with the last clone.
    ///
    /// # Panics
    /// When the system cannot start a thread.
    #[must_use]
    pub fn precise() -> Self {
        let shared = Arc::new(Shared { wishes: Mutex::default(), earlier: Condvar::new() });
        let thread = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("curtail-timers".into())
            .spawn(move || run(&thread))
            .expect("a thread for the timers");
        Self(Kind::Thread(shared))
    }

    /// Tokio's own timers, exact to a millisecond. They follow tokio's clock, which tests pause.
    #[must_use]
    pub fn tokio() -> Self {
        Self(Kind::Tokio)
    }

    /// Waits until a time, as exactly as these timers are.
    pub async fn sleep_until(&self, at: Instant) {
        if matches!(self.0, Kind::Tokio) {
            return tokio::time::sleep_until(at).await;
        }
        let alarm = Arc::new(Alarm(tokio::sync::Notify::new()));
        let due: Arc<dyn Due> = Arc::clone(&alarm) as _;
        self.wake(at, Arc::downgrade(&due));
        // A wake-up may come early or for nothing.
        while Instant::now() < at {
            alarm.0.notified().await;
            if Instant::now() < at {
                self.wake(at, Arc::downgrade(&due));
            }
        }
    }

    /// Wakes `who` at that time.
    pub(crate) fn wake(&self, at: Instant, who: Weak<dyn Due>) {
        match &self.0 {
            Kind::Thread(shared) => shared.add(Wish { at, who }),
            Kind::Tokio => {
                tokio::spawn(async move {
                    tokio::time::sleep_until(at).await;
                    if let Some(who) = who.upgrade() {
                        who.due();
                    }
                });
            }
        }
    }
}

impl Shared {
    fn add(&self, wish: Wish) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        let first = wishes.peek().is_none_or(|Reverse(first)| wish.at < first.at);
        wishes.push(Reverse(wish));
        drop(wishes);
        if first {
            self.earlier.notify_one();
        }
    }

    /// Waits for the first wish that is due, for a second at most.
    fn next(&self) -> Option<Weak<dyn Due>> {
        let second = std::time::Duration::from_secs(1);
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let wait = match wishes.peek() {
            Some(Reverse(first)) if first.at <= now => return wishes.pop().map(|w| w.0.who),
            Some(Reverse(first)) => (first.at - now).min(second),
            None => second,
        };
        // Whatever ends the wait, the caller asks again.
        drop(self.earlier.wait_timeout(wishes, wait));
        None
    }
}

/// The thread: ends within a second of the last clone of its [`Timers`].
fn run(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        if let Some(who) = shared.next().and_then(|who| who.upgrade()) {
            who.due();
        }
    }
}
