//! The queries of a cell that have not ended: a slab whose indices are the kernel's names.

use curtail_kernel::{GroupId, QueryId, Timestamp};
use slab::Slab;
use tokio::sync::oneshot;

use crate::response::{QueryError, QueryResponse};
use crate::transport::Transport;

/// Where a query's response goes.
pub(crate) type Sender<T> =
    oneshot::Sender<Result<QueryResponse<<T as Transport>::Response>, Failed<T>>>;

pub(crate) type Failed<T> = QueryError<<T as Transport>::Response>;

pub(crate) struct Pending<T: Transport> {
    pub(crate) request: T::Request,
    pub(crate) reply: Sender<T>,
    pub(crate) group: GroupId,
    pub(crate) arrived: Timestamp,
    /// When its first copy started.
    pub(crate) started: Option<Timestamp>,
    pub(crate) copies: u32,
    /// A bad response, kept in case no copy gives a good one.
    pub(crate) held: Option<T::Response>,
    /// Tells a later user of the same index from this one.
    pub(crate) ticket: u64,
}

pub(crate) struct Queries<T: Transport> {
    slab: Slab<Pending<T>>,
    tickets: u64,
}

impl<T: Transport> Queries<T> {
    pub(crate) fn new() -> Self {
        Self { slab: Slab::new(), tickets: 0 }
    }

    pub(crate) fn add(
        &mut self,
        request: T::Request,
        reply: Sender<T>,
        group: GroupId,
        arrived: Timestamp,
    ) -> (QueryId, u64) {
        self.tickets += 1;
        let ticket = self.tickets;
        let (started, copies, held) = (None, 0, None);
        let pending = Pending { request, reply, group, arrived, started, copies, held, ticket };
        (QueryId(self.slab.insert(pending) as u32), ticket)
    }

    pub(crate) fn get(&mut self, query: QueryId) -> Option<&mut Pending<T>> {
        self.slab.get_mut(query.index())
    }

    pub(crate) fn remove(&mut self, query: QueryId) -> Option<Pending<T>> {
        self.slab.try_remove(query.index())
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}
