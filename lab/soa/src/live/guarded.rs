//! Processes whose admission and calls are controlled by published methods of other authors: the
//! simulator's [`Guard`]s, over gRPC.
//!
//! A request contains the identity of its sender and `grpc-timeout`. A response contains the signal
//! of its process's guard. All times are in the file's time.
//!
//! Cost: one short lock per decision.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curtail_flow::metadata::parse_timeout;
use curtail_sim::graph::{Ask, Guard};
use tokio::time::Instant;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Status};

use super::clock::Clock;

const ASK: &str = "ask";
const SIGNAL: &str = "signal";

/// The sender of a request, and the time from which the request is late.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestMeta {
    pub(super) ask: Ask,
    pub(super) deadline: Instant,
}

impl RequestMeta {
    pub(super) fn write<T>(self, request: &mut Request<T>) {
        let Ask { business, user } = self.ask;
        if let Ok(text) = MetadataValue::try_from(format!("{business}:{user}")) {
            request.metadata_mut().insert(ASK, text);
        }
        request.set_timeout(self.deadline.saturating_duration_since(Instant::now()));
    }

    /// Reads the metadata of a request. `None` if it is malformed.
    pub(super) fn read(metadata: &MetadataMap) -> Option<Self> {
        let (business, user) = metadata.get(ASK)?.to_str().ok()?.split_once(':')?;
        let ask = Ask { business: business.parse().ok()?, user: user.parse().ok()? };
        let left: Duration = parse_timeout(metadata.get("grpc-timeout")?.as_bytes())?;
        Some(Self { ask, deadline: Instant::now().checked_add(left)? })
    }
}

/// The guard of a process.
pub(super) struct Guarded {
    guard: Mutex<Box<dyn Guard>>,
    clock: Clock,
    /// The number of requests that were not admitted.
    pub(super) turned_away: AtomicU64,
}

/// An admitted request. Unless `is_good` is set, dropping it reports a failure to the guard.
pub(super) struct Inside<'a> {
    of: &'a Guarded,
    since: u64,
    pub(super) is_good: bool,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let (mut guard, now) = self.of.lock();
        guard.left(now, now.saturating_sub(self.since), self.is_good);
    }
}

impl Guarded {
    pub(super) fn new(guard: Box<dyn Guard>, clock: Clock) -> Self {
        Self { guard: Mutex::new(guard), clock, turned_away: AtomicU64::new(0) }
    }

    fn lock(&self) -> (MutexGuard<'_, Box<dyn Guard>>, u64) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        (guard, self.clock.now())
    }

    pub(super) fn admit(&self, ask: Ask) -> Result<Inside<'_>, Status> {
        let (mut guard, since) = self.lock();
        match guard.admit(since, ask) {
            true => Ok(Inside { of: self, since, is_good: false }),
            false => {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                Err(Status::resource_exhausted("turned away"))
            }
        }
    }

    /// Reports that a sub-task got the slot that it requested at `requested`.
    pub(super) fn waited(&self, requested: Instant) {
        let (mut guard, now) = self.lock();
        guard.waited(now, self.clock.file_ns(requested.elapsed()));
    }

    pub(super) fn call(&self, to: usize, ask: Ask) -> Result<(), Status> {
        let (mut guard, now) = self.lock();
        match guard.call(now, to as u32, ask) {
            true => Ok(()),
            false => Err(Status::resource_exhausted("not called")),
        }
    }

    /// Reports that a call has returned. A call without a signal did not reach the guard of its
    /// process.
    pub(super) fn returned(&self, to: usize, is_good: bool, metadata: &MetadataMap) {
        let signal = metadata.get(SIGNAL).and_then(|text| text.to_str().ok()?.parse().ok());
        if let Some(signal) = signal {
            let (mut guard, now) = self.lock();
            guard.returned(now, to as u32, is_good, signal);
        }
    }

    pub(super) fn sign(&self, metadata: &mut MetadataMap) {
        let (mut guard, now) = self.lock();
        if let Ok(text) = MetadataValue::try_from(guard.signal(now).to_string()) {
            metadata.insert(SIGNAL, text);
        }
    }
}
