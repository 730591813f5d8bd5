//! The queries that may need a rescue, by group: those with one copy that an idle server may
//! duplicate, suspects, and pairs in which one copy may be stopped. A query is in at most one of
//! the lists.

use crate::heap::Heaps;
use crate::id::{GroupId, QueryId};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Queries with one copy that an idle server may duplicate, oldest first.
    Idle,
    Suspects,
    /// Queries with two copies, the newer of which may be stopped. The query whose older copy is
    /// the youngest comes first.
    Pairs,
}

#[derive(Clone, Debug)]
pub(super) struct Lists {
    heaps: Heaps<u64>,
    suspects: u32,
}

impl List {
    fn of(self, group: GroupId) -> usize {
        3 * group.index() + self as usize
    }
}

impl Lists {
    pub(super) fn new(groups: usize) -> Self {
        Self { heaps: Heaps::new(3 * groups), suspects: 0 }
    }

    /// Adds a query that is in no list. `since` is the time at which its older copy began.
    pub(super) fn add(&mut self, list: List, group: GroupId, query: QueryId, since: Timestamp) {
        let key = if list == List::Pairs { u64::MAX - since.0 } else { since.0 };
        self.suspects += u32::from(list == List::Suspects);
        self.heaps.insert(list.of(group), key, query.0);
    }

    pub(super) fn remove(&mut self, group: GroupId, query: QueryId) {
        if !self.heaps.contains(query.0) {
            return;
        }
        let mut lists = [List::Idle, List::Suspects, List::Pairs].into_iter();
        let list = lists.find(|list| self.heaps.holds(list.of(group), query.0));
        let list = list.expect("a query is listed in its own group");
        self.suspects -= u32::from(list == List::Suspects);
        self.heaps.remove(list.of(group), query.0);
    }

    pub(super) fn are_empty(&self) -> bool {
        self.heaps.are_empty()
    }

    pub(super) fn any_suspects(&self) -> bool {
        self.suspects > 0
    }

    pub(super) fn suspects(&self) -> u32 {
        self.suspects
    }

    pub(super) fn len(&self, list: List, group: GroupId) -> u32 {
        self.heaps.len(list.of(group)) as u32
    }

    /// Returns the first query of a list that matches `wanted`, and its sort key.
    pub(super) fn first(
        &self,
        list: List,
        group: GroupId,
        wanted: impl Fn(QueryId) -> bool,
    ) -> Option<(u64, QueryId)> {
        let found = self.heaps.first_where(list.of(group), |query| wanted(QueryId(query)));
        found.map(|(key, query)| (key, QueryId(query)))
    }
}
