//! Real hiccups that the scheduler causes: each leaf gets a control group with a share of one core,
//! like a container with a CPU limit. A leaf that has exhausted its share of a period waits for the
//! next period.

use curtail_jitter::machine::CpuLimit;

use crate::exit::Stop;

/// The limits of the leaves. Dropping this removes them.
pub(super) struct Throttle {
    share: f64,
    limits: Vec<CpuLimit>,
}

impl Throttle {
    /// `share` is a fraction of one core, in (0, 1].
    pub(super) fn new(share: f64) -> Self {
        Self { share, limits: Vec::new() }
    }

    /// Puts a process into its own group.
    pub(super) fn add(&mut self, process: u32) -> Result<(), Stop> {
        let limit = CpuLimit::new(process).and_then(|limit| {
            limit.set(Some(self.share))?;
            Ok(limit)
        });
        self.limits.push(limit.map_err(|why| Stop::Lacking(format!("--throttle: {why}")))?);
        Ok(())
    }
}
