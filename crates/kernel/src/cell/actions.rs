//! The actions of the event at hand.
//!
//! Each is written where it stays, field by field. A vector's `push` builds it elsewhere first and
//! copies it in wider pieces than it was written in, which the processor has to wait for.

use alloc::vec::Vec;

use crate::action::{Action, ShedReason};
use crate::id::{NONE, QueryId};

/// What entries hold that were never used.
const NOTHING: Action = Action::Shed { query: QueryId(NONE), why: ShedReason::Expired };

/// A list that keeps its entries when it is cleared.
#[derive(Clone, Debug)]
pub(crate) struct Actions {
    only: Action,
    entries: Vec<Action>,
    used: usize,
}

impl Actions {
    pub(crate) fn new() -> Self {
        Self { only: NOTHING, entries: Vec::new(), used: 0 }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> &mut Action {
        let at = self.used;
        self.used += 1;
        if at >= self.entries.len() {
            self.grow();
        }
        &mut self.entries[at]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.entries.push(NOTHING);
    }

    #[inline(always)]
    pub(crate) fn list(&self) -> &[Action] {
        &self.entries[..self.used]
    }

    /// The action of an event that brings no other: it needs no list.
    #[inline(always)]
    pub(crate) fn only(&mut self, action: Action) -> &[Action] {
        self.only = action;
        core::slice::from_ref(&self.only)
    }
}
