//! Hedges that send all copies of a query at once.

use alloc::boxed::Box;

use super::rule::{AllCopies, Hedge, NewHedge};
use crate::action::{Role, StartReason, StopReason};
use crate::balance::Pick;
use crate::cell::Core;
use crate::descriptor::{Compiled, Conduct, Descriptor, Needs};
use crate::id::{CopyId, QueryId};

/// `naive`: every query goes to two servers immediately.
///
/// Source: document 001 §2.3 "Naïve Hedge" (Vulimiri et al.): each query goes to two random servers
/// at the same time. Losers run to completion, or are stopped (`naive:cc`, its strongest form: 000
/// §7.3.5). Cost: O(1).
///
/// Choice: two copies, as in 001 (the thesis sends each query to all replicas). Deviation: a
/// duplicate that finds no server with room is not sent later. In the source, queues are infinite.
pub static NAIVE: Descriptor<NewHedge> = Descriptor {
    name: "naive",
    forms: &["naive[:cc]"],
    about: "a second copy of every query, immediately",
    needs: |of| Needs { cancellation: of.form == 1, ..Needs::NOTHING },
    builds: NewHedge {
        copies: AllCopies::Two,
        ..NewHedge::push(|of, _| Box::new(Naive { cleans_up: of.form == 1 }))
    },
};

/// `tied`: every query goes to two servers at the same time. One copy is stopped as soon as the other
/// begins to execute.
///
/// Source: document 003 §5.2 "Schemes" (Dean and Barroso): "When a request's turn arrives, it sends
/// a purge message to its counterpart. The corresponding request, if not finished, gets purged."
/// Cost: O(1).
///
/// Choices:
/// - Both servers are drawn at random.
/// - The first copy that is reported to have begun continues. Later reports change nothing, whether
///   a cancelled copy begins anyway or a copy begins again.
/// - A cancelled copy may still win until it has stopped, because its response is just as good.
/// - If servers do not report when copies begin, this is [`NAIVE`] with cleanup.
///
/// Deviations: the servers report to the cell, and the cell stops the other copy. In the source,
/// the servers notify each other. If only one server has room, there is no second copy.
pub static TIED: Descriptor<NewHedge> = Descriptor {
    name: "tied",
    forms: &["tied"],
    about: "a second copy of every query, immediately; the copy that begins first stops the other",
    needs: |_| Needs { cancellation: true, budget: true, starts: true, ..Needs::NOTHING },
    builds: NewHedge {
        simulator_only: Some(
            "needs servers that report when they begin a query, and only simulated servers do",
        ),
        ..NewHedge::push(|_, _| Box::new(Tied))
    },
};

/// `clone`: every query runs on every server of its group, from the start.
///
/// Source: document 000 §2.5.2 "Naïve Hedge", which sends each query to all replicas; document 003
/// Table 1 and §5.2 "Cloning", which sends two. Losers run to completion. Cost: O(r).
///
/// Choices:
/// - This is the only policy with more than two copies. In a group of more than 255 servers, 255
///   get a copy: the random server on which the query starts, and those that follow it in the order
///   of the group. The order wraps around at the end.
/// - If all copies of a query fail, it is retried when the last one has failed. Each copy that
///   fails while others run counts as one retry, so with the usual limit and three copies, no retry
///   is left.
///
/// Deviation: a server without room gets no copy, now or later. In the source, queues are infinite.
pub static CLONE: Descriptor<NewHedge> = Descriptor {
    name: "clone",
    forms: &["clone"],
    about: "a copy of every query on every server",
    needs: |_| Needs::NOTHING,
    builds: NewHedge { copies: AllCopies::EveryServer, ..NewHedge::push(|_, _| Box::new(Cloning)) },
};

/// No second copies: plain load balancing.
#[derive(Clone, Debug, Default)]
pub struct NoHedge;

impl<P: Pick + ?Sized> Hedge<P> for NoHedge {}

impl Compiled for NoHedge {
    const NEEDS: Option<Needs> = Some(Needs::NOTHING);
    const HEDGES: bool = false;
}

#[derive(Debug)]
struct Naive {
    cleans_up: bool,
}

impl<P: Pick + ?Sized> Hedge<P> for Naive {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: self.cleans_up, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Hedge);
    }
}

#[derive(Debug)]
struct Tied;

impl<P: Pick + ?Sized> Hedge<P> for Tied {
    fn conduct(&self) -> Conduct {
        Conduct { cleans_up: true, ..Conduct::default() }
    }

    fn primary_started(&mut self, core: &mut Core, pick: &mut P, query: QueryId) {
        core.duplicate(pick, query, StartReason::Hedge);
    }

    fn began(&mut self, core: &mut Core, query: QueryId, copy: CopyId) {
        let other = core.copies_of(query).find(|other| other.id != copy);
        if let Some(other) = other {
            core.stop(other.id, StopReason::Purge);
        }
    }
}

#[derive(Debug)]
struct Cloning;

impl<P: Pick + ?Sized> Hedge<P> for Cloning {
    fn primary_started(&mut self, core: &mut Core, _: &mut P, query: QueryId) {
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
