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

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::rule::{Hedge, NewHedge};
use crate::action::{Role, StartReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::descriptor::{Conduct, Descriptor, Needs};
use crate::id::{CopyId, QueryId, ServerId};

/// `das`
pub static DAS: Descriptor<NewHedge> = Descriptor {
    name: "das",
    forms: &["das", "das:nonpreemptive", "das:no-purge"],
    about: "a second copy of every query, with a low priority at its server",
    needs: |of| Needs {
        cancellation: of.form != NO_PURGE,
        priority: true,
        finishing: of.form == NONPREEMPTIVE,
        ..Needs::NOTHING
    },
    builds: NewHedge::push(|of, _| {
        Box::new(Duplication { purges: of.form != NO_PURGE, duplicates: Vec::new() })
    }),
};

const NONPREEMPTIVE: usize = 1;
const NO_PURGE: usize = 2;

#[derive(Debug)]
struct Duplication {
    purges: bool,
    /// Whether the copy in each copy slot is a duplicate.
    duplicates: Vec<bool>,
}

impl<P: Pick + ?Sized> Hedge<P> for Duplication {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: self.purges, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
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
