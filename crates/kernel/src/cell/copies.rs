//! The copies that hold a slot, and the queries that have not ended.

use alloc::vec::Vec;

use crate::id::{CopyId, GroupId, NONE, ServerId};
use crate::time::Timestamp;

/// A copy that holds a slot of its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyState {
    /// Tells a live slot from an ended copy that had the same one.
    pub(crate) serial: u64,
    pub(crate) started: Timestamp,
    /// When somebody forecast that it ends; [`Timestamp::NEVER`] when nobody did.
    pub(crate) ends: Timestamp,
    pub(crate) server: ServerId,
    /// Whose answer it may still give; [`NONE`] when it only holds a slot.
    pub(crate) query: u32,
    /// The query's next copy, or the next free entry.
    pub(crate) next: u32,
    /// It was told to stop.
    pub(crate) stopping: bool,
    /// Nobody wants its answer; its drain time-out runs.
    pub(crate) given_up: bool,
    /// It has an entry in [`super::Core::patience`].
    pub(crate) timed: bool,
}

/// A slab of copies. Serial numbers are never used twice.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    slab: Vec<CopyState>,
    /// The first free entry; [`CopyState::next`] leads to the others.
    free: u32,
    next_serial: u64,
}

/// Marks a free entry of the slab.
const ENDED: u64 = u64::MAX;

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
        let serial = self.next_serial;
        self.next_serial += 1;
        let state = CopyState {
            serial,
            started,
            ends: Timestamp::NEVER,
            server,
            query,
            next,
            stopping: false,
            given_up: false,
            timed: false,
        };
        let slot = self.free;
        if let Some(entry) = self.slab.get_mut(slot as usize) {
            self.free = entry.next;
            *entry = state;
            return CopyId { serial, slot };
        }
        self.slab.push(state);
        CopyId { serial, slot: self.slab.len() as u32 - 1 }
    }

    /// A copy that has not ended.
    #[inline(always)]
    pub(crate) fn find(&mut self, copy: CopyId) -> Option<&mut CopyState> {
        self.slab.get_mut(copy.slot as usize).filter(|state| state.serial == copy.serial)
    }

    /// A copy that has not ended, to look at.
    pub(crate) fn peek(&self, copy: CopyId) -> Option<&CopyState> {
        self.slab.get(copy.slot as usize).filter(|state| state.serial == copy.serial)
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

    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: u32) {
        let entry = &mut self.slab[slot as usize];
        entry.serial = ENDED;
        entry.next = core::mem::replace(&mut self.free, slot);
    }

    /// The copies on a server, newest first. For the rare case that it goes down.
    pub(crate) fn on(&self, server: ServerId) -> Vec<u32> {
        let live = |slot: &u32| self.get(*slot).serial != ENDED && self.get(*slot).server == server;
        let mut found: Vec<u32> = (0..self.slab.len() as u32).filter(live).collect();
        found.sort_by_key(|&slot| core::cmp::Reverse(self.get(slot).serial));
        found
    }
}

/// Where a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No such query.
    Ended,
    /// In its group's queue.
    Waiting,
    /// With copies, or about to get one.
    Running,
}

/// A query that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryState {
    /// Counts arrivals: the order of first come, first served.
    pub(crate) seq: u64,
    pub(crate) deadline: Timestamp,
    pub(crate) group: GroupId,
    pub(crate) stage: Stage,
    pub(crate) may_duplicate: bool,
    pub(crate) may_retry: bool,
    pub(crate) retries: u8,
    /// How many copies may still answer it.
    pub(crate) copies: u8,
    /// The first of them.
    pub(crate) first: u32,
    /// Its neighbors in the queue.
    pub(crate) before: u32,
    pub(crate) behind: u32,
    /// The server that failed it last.
    pub(crate) avoid: Option<ServerId>,
    /// The copy that failed last.
    pub(crate) failed: Option<CopyId>,
    /// It has an entry in [`super::Core::deadlines`].
    pub(crate) timed: bool,
}

impl QueryState {
    pub(crate) const ENDED: Self = Self {
        seq: 0,
        deadline: Timestamp::NEVER,
        group: GroupId(0),
        stage: Stage::Ended,
        may_duplicate: false,
        may_retry: false,
        retries: 0,
        copies: 0,
        first: NONE,
        before: NONE,
        behind: NONE,
        avoid: None,
        failed: None,
        timed: false,
    };
}
