//! Servers that join and leave a shard while the service runs.
//!
//! A shard has a fixed number of places. A server that leaves gets no new copies, and its place is
//! free once its copies have ended.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use curtail_runtime::{Cell, Occupant};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use tokio::time::timeout;
use tower::discover::Change;

use crate::shard::Shard;
use crate::transport::{Replica, Replicas};

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
        let occupant = Occupant { name: name.into(), server: service };
        let places = &self.cell().transport().places;
        let added = match self.place().is_ring {
            true => Err(occupant),
            false => places.add(self.cell(), occupant).map(|_| ()),
        };
        added.map_err(|occupant| NoPlace {
            shard: self.name().to_owned(),
            server: occupant.name.to_string(),
            places: places.ids().len(),
        })
    }

    /// Removes a server. Its copies continue. Returns whether there was a server of this name. The
    /// servers of a ring are fixed.
    pub fn remove(&self, name: &str) -> bool {
        !self.place().is_ring && self.cell().transport().places.remove(self.cell(), name)
    }
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
                cell.transport().places.remove(&cell, &name);
            }
            Ok(None) if waiting.is_empty() => return,
            Ok(None) => tokio::time::sleep(INTERVAL).await,
            Err(_) => {}
        }
        for (name, service) in std::mem::take(&mut waiting) {
            let occupant = Occupant { name, server: service };
            if let Err(occupant) = cell.transport().places.add(&cell, occupant) {
                waiting.insert(occupant.name, occupant.server);
            }
        }
        // A stream that never stops to offer servers must not fill the memory.
        while waiting.len() > PLACES.max(cell.transport().places.ids().len()) {
            if let Some((name, _)) = waiting.pop_last() {
                tracing::warn!(server = %name, "too many servers wait for a place; call .places(n)");
            }
        }
    }
}
