//! DAS, duplicate-aware scheduling: sends every query to two servers at the same time. The second
//! copy is harmless, because it has a low priority. Copies that are no longer needed are purged.
//!
//! Source: document 003 §2.2 and §3. The servers make this safe: each serves duplicates only while
//! it has no primary ([`crate::stage`]). So no query takes longer than without duplication, and
//! duplicates use only spare capacity. When a copy wins, the other is purged, whether it waits or
//! runs. Cost: O(1).
//!
//! Choices:
//! - Both servers are drawn at random, as in §5.3. Any pick can be used (`das+least-outstanding`).
//!   It does not count duplicates as load, because otherwise duplicates would decide where
//!   primaries go.
//! - A duplicate waits at its server and never in the cell, so the policy pushes. Gates that limit
//!   copies to the slots or to a bound are refused, because duplicates would fill them. Duplicates
//!   fill at most half of `max_outstanding`. Beyond that, or if a server refuses the duplicate, the
//!   query continues with one copy.
//! - A duplicate has no attempt timeout, because it may wait for as long as primaries keep coming.
//!   The query's deadline bounds that time.
//! - `das:no-purge` lets the loser run to completion. This is the *cloning and prioritization* of
//!   §5.3, which is used for comparison.
//! - `das:nonpreemptive` is for simulated servers that always finish a copy once they have begun
//!   it. Real servers decide for themselves whether they pre-empt.
//! - The hedge budget does not apply, because full duplication is the point.
//!
//! Deviation: if a copy fails, the query's other copy counts as the retry, as everywhere in
//! Curtail. This copy keeps its low priority.

use alloc::vec::Vec;
use core::fmt;

use super::Hedge;
use crate::action::{Role, StartReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::{CopyId, QueryId, ServerId};
use crate::policy::{Args, Named, PolicyError};

/// A hedge that sends a second copy with a low priority for every query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Das {
    /// Whether the loser is stopped.
    pub purges: bool,
    /// Whether a simulated server gives a duplicate's slot to a primary immediately.
    pub preempts: bool,
}

/// The hedge that implements [`Das`].
#[derive(Clone, Debug)]
pub struct Duplication {
    purges: bool,
    /// Whether the copy in each copy slot is a duplicate.
    duplicates: Vec<bool>,
}

impl Hedge for Duplication {
    const BUDGETED: bool = false;
    const LIGHT: bool = true;
    const SETS_TIMERS: bool = false;

    fn cleans_up(&self) -> bool {
        self.purges
    }

    fn primary_started<P: Pick>(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        if !core.may_duplicate(query) {
            return;
        }
        let server = core.choose_second(pick, query);
        let Some(server) = server.filter(|&server| core.takes_light(server)) else { return };
        let copy = core.start(query, server, Role::Duplicate, StartReason::Hedge);
        core.lighten(server, true);
        // A duplicate may wait for a long time, which is not evidence against its server.
        core.stop_copy_timer(copy.slot);
        let slot = copy.slot as usize;
        if self.duplicates.len() <= slot {
            self.duplicates.resize(slot + 1, false);
        }
        self.duplicates[slot] = true;
    }

    fn released(&mut self, core: &mut Core, server: ServerId, copy: CopyId) {
        let was_duplicate = self.duplicates.get_mut(copy.slot as usize).map(core::mem::take);
        if was_duplicate == Some(true) {
            core.lighten(server, false);
        }
    }
}

impl Named for Das {
    type Hedge = Duplication;
    const FORMS: &'static [&'static str] = &["das", "das:nonpreemptive", "das:no-purge"];
    const LOW_PRIORITY: bool = true;

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        let (purges, preempts) = match *args.list() {
            [] => (true, true),
            ["nonpreemptive"] => (true, false),
            ["no-purge"] => (false, true),
            _ => return Err(args.unknown()),
        };
        Ok(Self { purges, preempts })
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match (self.purges, self.preempts) {
            (true, true) => "",
            (true, false) => ":nonpreemptive",
            (false, _) => ":no-purge",
        };
        write!(f, "das{version}")
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Duplication {
        Duplication { purges: self.purges, duplicates: Vec::new() }
    }

    fn needs_cancellation(&self) -> bool {
        self.purges
    }
}
