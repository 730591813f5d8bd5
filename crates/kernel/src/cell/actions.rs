//! The actions of the current event.
//!
//! Each action is written in place, field by field. `Vec::push` would build it elsewhere and then
//! copy it. The copy would use loads that are wider than the preceding stores, which would stall
//! the processor.

use alloc::vec::Vec;

use crate::action::{Action, ShedReason};
use crate::id::{NONE, QueryId};

/// The content of entries that have never been used.
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

    /// Returns the action of an event that has only one, without using the list.
    #[inline(always)]
    pub(crate) fn only(&mut self, action: Action) -> &[Action] {
        self.only = action;
        core::slice::from_ref(&self.only)
    }
}
