//! Tied requests: every query is sent to two servers at once, and as soon as one begins with it, the
//! other copy is stopped.
//!
//! Source: document 003 §5.2 "Schemes" (Dean and Barroso): "When a request's turn arrives, it sends a
//! purge message to its counterpart. The corresponding request, if not finished, gets purged."
//! Cost: O(1).
//!
//! Settled: both servers are drawn at random; the copy whose beginning is reported first goes on,
//! and one that was cancelled and begins anyway changes nothing, nor does a copy that begins
//! again. A copy that was cancelled may still win until it has stopped: a good response is one.
//! Where nothing reports that copies begin, it is [`super::Naive`] with cleanup.
//!
//! Deviations: the servers tell the cell, and the cell stops the sibling; in the source they tell
//! each other. Where only one server has room, there is no second copy.

use super::{Hedge, duplicate};
use crate::action::{StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::{CopyId, QueryId};
use crate::policy::{Args, Named, PolicyError};

/// Two copies, of which the one that begins first is to do the work.
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
        Some("needs servers that tell when they begin with a query, which only the simulator's do");

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
