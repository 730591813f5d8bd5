//! The copies that hold a slot, and the queries that have not ended.

use alloc::vec::Vec;

use crate::action::EjectReason;
use crate::event::Arrive;
use crate::id::{CopyId, GroupId, NONE, ServerId};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyState {
    /// Distinguishes a live copy from an ended copy that had the same slot.
    pub(crate) serial: u64,
    pub(crate) started: Timestamp,
    /// The time at which the copy is forecast to end, or [`Timestamp::NEVER`].
    pub(crate) ends: Timestamp,
    pub(crate) server: ServerId,
    /// The query that the copy may still answer, or [`NONE`] if the copy only holds a slot. In a
    /// free entry, the index of the next free entry.
    pub(crate) query: u32,
    pub(crate) next: u32,
    pub(crate) stopping: bool,
    /// Whether the copy was given up. If it was, the copy's cancel timeout is running.
    pub(crate) given_up: bool,
    /// Whether the copy's failure has been recorded as evidence. Later reports of the same failure
    /// do not count.
    pub(crate) judged: bool,
    pub(crate) beaten: bool,
    /// Whether the copy has an entry in `Timers::copies`.
    pub(crate) timed: bool,
}

/// A slab of copies. Serial numbers are never used twice.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    slab: Vec<CopyState>,
    /// The first free entry. Free entries are linked through [`CopyState::query`].
    free: u32,
    next_serial: u64,
}

const ENDED: u64 = u64::MAX;

impl CopyState {
    const ENDED: Self = Self {
        serial: ENDED,
        started: Timestamp::NEVER,
        ends: Timestamp::NEVER,
        server: ServerId(NONE),
        query: NONE,
        next: NONE,
        stopping: false,
        given_up: false,
        judged: false,
        beaten: false,
        timed: false,
    };

    fn is_on(&self, server: ServerId) -> bool {
        self.serial != ENDED && self.server == server
    }
}

impl Copies {
    pub(crate) fn new() -> Self {
        Self { slab: Vec::new(), free: NONE, next_serial: 0 }
    }

    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        query: u32,
        next: u32,
        server: ServerId,
        started: Timestamp,
    ) -> CopyId {
        let slot = self.free;
        let Some(entry) = self.slab.get_mut(slot as usize) else {
            return self.add_in_new_entry(query, next, server, started);
        };
        self.free = entry.query;
        let serial = self.next_serial;
        self.next_serial += 1;
        *entry = CopyState {
            serial,
            started,
            ends: Timestamp::NEVER,
            server,
            query,
            next,
            stopping: false,
            given_up: false,
            judged: false,
            beaten: false,
            timed: false,
        };
        CopyId { serial, slot }
    }

    #[cold]
    #[inline(never)]
    fn add_in_new_entry(
        &mut self,
        query: u32,
        next: u32,
        server: ServerId,
        started: Timestamp,
    ) -> CopyId {
        self.free = self.slab.len() as u32;
        self.slab.push(CopyState::ENDED);
        self.add(query, next, server, started)
    }

    #[inline(always)]
    pub(crate) fn find(&mut self, copy: CopyId) -> Option<&mut CopyState> {
        self.slab.get_mut(copy.slot as usize).filter(|state| state.serial == copy.serial)
    }

    pub(crate) fn peek(&self, copy: CopyId) -> Option<&CopyState> {
        self.slab.get(copy.slot as usize).filter(|state| state.serial == copy.serial)
    }

    /// Returns the run time of the copy in this slot, or of the last copy that was there.
    #[inline(always)]
    pub(crate) fn ran_ns(&self, copy: CopyId, now: Timestamp) -> u64 {
        self.try_get(copy.slot).map_or(0, |copy| now.since(copy.started))
    }

    /// Returns the copy in a slot. `None` for [`NONE`].
    #[inline(always)]
    pub(crate) fn try_get(&self, slot: u32) -> Option<&CopyState> {
        self.slab.get(slot as usize)
    }

    pub(crate) fn get(&self, slot: u32) -> &CopyState {
        &self.slab[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut CopyState {
        &mut self.slab[slot as usize]
    }

    pub(crate) fn id(&self, slot: u32) -> CopyId {
        CopyId { serial: self.get(slot).serial, slot }
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        Live { entry: &mut self.slab[slot as usize], free: &mut self.free, slot }.end();
    }

    #[inline(always)]
    pub(crate) fn live(&mut self, copy: CopyId) -> Option<Live<'_>> {
        let CopyId { serial, slot } = copy;
        let entry = self.slab.get_mut(slot as usize).filter(|entry| entry.serial == serial)?;
        Some(Live { entry, free: &mut self.free, slot })
    }

    /// Returns the copies on a server, newest first. O(copies of the cell), which is acceptable
    /// because servers rarely go down.
    pub(crate) fn on(&self, server: ServerId) -> Vec<u32> {
        let here = |slot: &u32| self.get(*slot).is_on(server);
        let mut found: Vec<u32> = (0..self.slab.len() as u32).filter(here).collect();
        found.sort_by_key(|&slot| core::cmp::Reverse(self.get(slot).serial));
        found
    }

    /// Whether a client waits for a copy on this server. O(copies of the cell), so it is called
    /// only for servers in trouble.
    pub(crate) fn awaited_on(&self, server: ServerId) -> bool {
        self.slab.iter().any(|copy| copy.is_on(server) && !copy.given_up && !copy.stopping)
    }
}

