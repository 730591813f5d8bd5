//! Tied requests: sends every query to two servers at the same time, and stops one copy as soon as
//! the other begins to execute.
//!
//! Source: document 003 §5.2 "Schemes" (Dean and Barroso): "When a request's turn arrives, it sends
//! a purge message to its counterpart. The corresponding request, if not finished, gets purged."
//! Cost: O(1).
//!
//! Choices:
//! - Both servers are drawn at random.
//! - The first copy that is reported to have begun continues. Later reports change nothing, whether
//!   a cancelled copy begins anyway or a copy begins again.
//! - A cancelled copy may still win until it has stopped, because its response is just as good.
//! - If servers do not report when copies begin, this is [`super::Naive`] with cleanup.
//!
//! Deviations: the servers report to the cell, and the cell stops the other copy. In the source,
//! the servers notify each other. If only one server has room, there is no second copy.

use super::{Hedge, duplicate};
use crate::action::{StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::{CopyId, QueryId};
use crate::policy::{Args, Named, PolicyError};

/// A hedge that sends two copies of a query, of which the one that begins first does the work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tied;

impl Hedge for Tied {
    fn cleans_up(&self) -> bool {
        true
    }

    fn primary_started<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        duplicate(core, pick, query, StartReason::Hedge);
    }

    fn began(&mut self, core: &mut Core, query: QueryId, copy: CopyId) {
        let other = core.copies_of(query).find(|other| other.id != copy);
        if let Some(other) = other {
            core.stop(other.id, StopReason::Purge);
        }
    }
}

impl Named for Tied {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["tied"];
    const SIMULATOR_ONLY: Option<&'static str> =
        Some("needs servers that report when they begin a query, and only simulated servers do");

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        if args.list().is_empty() { Ok(Self) } else { Err(args.unknown()) }
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }

    fn needs_cancellation(&self) -> bool {
        true
    }
}
