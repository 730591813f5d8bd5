//! What happens to the leaves: one fault at a time, so that a shard always has a replica left.

use std::time::Duration;

use curtail_dist::seed;
use rand_core::Rng as _;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::time::sleep;

use super::scene::Scene;
use crate::exit::Stop;

/// How often each fault struck a leaf that ran.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Faults {
    pub(super) kills: u32,
    /// As a garbage collection does: for less than the attempt time-out.
    pub(super) pauses: u32,
    /// Accepts, and never answers: for longer than it.
    pub(super) black_holes: u32,
}

impl Faults {
    pub(super) fn total(&self) -> u32 {
        self.kills + self.pauses + self.black_holes
    }
}

pub(super) struct Chaos {
    rng: rand_pcg::Pcg64Mcg,
    faults: Faults,
}

impl Chaos {
    pub(super) fn new(seed: u64) -> Self {
        let rng = seed::rng(seed::stream(seed, &[b"chaos"]));
        Self { rng, faults: Faults::default() }
    }

    pub(super) fn faults(&self) -> Faults {
        self.faults
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    /// Until the next fault.
    pub(super) fn pause(&mut self) -> Duration {
        Duration::from_millis(100 + self.below(900))
    }

    /// Strikes one leaf, and mends it.
    pub(super) async fn strike(&mut self, scene: &mut Scene) -> Result<(), Stop> {
        let leaf = self.below(scene.leaves.len() as u64) as usize;
        match self.below(4) {
            0 => {
                let killed = scene.leaves[leaf].process.take(); // dropping it kills it
                self.faults.kills += u32::from(killed.is_some());
                drop(killed);
                sleep(Duration::from_millis(self.below(1_500))).await;
                scene.revive(leaf).await?;
            }
            1 => {
                let length = Duration::from_millis(700 + self.below(3_000));
                self.faults.black_holes += u32::from(stop(scene, leaf, length).await?);
            }
            _ => {
                let length = Duration::from_millis(10 + self.below(300));
                self.faults.pauses += u32::from(stop(scene, leaf, length).await?);
            }
        }
        Ok(())
    }

    /// Every leaf is well again.
    pub(super) async fn mend(&mut self, scene: &mut Scene) -> Result<(), Stop> {
        for leaf in 0..scene.leaves.len() {
            if scene.leaves[leaf].process.is_none() {
                scene.revive(leaf).await?;
            }
        }
        Ok(())
    }
}

/// SIGSTOP, a while, SIGCONT: the kernel goes on accepting connections for a stopped process. False
/// if there was none to stop.
async fn stop(scene: &Scene, leaf: usize, length: Duration) -> Result<bool, Stop> {
    let process = scene.leaves[leaf].process.as_ref().and_then(crate::child::Process::id);
    let process = process.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let Some(process) = process else { return Ok(false) };
    let send = |signal| {
        kill_process(process, signal)
            .map_err(|error| Stop::Lacking(format!("leaf {leaf} cannot be paused: {error}")))
    };
    send(Signal::STOP)?;
    sleep(length).await;
    send(Signal::CONT)?;
    Ok(true)
}
