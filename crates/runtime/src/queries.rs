//! The queries of a cell that have not ended: a slab whose indices are the kernel's names.

use curtail_kernel::{GroupId, QueryId, Timestamp};
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
    slab: Vec<Option<Pending<T>>>,
    free: Vec<u32>,
    tickets: u64,
}

impl<T: Transport> Queries<T> {
    pub(crate) fn new() -> Self {
        Self { slab: Vec::new(), free: Vec::new(), tickets: 0 }
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
        let pending = Pending {
            request,
            reply,
            group,
            arrived,
            started: None,
            copies: 0,
            held: None,
            ticket,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = Some(pending);
                at
            }
            None => {
                self.slab.push(Some(pending));
                self.slab.len() as u32 - 1
            }
        };
        (QueryId(at), ticket)
    }

    pub(crate) fn get(&mut self, query: QueryId) -> Option<&mut Pending<T>> {
        self.slab.get_mut(query.index())?.as_mut()
    }

    pub(crate) fn remove(&mut self, query: QueryId) -> Option<Pending<T>> {
        let pending = self.slab.get_mut(query.index())?.take()?;
        self.free.push(query.0);
        Some(pending)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }
}
