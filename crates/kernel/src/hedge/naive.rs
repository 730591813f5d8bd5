//! Naive hedge: sends every query to two servers immediately.
//!
//! Source: document 001 §2.3 "Naïve Hedge" (Vulimiri et al.): each query goes to two random servers
//! at the same time. Losers run to completion, or are stopped (`naive:cc`, its strongest form: 000
//! §7.3.5). Cost: O(1).
//!
//! Choice: two copies, as in 001 (the thesis sends each query to all replicas). Deviation: a
//! duplicate that finds no server with room is not sent later. In the source, queues are infinite.

use core::fmt;

use super::{Hedge, duplicate};
use crate::action::StartReason;
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::QueryId;
use crate::policy::{Args, Named, PolicyError};

/// A hedge that starts a second copy of every query immediately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Naive {
    /// Whether the loser is stopped.
    pub cleanup: bool,
}

impl Hedge for Naive {
    const BUDGETED: bool = false;

    fn cleans_up(&self) -> bool {
        self.cleanup
    }

    fn primary_started<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        duplicate(core, pick, query, StartReason::Hedge);
    }
}

impl Named for Naive {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["naive[:cc]"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        match *args.list() {
            [] => Ok(Self { cleanup: false }),
            ["cc"] => Ok(Self { cleanup: true }),
            _ => Err(args.unknown()),
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.cleanup { "naive:cc" } else { "naive" })
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }

    fn needs_cancellation(&self) -> bool {
        self.cleanup
    }
}
