//! Delayed hedge (d-Hedge): starts a second copy if the first has not responded after a fixed
//! delay.
//!
//! Source: document 000 §2.5.2 and §4.6, 001 §2.3 (Dean and Barroso). With cleanup cancellation,
//! the loser is stopped. Cost: O(log n) for the timer.
//!
//! Choices:
//! - There are variants with and without cancellation. The best curves of the thesis match the
//!   variant without cancellation.
//! - The second copy executes the whole query from the beginning.
//! - The delay is measured from the start of the first copy. In the source, the first copy starts
//!   when the query arrives.
//!
//! Deviation: if no server has room when the delay ends, there is no second copy.

use alloc::format;
use core::fmt;

use super::{Hedge, duplicate, set_timer_after};
use crate::action::StartReason;
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::duration;
use crate::id::QueryId;
use crate::policy::{Args, Named, PolicyError};

/// A hedge that starts a second copy after a fixed delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delayed {
    /// The delay, in ns.
    pub delay_ns: u64,
    /// Whether the loser is stopped.
    pub cleanup: bool,
}

impl Hedge for Delayed {
    fn cleans_up(&self) -> bool {
        self.cleanup
    }

    fn primary_started<P: Pick>(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        set_timer_after(core, query, self.delay_ns);
    }

    fn timer<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        duplicate(core, pick, query, StartReason::Delay);
    }
}

impl Named for Delayed {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["delayed:D[:cc]"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        let (delay, cleanup) = match *args.list() {
            [delay] => (delay, false),
            [delay, "cc"] => (delay, true),
            _ => return Err(args.unknown()),
        };
        if delay.starts_with('p') {
            // A percentile: [`super::LearnedDelay`] parses it.
            return Err(args.unknown());
        }
        let delay_ns = args.delay(delay).map_err(|error| match error {
            PolicyError::Argument { text, why } => {
                PolicyError::Argument { text, why: format!("{why}, or a percentile, like p95") }
            }
            unknown @ PolicyError::Unknown { .. } => unknown,
        })?;
        Ok(Self { delay_ns, cleanup })
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cleanup = if self.cleanup { ":cc" } else { "" };
        write!(f, "delayed:{}{cleanup}", duration::format(self.delay_ns))
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }

    fn needs_cancellation(&self) -> bool {
        self.cleanup
    }

    fn delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }
}
