//! The live queries and copies of a cell, keyed by the kernel's ids.

use curtail_kernel::{CopyId, GroupId, QueryId, StopReason, Timestamp};
use slab::Slab;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::failure::Failure;
use crate::observe::CopyInfo;
use crate::query::{QueryError, QueryResponse};
use crate::transport::Transport;

/// What a query ends with.
pub(crate) type QueryResult<T> =
    Result<QueryResponse<<T as Transport>::Response>, QueryError<<T as Transport>::Response>>;

pub(crate) struct Pending<T: Transport> {
    pub(crate) request: T::Request,
    pub(crate) reply: oneshot::Sender<QueryResult<T>>,
    pub(crate) group: GroupId,
    pub(crate) arrived: Timestamp,
    /// When its first copy started.
    pub(crate) started: Option<Timestamp>,
    pub(crate) copies: u32,
    /// A bad response, kept in case no copy gives a good one.
    pub(crate) held: Option<T::Response>,
    /// Why the last copy that failed without a response did.
    pub(crate) failure: Option<Failure>,
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
        reply: oneshot::Sender<QueryResult<T>>,
        group: GroupId,
        arrived: Timestamp,
    ) -> (QueryId, u64) {
        self.tickets += 1;
        let ticket = self.tickets;
        let (started, copies, held, failure) = (None, 0, None, None);
        let pending =
            Pending { request, reply, group, arrived, started, copies, held, failure, ticket };
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

pub(crate) struct Flight {
    pub(crate) serial: u64,
    /// Whose copy it was. The query may have ended: its ticket says.
    pub(crate) query: QueryId,
    pub(crate) ticket: u64,
    pub(crate) info: CopyInfo,
    pub(crate) started: Timestamp,
    pub(crate) won: bool,
    /// Its query took its response, or keeps it in case no better one comes.
    pub(crate) heard: bool,
    /// Not there yet while the task is being started.
    task: Option<AbortHandle>,
    /// Why it was cancelled.
    pub(crate) stop_reason: Option<StopReason>,
}

impl Flight {
    pub(crate) fn new(
        copy: CopyId,
        (query, ticket): (QueryId, u64),
        info: CopyInfo,
        started: Timestamp,
    ) -> Self {
        let (serial, task, stop_reason) = (copy.serial, None, None);
        let (won, heard) = (false, false);
        Self { serial, query, ticket, info, started, won, heard, task, stop_reason }
    }

    pub(crate) fn stop(&mut self, why: StopReason) {
        self.stop_reason = Some(why);
        self.abort();
    }

    pub(crate) fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_reason.is_some()
    }

    pub(crate) fn runs_as(&mut self, task: AbortHandle) {
        if self.is_stopping() {
            task.abort();
        }
        self.task = Some(task);
    }
}

#[derive(Default)]
pub(crate) struct Flights {
    flights: Vec<Option<Flight>>,
}

impl Flights {
    pub(crate) fn add(&mut self, copy: CopyId, flight: Flight) {
        let at = copy.slot as usize;
        if self.flights.len() <= at {
            self.flights.resize_with(at + 1, || None);
        }
        self.flights[at] = Some(flight);
    }

    pub(crate) fn get(&mut self, copy: CopyId) -> Option<&mut Flight> {
        let flight = self.flights.get_mut(copy.slot as usize)?.as_mut()?;
        (flight.serial == copy.serial).then_some(flight)
    }

    pub(crate) fn remove(&mut self, copy: CopyId) -> Option<Flight> {
        self.get(copy)?;
        self.flights[copy.slot as usize].take()
    }
}
