//! Servers that join and leave a shard while the service runs.
//!
//! A shard has a fixed number of places. A server that leaves gets no new copies, and its place is
//! free once its copies have ended.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::ServerId;
use curtail_runtime::Cell;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use tokio::time::timeout;
use tower::discover::Change;

use crate::shard::Shard;
use crate::transport::{Occupant, Replica, Replicas};

/// The number of places of a shard whose servers are discovered.
pub(crate) const PLACES: usize = 64;

/// How often servers that wait for a place are considered again.
const INTERVAL: Duration = Duration::from_millis(250);

/// All places of a shard are taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "shard {shard} has no place left for server {server}: all {places} are taken; call .places(n), or try again when its copies have ended"
)]
#[non_exhaustive]
pub struct NoPlace {
    /// The name of the shard.
    pub shard: String,
    /// The name of the server.
    pub server: String,
    /// The number of places.
    pub places: usize,
}

impl<S: Replica<R>, R: Send + 'static> Shard<S, R> {
    /// Adds a server. A server of the same name is replaced: it gets no new copies.
    ///
    /// # Errors
    /// All places are taken, by servers or by the copies of servers that have left, or the shard
    /// belongs to a ring, whose servers are fixed. Then nothing changes.
    pub fn add(&self, name: impl Into<Arc<str>>, service: S) -> Result<(), NoPlace> {
        let occupant = Occupant { name: name.into(), service };
        let added = if self.place().is_ring { Err(occupant) } else { add(self.cell(), occupant) };
        added.map_err(|occupant| NoPlace {
            shard: self.name().to_owned(),
            server: occupant.name.to_string(),
            places: self.cell().transport().places(),
        })
    }

    /// Removes a server. Its copies continue. Returns whether there was a server of this name. The
    /// servers of a ring are fixed.
    pub fn remove(&self, name: &str) -> bool {
        !self.place().is_ring && remove(self.cell(), name)
    }
}

fn places<S: Replica<R>, R: Send + 'static>(
    cell: &Cell<Replicas<S, R>>,
) -> impl Iterator<Item = ServerId> + use<S, R> {
    (0..cell.transport().places()).map(|at| ServerId(at as u32))
}

/// Returns the server if there is no place for it.
fn add<S: Replica<R>, R: Send + 'static>(
    cell: &Cell<Replicas<S, R>>,
    occupant: Occupant<S>,
) -> Result<(), Occupant<S>> {
    let _alone = cell.transport().change();
    let before = find(cell, &occupant.name);
    let is_free = |&place: &ServerId| {
        let view = cell.look(|core| core.server(place));
        (!view.member || Some(place) == before) && view.outstanding == 0
    };
    let Some(place) = places(cell).find(is_free) else { return Err(occupant) };
    before.into_iter().for_each(|before| cell.server_left(before));
    cell.transport().occupy(place, occupant);
    let joined = cell.server_joined(place);
    debug_assert!(joined, "the place is free");
    Ok(())
}

fn remove<S: Replica<R>, R: Send + 'static>(cell: &Cell<Replicas<S, R>>, name: &str) -> bool {
    let _alone = cell.transport().change();
    let found = find(cell, name);
    found.into_iter().for_each(|place| cell.server_left(place));
    found.is_some()
}

/// Returns the place of a server.
fn find<S: Replica<R>, R: Send + 'static>(
    cell: &Cell<Replicas<S, R>>,
    name: &str,
) -> Option<ServerId> {
    let is_it = |&place: &ServerId| {
        cell.transport().name(place).as_deref() == Some(name)
            && cell.look(|core| core.server(place).member)
    };
    places(cell).find(is_it)
}

/// A stream of servers that join and leave.
pub(crate) type Discovery<S> = BoxStream<'static, Change<Arc<str>, S>>;

/// Names the servers of a stream, and logs its errors.
pub(crate) fn discovery<S, K, E>(
    shard: String,
    changes: impl Stream<Item = Result<Change<K, S>, E>> + Send + 'static,
) -> Discovery<S>
where
    S: Send + 'static,
    K: Into<Arc<str>>,
    E: Display,
{
    let named = move |change: Result<Change<K, S>, E>| {
        let change = match change {
            Ok(Change::Insert(name, service)) => Some(Change::Insert(name.into(), service)),
            Ok(Change::Remove(name)) => Some(Change::Remove(name.into())),
            Err(error) => {
                tracing::warn!(shard, %error, "discovery failed; the servers stay as they are");
                None
            }
        };
        std::future::ready(change)
    };
    changes.filter_map(named).boxed()
}

/// Applies changes until the stream ends. A server without a place waits for one.
pub(crate) async fn follow<S: Replica<R>, R: Send + 'static>(
    cell: Cell<Replicas<S, R>>,
    mut changes: Discovery<S>,
) {
    let mut waiting: BTreeMap<Arc<str>, S> = BTreeMap::new();
    loop {
        let next = match waiting.is_empty() {
            true => Ok(changes.next().await),
            false => timeout(INTERVAL, changes.next()).await,
        };
        match next {
            Ok(Some(Change::Insert(name, service))) => _ = waiting.insert(name, service),
            Ok(Some(Change::Remove(name))) => {
                waiting.remove(&name);
                remove(&cell, &name);
            }
            Ok(None) if waiting.is_empty() => return,
            Ok(None) => tokio::time::sleep(INTERVAL).await,
            Err(_) => {}
        }
        for (name, service) in std::mem::take(&mut waiting) {
            if let Err(occupant) = add(&cell, Occupant { name, service }) {
                waiting.insert(occupant.name, occupant.service);
            }
        }
        // A stream that never stops to offer servers must not fill the memory.
        while waiting.len() > PLACES.max(cell.transport().places()) {
            if let Some((name, _)) = waiting.pop_last() {
                tracing::warn!(server = %name, "too many servers wait for a place; call .places(n)");
            }
        }
    }
}
