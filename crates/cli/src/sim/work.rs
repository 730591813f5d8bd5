//! Long work beside a progress bar, until it is done or a signal ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::sync::oneshot;

use crate::exit::Stop;
use crate::signals::Termination;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// What work tells of itself, and is told.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What is done of it.
    pub(crate) progress: AtomicU64,
    /// It is to end.
    pub(crate) stop: AtomicBool,
}

/// Does the work on a thread of its own and shows its progress, whose end is the length of the bar.
/// After a signal the work is told to stop, and is waited for.
pub(crate) fn watched<T: Send>(
    bar: &ProgressBar,
    work: impl FnOnce(&Watch) -> T + Send,
) -> Result<T, Stop> {
    let watch = Watch::default();
    let building = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = building.map_err(|error| Stop::Lacking(format!("no runtime: {error}")))?;
    std::thread::scope(|scope| {
        let (done, mut ended) = oneshot::channel();
        let worker = scope.spawn(|| {
            let result = work(&watch);
            // Where nobody waits any more, the result is taken from the thread all the same.
            let _ = done.send(());
            result
        });
        let listening = runtime.block_on(async {
            let mut signals = Termination::listen_at_terminal()?;
            let mut ticks = tokio::time::interval(TICK);
            loop {
                tokio::select! {
                    () = signals.next() => watch.stop.store(true, Ordering::Relaxed),
                    _ = &mut ended => break std::io::Result::Ok(()),
                    _ = ticks.tick() => bar.set_position(watch.progress.load(Ordering::Relaxed)),
                }
            }
        });
        bar.finish_and_clear();
        if listening.is_err() {
            watch.stop.store(true, Ordering::Relaxed);
        }
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        listening.map_err(|error| Stop::Lacking(format!("no signals: {error}")))?;
        Ok(result)
    })
}
