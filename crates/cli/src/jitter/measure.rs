//! Executes queries, alternating with idle loops that measure the machine's floor.
//!
//! The loops do not run during the executions, because they would take processors away from the
//! leaf.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use curtail_jitter::machine::{Gaps, LocalLeaf, Processors, Sampler, SamplerReport, observe};
use curtail_jitter::{Executions, Stop as Enough};
use curtail_load::{Errors, Plan};
use indicatif::ProgressBar;

use super::args::Work;
use super::order::{Ended, Execution, Turned, Turns};
use super::reach::Reach;
use crate::exit::Stop;
use crate::signals::Termination;
use crate::verdict::Typed;

/// The sampling interval for the counters of a local leaf.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);

/// The measurements.
pub(super) struct Measured {
    pub(super) executions: Executions,
    /// The individual executions, in order.
    pub(super) each: Vec<Execution>,
    pub(super) floor: Gaps,
    /// The kernel's counters for the leaf, or the reason why they were not sampled.
    pub(super) leaf: Result<(LocalLeaf, SamplerReport), String>,
    pub(super) errors: Errors,
    /// Whether the requested load was reached, if there is a rate.
    pub(super) reach: Reach,
    pub(super) enough: Enough,
    /// A signal interrupted the measurement.
    pub(super) interrupted: bool,
    /// The reason for an early end, if there was no signal.
    pub(super) ended: Option<Typed<Ended>>,
}

pub(super) async fn measure(
    work: &Work,
    bar: &ProgressBar,
    signals: &mut Termination,
) -> Result<Measured, Stop> {
    let leaf = local_leaf(&work.plan).await;
    let watched = leaf.and_then(|leaf| {
        let sampler = Sampler::start(&leaf, SAMPLE_EVERY).map_err(|error| error.to_string())?;
        Ok((leaf, sampler))
    });
    let mut turns = Turns::new(work, bar);
    bar.set_length(work.most);
    let mut floor = Gaps::none();
    let mut turned = Turned::Well;
    let mut seed = work.plan.seed;
    while turns.enough == Enough::NotYet && matches!(turned, Turned::Well | Turned::Early) {
        let start = Instant::now();
        turned = turns.turn(seed, signals).await?;
        seed = seed.wrapping_add(1);
        if matches!(turned, Turned::Well) {
            bar.set_message("running an idle loop");
            let span = start.elapsed().mul_f64(work.floor);
            if idle(&work.processors, span, &mut floor, signals).await? {
                turned = Turned::Interrupted;
            }
        }
    }
    let interrupted = matches!(turned, Turned::Interrupted);
    let ended = match turned {
        Turned::InVain(why) if turns.each.is_empty() => return Err(Stop::Lacking(why.text)),
        // Keeps what has been measured up to this point.
        Turned::InVain(why) => Some(why),
        Turned::Well | Turned::Early | Turned::Interrupted => None,
    };
    Ok(Measured {
        executions: turns.executions,
        each: turns.each,
        floor,
        leaf: watched.map(|(leaf, sampler)| (leaf, sampler.finish())),
        errors: turns.errors,
        reach: turns.reach,
        enough: turns.enough,
        interrupted,
        ended,
    })
}

/// Finds the process behind the target, if it is on this machine.
async fn local_leaf(plan: &Plan) -> Result<LocalLeaf, String> {
    let (host, port) = (plan.target.host(), plan.target.port());
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|error| error.to_string())?.collect();
    let mut why = format!("{host} has no address");
    for address in addresses {
        match LocalLeaf::find(address) {
            Ok(leaf) => return Ok(leaf),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// Runs idle loops. Returns true if a signal interrupted the loops.
async fn idle(
    processors: &Processors,
    span: Duration,
    floor: &mut Gaps,
    signals: &mut Termination,
) -> Result<bool, Stop> {
    let processors = processors.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let mut loops = tokio::task::spawn_blocking(move || observe(&processors, span, &stopped));
    let (seen, interrupted) = tokio::select! {
        seen = &mut loops => (seen, false),
        () = signals.next() => {
            stop.store(true, Ordering::Relaxed);
            (loops.await, true)
        }
    };
    let lacking =
        |why: String| Stop::Lacking(format!("cannot run a loop on every processor: {why}"));
    let seen = seen.map_err(|error| lacking(error.to_string()))?;
    floor.add(&seen.map_err(|error| lacking(error.to_string()))?);
    Ok(interrupted)
}
