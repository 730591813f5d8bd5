//! The threads of a run.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, panic};

use tokio::sync::{mpsc, oneshot};

use crate::board::Board;
use crate::engine::{self, Clock, Measured, Task};
use crate::error::LoadError;
use crate::observe::Observer;
use crate::plan::Plan;
use crate::record::Record;
use crate::run::{Answer, Snapshot};
use crate::schedule::Share;
use crate::session::Sessions;

/// From the start of the threads to that of the schedule: they come up meanwhile.
const LEAD: Duration = Duration::from_millis(5);

/// Running threads. Dropping them stops them, and waits for that, which takes microseconds.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) clock: Clock,
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    /// A byte wakes it.
    wake: UnixStream,
    board: Arc<Board>,
    /// Dropped when it ends, however it does.
    end: oneshot::Receiver<()>,
    ended: bool,
    /// None once it was waited for.
    handle: Option<JoinHandle<io::Result<Measured>>>,
}

impl Threads {
    /// Starts what the plan asks for.
    pub(crate) fn start(
        plan: &Plan,
        addresses: &[SocketAddr],
        sessions: &Arc<Sessions>,
        answers: Option<&mpsc::Sender<Vec<Answer>>>,
    ) -> Result<Threads, LoadError> {
        let schedule = plan.schedule()?;
        let (clock, stop) = (Clock::new(Instant::now() + LEAD), Arc::default());
        let mut threads = Threads { clock, stop, threads: Vec::new() };
        let addresses: Arc<[SocketAddr]> = addresses.into();
        for number in 0..plan.threads {
            let (wake, woken) = UnixStream::pair().map_err(LoadError::Thread)?;
            woken.set_nonblocking(true).map_err(LoadError::Thread)?;
            let board = Arc::new(Board::default());
            let (alive, end) = oneshot::channel();
            let share = Share::new(schedule.clone(), plan.threads as u64, number as u64);
            let task = Task {
                clock,
                addresses: Arc::clone(&addresses),
                sessions: Arc::clone(sessions),
                connections: share_of(plan.connections, plan.threads, number),
                backlog_max: share_of(plan.backlog, plan.threads, number),
                timeout_ns: plan.timeout_ns,
                spin: plan.spin,
                stop: Arc::clone(&threads.stop),
                wake: woken,
                board: Arc::clone(&board),
                observer: Observer::new(answers.cloned()),
            };
            let body = move || {
                let _alive: oneshot::Sender<()> = alive;
                engine::run(share, task)
            };
            let named = thread::Builder::new().name(format!("load-{number}"));
            let handle = Some(named.spawn(body).map_err(LoadError::Thread)?);
            threads.threads.push(Thread { wake, board, end, ended: false, handle });
        }
        Ok(threads)
    }

    /// Tells all of them to stop at once.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            // A thread that has ended needs none.
            let _ = io::Write::write(&mut &thread.wake, &[0]);
        }
    }

    /// Waits until all have ended. Can be dropped and called again.
    pub(crate) async fn finished(&mut self) {
        for thread in &mut self.threads {
            if !thread.ended {
                let _ = (&mut thread.end).await;
                thread.ended = true;
            }
        }
    }

    /// What they have measured together, and the intended time of the last request; after
    /// [`finished`](Threads::finished).
    pub(crate) fn join(mut self) -> Result<(Record, u64), LoadError> {
        let (mut all, mut last_ns) = (Record::new(), 0);
        for thread in &mut self.threads {
            let handle = thread.handle.take().expect("it is waited for only here");
            let joined = handle.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
            let measured = joined.map_err(LoadError::Thread)?;
            all.merge(&measured.record);
            last_ns = last_ns.max(measured.last_ns);
        }
        Ok((all, last_ns))
    }

    pub(crate) fn snapshot(&self, plan: &Plan) -> Snapshot {
        let boards = || self.threads.iter().map(|thread| &thread.board);
        let sum = |of: fn(&Board) -> u64| boards().map(|board| of(board)).sum();
        let most = |of: fn(&Board) -> u64| {
            boards().map(|board| of(board)).max().filter(|known| *known > 0)
        };
        let elapsed_ns = self.clock.elapsed_ns();
        Snapshot {
            elapsed_ns,
            warming_up: elapsed_ns < plan.warmup_ns,
            sent: sum(|board| board.sent.load(Ordering::Relaxed)),
            answered: sum(|board| board.answered.load(Ordering::Relaxed)),
            errors: sum(|board| board.errors.load(Ordering::Relaxed)),
            p99_ns: most(|board| board.p99_ns.load(Ordering::Relaxed)),
            lag_p99_ns: most(|board| board.lag_p99_ns.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
        for handle in self.threads.iter_mut().filter_map(|thread| thread.handle.take()) {
            // An error is a panic there, which has been reported by then.
            let _ = handle.join();
        }
    }
}

/// One thread's part of what all of them have.
fn share_of(all: usize, threads: usize, number: usize) -> usize {
    all / threads + usize::from(number < all % threads)
}
