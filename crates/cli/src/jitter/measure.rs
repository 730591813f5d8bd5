//! Executes queries, and in between looks at what the machine does to a loop that does nothing.
//!
//! Both take turns: executions for some seconds, then the loops. A loop beside the executions would
//! take the processors that they are to run on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use curtail_jitter::machine::{Gaps, LocalLeaf, Processors, Sampler, SamplerReport, observe};
use curtail_jitter::{Executions, Stop as Enough};
use curtail_load::{Errors, Plan};
use indicatif::ProgressBar;

use super::args::Work;
use super::reach::Reach;
use super::turns::{Ended, Execution, Turned, Turns};
use crate::exit::Stop;
use crate::signals::Termination;
use crate::verdict::Typed;

/// How often the counters of a local leaf are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What was measured.
pub(super) struct Measured {
    pub(super) executions: Executions,
    /// The same, one by one, in their order.
    pub(super) each: Vec<Execution>,
    pub(super) floor: Gaps,
    /// What the kernel counted for the leaf, or why it was not looked at.
    pub(super) leaf: Result<(LocalLeaf, SamplerReport), String>,
    pub(super) errors: Errors,
    /// Whether the load was there, if there was to be one.
    pub(super) reach: Reach,
    pub(super) enough: Enough,
    /// A signal ended it.
    pub(super) interrupted: bool,
    /// Why it ended before there was enough, if nobody wanted it to.
    pub(super) ended: Option<Typed<Ended>>,
}

pub(super) async fn measure(
    work: &Work,
    bar: &ProgressBar,
    signals: &mut Termination,
) -> Result<Measured, Stop> {
    let leaf = local_leaf(&work.plan).await;
    let watched = leaf.and_then(|leaf| {
        let sampler = Sampler::start(&leaf, LOOK_EVERY).map_err(|error| error.to_string())?;
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
            bar.set_message("a loop that does nothing");
            let span = start.elapsed().mul_f64(work.floor);
            if idle(&work.processors, span, &mut floor, signals).await? {
                turned = Turned::Interrupted;
            }
        }
    }
    let interrupted = matches!(turned, Turned::Interrupted);
    let ended = match turned {
        Turned::InVain(why) if turns.each.is_empty() => return Err(Stop::Lacking(why.text)),
        // Nothing that was measured is lost.
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

/// The process behind the target, if it is on this machine.
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

/// Loops that do nothing. True if a signal ended them.
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
    let lacking = |why: String| Stop::Lacking(format!("no loop on every processor: {why}"));
    let seen = seen.map_err(|error| lacking(error.to_string()))?;
    floor.add(&seen.map_err(|error| lacking(error.to_string()))?);
    Ok(interrupted)
}
