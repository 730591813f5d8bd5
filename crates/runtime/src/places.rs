//! The places for servers of a cell whose servers join and leave.
//!
//! The topology of a cell fixes the number of its places. A server that leaves gets no new copies,
//! and its place is free once its copies have ended. Cost per look-up: one uncontended lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curtail_kernel::ServerId;

use crate::cell::Cell;
use crate::transport::Transport;

/// A server at a place.
#[derive(Clone, Debug)]
pub struct Occupant<S> {
    /// The name, which is unique in the cell.
    pub name: Arc<str>,
    /// What reaches the server.
    pub server: S,
}

impl<N: Into<Arc<str>>, S> From<(N, S)> for Occupant<S> {
    fn from((name, server): (N, S)) -> Self {
        Self { name: name.into(), server }
    }
}

/// The servers of a cell, by their places.
#[derive(Debug)]
pub struct Places<S> {
    places: Box<[Mutex<Option<Occupant<S>>>]>,
    /// Locked while a server joins or leaves.
    change: Mutex<()>,
}

impl<S: Clone> Places<S> {
    /// Creates the places, which may be free. The cell must agree ([`Cell::server_left`]).
    pub fn new(occupants: impl IntoIterator<Item = Option<Occupant<S>>>) -> Self {
        Self { places: occupants.into_iter().map(Mutex::new).collect(), change: Mutex::default() }
    }

    fn lock(&self, place: ServerId) -> Option<MutexGuard<'_, Option<Occupant<S>>>> {
        Some(self.places.get(place.index())?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the places, whether free or not.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ServerId> + use<S> {
        (0..self.places.len()).map(|at| ServerId(at as u32))
    }

    /// Returns the server at a place, or the last one if it has left. `None` if there was none.
    pub fn at(&self, place: ServerId) -> Option<Occupant<S>> {
        self.lock(place)?.clone()
    }

    /// Returns the name of the server at a place.
    pub fn name(&self, place: ServerId) -> Option<Arc<str>> {
        self.lock(place)?.as_ref().map(|occupant| Arc::clone(&occupant.name))
    }

    /// Adds a server to a cell. A server of the same name is replaced: it gets no new copies.
    ///
    /// # Errors
    /// Returns the server if there is no free place. Then nothing changes.
    pub fn add<T: Transport>(
        &self,
        cell: &Cell<T>,
        occupant: Occupant<S>,
    ) -> Result<ServerId, Occupant<S>> {
        let _alone = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.find(cell, &occupant.name);
        let is_free = |&place: &ServerId| {
            let view = cell.look(|core| core.server(place));
            (!view.member || Some(place) == before) && view.outstanding == 0
        };
        let Some(place) = self.ids().find(is_free) else { return Err(occupant) };
        before.into_iter().for_each(|before| cell.server_left(before));
        let last = self.lock(place).and_then(|mut at| at.replace(occupant));
        // It may do anything when it is dropped, so the place is not locked.
        drop(last);
        let joined = cell.server_joined(place);
        debug_assert!(joined, "the place is free");
        Ok(place)
    }

    /// Removes a server from a cell. Its copies continue. Returns whether there was a server of this
    /// name.
    pub fn remove<T: Transport>(&self, cell: &Cell<T>, name: &str) -> bool {
        let _alone = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.find(cell, name);
        found.into_iter().for_each(|place| cell.server_left(place));
        found.is_some()
    }

    /// Returns the place of a server that has not left.
    pub fn find<T: Transport>(&self, cell: &Cell<T>, name: &str) -> Option<ServerId> {
        self.ids().find(|&place| {
            let is_it = self
                .lock(place)
                .is_some_and(|at| at.as_ref().is_some_and(|occupant| &*occupant.name == name));
            is_it && cell.look(|core| core.server(place).member)
        })
    }
}
