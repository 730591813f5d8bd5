//! Application timeout (AppTO): restarts a query on another server if its copy has not responded
//! after a fixed delay.
//!
//! Source: document 003 §5.2 "Schemes" (Dean and Barroso): "the client purges the first request and
//! issues its duplicate request to another replica (request restart)". Cost: O(log n) for the
//! timer.
//!
//! Choices:
//! - The first copy is cancelled and the second one starts in the same step, without waiting until
//!   the first has stopped. So the query may run on two servers for a while, and only queries that
//!   may be duplicated are restarted.
//! - The first copy may still win until it has stopped, because its response is just as good. The
//!   loser is stopped (cleanup), whichever copy it is.
//! - A query has one timeout: the second copy runs for as long as it takes. A query that is retried
//!   after a failure has no timeout.
//!
//! Deviation: if no other server has room when the delay ends, the first copy continues. In the
//! source, queues are infinite.

use core::fmt;

use super::{Hedge, duplicate, set_timer_after};
use crate::action::{StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::duration;
use crate::id::QueryId;
use crate::policy::{Args, Named, PolicyError};

/// A hedge whose second copy replaces the first one after a fixed delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppTimeout {
    /// The delay, in ns.
    pub delay_ns: u64,
}

impl Hedge for AppTimeout {
    fn cleans_up(&self) -> bool {
        true
    }

    fn primary_started<P: Pick>(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        set_timer_after(core, query, self.delay_ns);
    }

    fn timer<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        let Some(first) = core.copies_of(query).next() else { return };
        if duplicate(core, pick, query, StartReason::Delay) {
            core.stop(first.id, StopReason::Purge);
            core.forbid_duplicates(query);
        }
    }
}

impl Named for AppTimeout {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["app-timeout:D"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        let [delay] = *args.list() else { return Err(args.unknown()) };
        Ok(Self { delay_ns: args.delay(delay)? })
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app-timeout:{}", duration::format(self.delay_ns))
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }

    fn needs_cancellation(&self) -> bool {
        true
    }

    fn delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }
}
