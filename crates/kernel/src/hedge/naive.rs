//! Naive hedge: every query runs twice, from the start.
//!
//! Source: document 001 §2.3 "Naïve Hedge" (Vulimiri et al.): each query goes at once to two
//! servers at random. Losers run to their end. Cost: O(1).
//!
//! Settled: two copies, as in 001 (the thesis sends to all replicas). Deviation: a duplicate that
//! finds no server with room is not sent later; the source's queues are infinite.

use super::{Hedge, duplicate};
use crate::action::StartReason;
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::QueryId;
use crate::policy::{Args, Named, PolicyError};

/// Every query runs twice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Naive;

impl Hedge for Naive {
    const BUDGETED: bool = false;

    fn primary_started<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        duplicate(core, pick, query, StartReason::Hedge);
    }
}

impl Named for Naive {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["naive"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        if args.list().is_empty() { Ok(Self) } else { Err(args.unknown()) }
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }
}
