//! Cloning: every query runs on every server of its group, from the start.
//!
//! Source: document 000 §2.5.2 "Naïve Hedge", which sends each query to all replicas; document 003
//! Table 1 and §5.2 "Cloning", which sends two. Losers run to completion. Cost: O(r).
//!
//! Choices:
//! - This is the only policy with more than two copies. In a group of more than 255 servers, 255
//!   get a copy: the random server on which the query starts, and those that follow it in the order
//!   of the group. The order wraps around at the end.
//! - If all copies of a query fail, it is retried when the last one has failed. Each copy that
//!   fails while others run counts as one retry, so with the usual limit and three copies, no retry
//!   is left.
//!
//! Deviation: a server without room gets no copy, now or later. In the source, queues are infinite.

use super::Hedge;
use crate::action::{Role, StartReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::config::{Limits, Topology};
use crate::id::QueryId;
use crate::policy::{Args, Named, PolicyError};

/// A hedge that starts a copy on every server that has room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cloning;

impl Hedge for Cloning {
    const BUDGETED: bool = false;

    fn primary_started<P: Pick>(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
        if !core.may_duplicate(query) {
            return;
        }
        let Some(first) = core.copies_of(query).next() else { return };
        let group = core.group_of(query);
        let count = core.servers_of(group).len();
        let Some(at) = core.servers_of(group).iter().position(|&s| s == first.server) else {
            return;
        };
        let mut more = Core::MOST_COPIES - 1;
        for step in 1..count {
            let server = core.servers_of(group)[(at + step) % count];
            if more > 0 && core.has_room(server) {
                core.start(query, server, Role::Duplicate, StartReason::Hedge);
                more -= 1;
            }
        }
    }
}

impl Named for Cloning {
    type Hedge = Self;
    const FORMS: &'static [&'static str] = &["clone"];

    fn parse(args: &Args<'_>) -> Result<Self, PolicyError> {
        if args.list().is_empty() { Ok(Self) } else { Err(args.unknown()) }
    }

    fn hedge(&self, _: &Topology, _: &Limits) -> Self {
        *self
    }
}
