//! Runs long work with a progress bar, until it is done or a signal ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::sync::oneshot;

use crate::exit::Stop;
use crate::signals::Termination;

/// Interval between updates of the bar.
const TICK: Duration = Duration::from_millis(100);

/// State that the work shares with the progress bar.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The amount of work that has been done.
    pub(crate) progress: AtomicU64,
    /// Whether the work should stop.
    pub(crate) stop: AtomicBool,
}

/// Runs the work on its own thread and shows its progress in units of the bar's length. A signal
/// sets `stop`; the function then waits for the work to return.
pub(crate) fn watched<T: Send>(
    bar: &ProgressBar,
    work: impl FnOnce(&Watch) -> T + Send,
) -> Result<T, Stop> {
    let watch = Watch::default();
    let building = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        building.map_err(|error| Stop::Lacking(format!("cannot start the runtime: {error}")))?;
    std::thread::scope(|scope| {
        let (done, mut ended) = oneshot::channel();
        let worker = scope.spawn(|| {
            let result = work(&watch);
            // If the receiver is gone, the result is still taken from the thread.
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
        listening.map_err(|error| Stop::Lacking(format!("cannot handle signals: {error}")))?;
        Ok(result)
    })
}
