//! DAS, duplicate-aware scheduling: every query is sent to two servers at once, the second copy at a low priority
//! that makes it harmless, and what is no longer needed is purged.
//!
//! Source: document 003 §2.2 and §3. The servers do what makes it safe: each serves duplicates only when no primary
//! is there ([`crate::stage`]), so no query takes longer than without duplication, and the duplicates find the room
//! that the load leaves. A copy that has won purges the other, wherever that waits or runs. Cost: O(1).
//!
//! Settled:
//! - Both servers are drawn at random, as in §5.3; any pick goes with it (`das+least-outstanding`), and does not
//!   count duplicates as load. Else it would be the duplicates that decide where primaries go.
//! - A duplicate waits at its server and never in the cell, so the policy pushes: gates of slots or a bound, which
//!   duplicates would fill, are refused. They take up to half of `max_outstanding`; then, and where a server refuses
//!   one, the query goes on with one copy.
//! - A duplicate has no attempt timeout: it may wait for as long as primaries come. The deadline of its query bounds it.
//! - `das:no-purge` lets the loser run to its end: *cloning and prioritization* of §5.3, a yardstick.
//! - `das:nonpreemptive` is for simulated servers that finish what they began, whatever arrives. Real ones say for
//!   themselves whether they pre-empt.
//! - The hedge budget does not apply: full duplication is the point.
//!
//! Deviation: a copy that failed makes its query's other copy the retry, as everywhere here; it keeps its low
//! priority.

use alloc::vec::Vec;
use core::fmt;

use super::Hedge;
use crate::action::{Role, StartReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::{CopyId, QueryId, ServerId};
use crate::policy::{Args, Named, PolicyError};

/// A second copy of low priority for every query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Das {
    /// The loser is stopped.
    pub purges: bool,
    /// A simulated server gives the slot of a duplicate to a primary at once.
    pub preempts: bool,
}

/// The hedge of [`Das`].
#[derive(Clone, Debug)]
pub struct Duplication {
    purges: bool,
    /// By slot of a copy: is it a duplicate?
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
        // It may wait for long, and that says nothing of its server.
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
