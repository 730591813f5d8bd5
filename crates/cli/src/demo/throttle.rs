//! Real hiccups by the scheduler: each leaf gets a control group with a share of one core, as a
//! container with a CPU limit does. A leaf that has used up a period's share waits for the next.

use curtail_jitter::machine::CpuLimit;

use crate::exit::Stop;

/// The leaves' limits; they end when this is dropped.
pub(super) struct Throttle {
    share: f64,
    limits: Vec<CpuLimit>,
}

impl Throttle {
    /// `share`: of one core, in (0, 1].
    pub(super) fn new(share: f64) -> Self {
        Self { share, limits: Vec::new() }
    }

    /// Puts a process into a group of its own.
    pub(super) fn add(&mut self, process: u32) -> Result<(), Stop> {
        let limit = CpuLimit::new(process).and_then(|limit| {
            limit.set(Some(self.share))?;
            Ok(limit)
        });
        self.limits.push(limit.map_err(|why| Stop::Lacking(format!("--throttle: {why}")))?);
        Ok(())
    }
}
