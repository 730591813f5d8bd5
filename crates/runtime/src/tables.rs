//! The live queries and copies of a cell, keyed by the kernel's ids.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use curtail_kernel::{CopyId, FailReason, GroupId, Outcome, QueryId, StopReason, Timestamp};
use slab::Slab;
use smallvec::SmallVec;

use crate::copy::Copy;
use crate::observe::CopyInfo;
use crate::query::{FailedCopy, QueryError, QueryResponse};
use crate::transport::Transport;
use crate::waker;

/// What a query ends with.
pub(crate) type QueryResult<T> =
    Result<QueryResponse<<T as Transport>::Response>, QueryError<<T as Transport>::Response>>;

/// A query. The kernel reuses ids, and the ticket distinguishes the queries that had the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryKey {
    pub(crate) id: QueryId,
    pub(crate) ticket: u64,
}

pub(crate) type Starts<T> = SmallVec<[Arc<Copy<T>>; 1]>;

/// The kernel's decisions about a query that the future of the query has not seen yet.
pub(crate) struct Mail<T: Transport> {
    /// Copies that must be sent.
    pub(crate) starts: Starts<T>,
    pub(crate) end: Option<QueryResult<T>>,
}

impl<T: Transport> Default for Mail<T> {
    fn default() -> Self {
        Self { starts: SmallVec::new(), end: None }
    }
}

/// A query that has not ended.
pub(crate) struct Pending<T: Transport> {
    pub(crate) group: GroupId,
    pub(crate) arrived: Timestamp,
    /// When its first copy started.
    pub(crate) started: Option<Timestamp>,
    pub(crate) copies: u32,
    /// How many of these had no connection, so no server has seen them.
    pub(crate) unsent: u32,
    /// A bad response, kept in case no copy gives a good one.
    pub(crate) held: Option<Box<QueryResponse<T::Response>>>,
    /// The last copy that failed without a response.
    pub(crate) last: Option<FailedCopy>,
    /// Copies that the future of the query has not seen and must send.
    pub(crate) starts: Starts<T>,
    /// The waker of the future of the query. `None` if it has been used.
    pub(crate) waker: Option<Waker>,
    ticket: u64,
}

/// The response to a query.
pub(crate) fn answer<T: Transport>(
    pending: &Pending<T>,
    flight: &Flight<T>,
    response: T::Response,
    outcome: Outcome,
    now: Timestamp,
) -> QueryResponse<T::Response> {
    QueryResponse {
        response,
        outcome,
        server: flight.info.server,
        role: flight.info.role,
        queued_ns: pending.started.map_or(0, |at| at.since(pending.arrived)),
        took_ns: now.since(pending.arrived),
        ran_ns: now.since(flight.started),
        copies: pending.copies,
        copy: flight.copy.id(),
    }
}

/// Why a query has no good response. `silent` states whether its last copy is still running.
pub(crate) fn failure<T: Transport>(
    pending: &mut Pending<T>,
    why: FailReason,
    silent: bool,
) -> QueryError<T::Response> {
    let held = pending.held.take();
    let timed_out = silent && held.is_none() && why == FailReason::CopyFailed;
    let why = if timed_out { FailReason::Timeout } else { why };
    QueryError::from_fail(why, held, pending.last)
}

pub(crate) struct Queries<T: Transport> {
    slab: Slab<Pending<T>>,
    tickets: u64,
    /// Decisions about queries that have ended, by ticket, until the futures of the queries see them.
    ended: BTreeMap<u64, Mail<T>>,
}