/// A copy that has not ended. A single lookup is enough to read it and to end it.
pub(crate) struct Live<'a> {
    entry: &'a mut CopyState,
    free: &'a mut u32,
    slot: u32,
}

impl Live<'_> {
    #[inline(always)]
    pub(crate) fn state(&self) -> &CopyState {
        self.entry
    }

    #[inline(always)]
    pub(crate) fn end(self) {
        self.entry.serial = ENDED;
        self.entry.query = core::mem::replace(self.free, self.slot);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The query has not failed, or has failed only for reasons that are not evidence.
    Nothing,
    /// This server failed the query. A response from another server decides which of the two is at
    /// fault.
    Server(ServerId, EjectReason),
    /// Two servers failed the query, or a server that has since left the cell.
    Request,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryPhase {
    /// No such query.
    Ended,
    Waiting,
    /// The query has copies, or is about to get one.
    Running,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryState {
    /// Arrival number: waiting queries are served in this order.
    pub(crate) seq: u64,
    pub(crate) deadline: Timestamp,
    pub(crate) group: GroupId,
    pub(crate) may_duplicate: bool,
    pub(crate) may_retry: bool,
    /// Number of retries. If two copies fail, the failure of the second one counts as a retry.
    pub(crate) retries: u8,
    /// Number of failures of servers since the last retry.
    pub(crate) failures: u8,
    pub(crate) phase: QueryPhase,
    /// Number of copies that may still win, up to `Core::MOST_COPIES`.
    pub(crate) copies: u8,
    /// The slot of the newest of these copies.
    pub(crate) first: u32,
    /// The query's neighbors in its queue.
    pub(crate) before: u32,
    pub(crate) behind: u32,
    /// The copy that failed last, and its server, which is [`NONE`] if another one has joined in its
    /// place.
    pub(crate) failed: Option<(CopyId, ServerId)>,
    /// Whether that copy was never sent.
    pub(crate) unsent: bool,
    pub(crate) refused: bool,
    pub(crate) blame: Blame,
}

impl QueryState {
    pub(crate) const ENDED: Self = Self {
        seq: 0,
        deadline: Timestamp::NEVER,
        group: GroupId(0),
        phase: QueryPhase::Ended,
        may_duplicate: false,
        may_retry: false,
        retries: 0,
        failures: 0,
        copies: 0,
        first: NONE,
        before: NONE,
        behind: NONE,
        failed: None,
        unsent: false,
        refused: false,
        blame: Blame::Nothing,
    };

    #[inline(always)]
    pub(crate) fn new(arrive: &Arrive, deadline: Timestamp, seq: u64) -> Self {
        // Every field is written out, because the compiler would copy those of `..Self::ENDED`, which
        // costs three instructions more.
        Self {
            seq,
            deadline,
            group: arrive.group,
            phase: QueryPhase::Running,
            may_duplicate: arrive.may_duplicate,
            may_retry: arrive.may_retry,
            retries: 0,
            failures: 0,
            copies: 0,
            first: NONE,
            before: NONE,
            behind: NONE,
            failed: None,
            unsent: false,
            refused: false,
            blame: Blame::Nothing,
        }
    }

    /// Whether the query has an entry in `Timers::deadlines`.
    #[inline(always)]
    pub(crate) fn timed(&self) -> bool {
        self.deadline != Timestamp::NEVER
    }

    #[inline(always)]
    pub(crate) fn attach(&mut self, slot: u32) {
        self.first = slot;
        self.copies += 1;
    }

    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.phase = QueryPhase::Ended;
        self.first = NONE;
        self.copies = 0;
    }

    /// Returns the server on which the query last failed.
    pub(crate) fn avoid(&self) -> Option<ServerId> {
        self.failed.map(|(_, server)| server)
    }
}