impl<T: Transport> Queries<T> {
    pub(crate) fn new() -> Self {
        Self { slab: Slab::new(), tickets: 0, ended: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, group: GroupId, arrived: Timestamp) -> QueryKey {
        self.tickets += 1;
        let ticket = self.tickets;
        let pending = Pending {
            group,
            arrived,
            started: None,
            copies: 0,
            unsent: 0,
            held: None,
            last: None,
            starts: Starts::<T>::new(),
            waker: None,
            ticket,
        };
        QueryKey { id: QueryId(self.slab.insert(pending) as u32), ticket }
    }

    /// Returns a query that the kernel refers to.
    pub(crate) fn get(&mut self, query: QueryId) -> Option<(QueryKey, &mut Pending<T>)> {
        let pending = self.slab.get_mut(query.index())?;
        Some((QueryKey { id: query, ticket: pending.ticket }, pending))
    }

    /// Returns a query, if it has not ended.
    pub(crate) fn live(&mut self, key: QueryKey) -> Option<&mut Pending<T>> {
        self.slab.get_mut(key.id.index()).filter(|pending| pending.ticket == key.ticket)
    }

    /// Removes a query that has ended.
    pub(crate) fn remove(&mut self, query: QueryId) -> Option<(QueryKey, Pending<T>)> {
        let pending = self.slab.try_remove(query.index())?;
        Some((QueryKey { id: query, ticket: pending.ticket }, pending))
    }

    /// Removes a query, and keeps its result until its future sees it. Returns the waker of that
    /// future.
    pub(crate) fn end(&mut self, query: QueryId, end: QueryResult<T>) -> Option<Waker> {
        let (key, pending) = self.remove(query)?;
        self.ended.insert(key.ticket, Mail { starts: pending.starts, end: Some(end) });
        pending.waker
    }

    /// Takes the decisions about a query, if there are any.
    pub(crate) fn take_mail(&mut self, key: QueryKey) -> Option<Mail<T>> {
        match self.live(key) {
            Some(pending) if pending.starts.is_empty() => None,
            Some(pending) => Some(Mail { starts: std::mem::take(&mut pending.starts), end: None }),
            None => self.ended.remove(&key.ticket),
        }
    }

    /// Sets the waker that is used when there are decisions about a query.
    pub(crate) fn set_waker(&mut self, key: QueryKey, waker: &Waker) {
        let Some(pending) = self.live(key) else { return };
        waker::set(&mut pending.waker, waker);
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}

/// A copy that a server holds.
pub(crate) struct Flight<T: Transport> {
    pub(crate) copy: Arc<Copy<T>>,
    /// The query may have ended.
    pub(crate) query: QueryKey,
    pub(crate) info: CopyInfo,
    pub(crate) started: Timestamp,
    pub(crate) won: bool,
    /// Its query has taken its response, or keeps it in case no better one comes.
    pub(crate) heard: bool,
    /// Why it was cancelled.
    pub(crate) stop_reason: Option<StopReason>,
}

impl<T: Transport> Flight<T> {
    pub(crate) fn new(
        copy: Arc<Copy<T>>,
        query: QueryKey,
        info: CopyInfo,
        started: Timestamp,
    ) -> Self {
        Self { copy, query, info, started, won: false, heard: false, stop_reason: None }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_reason.is_some()
    }
}

pub(crate) struct Flights<T: Transport> {
    flights: Vec<Option<Flight<T>>>,
}

impl<T: Transport> Flights<T> {
    pub(crate) fn new() -> Self {
        Self { flights: Vec::new() }
    }

    pub(crate) fn add(&mut self, flight: Flight<T>) {
        let at = flight.copy.id().slot as usize;
        if self.flights.len() <= at {
            self.flights.resize_with(at + 1, || None);
        }
        self.flights[at] = Some(flight);
    }

    pub(crate) fn get(&mut self, copy: CopyId) -> Option<&mut Flight<T>> {
        let flight = self.flights.get_mut(copy.slot as usize)?.as_mut()?;
        (flight.copy.id().serial == copy.serial).then_some(flight)
    }

    pub(crate) fn remove(&mut self, copy: CopyId) -> Option<Flight<T>> {
        self.get(copy)?;
        self.flights[copy.slot as usize].take()
    }
}
